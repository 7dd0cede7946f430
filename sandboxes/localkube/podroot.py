"""What a Pod sees: the host's programs read-only, its own home and temporary folders, and nothing else.

In two steps, so that a Pod is cheap. Once, the fork server builds a template (binds, masks, devices) and makes it its
own root: whatever is not in it cannot be reached any more. Then each Pod, born with a copy of those few mounts, binds
them into a root of its own on a fresh tmpfs.
"""

import os
from collections.abc import Iterable
from pathlib import Path

from sandboxes.localkube import linux

USER_ID = 1000
STAGE = Path("/.stage")
_SHARED = ("usr", "etc", "bin", "sbin", "lib", "lib32", "lib64", "libx32")
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_DEVICE_LINKS = {
    "fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2",
    "ptmx": "pts/ptmx", "shm": "/run/shm",
}  # fmt: skip
_SECRETS = ("shadow", "shadow-", "gshadow", "gshadow-", "sudoers", "sudoers.d", "ssh", "ssl/private", "kubernetes")
_PRIVATE = {  # directory: mode, owner
    "root": (0o700, 0), "home/user": (0o755, USER_ID), "tmp": (0o1777, 0), "var/tmp": (0o1777, 0),
    "var/log": (0o755, 0), "var/lib": (0o755, 0), "var/cache": (0o755, 0), "run": (0o755, 0), "run/shm": (0o1777, 0),
    "proc": (0o555, 0), "sys": (0o555, 0), "mnt": (0o755, 0), "opt": (0o755, 0), "srv": (0o755, 0),
}  # fmt: skip
_USERS = """root:x:0:0:root:/root:/bin/bash
daemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin
www-data:x:33:33:www-data:/var/www:/usr/sbin/nologin
user:x:1000:1000:user:/home/user:/bin/bash
nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin
"""
_GROUP = "root:x:0:\ndaemon:x:1:\ntty:x:5:\nwww-data:x:33:\nusers:x:100:\nuser:x:1000:\nnogroup:x:65534:\n"
_ETC = {"passwd": _USERS, "group": _GROUP, "hostname": "sandbox\n", "hosts": "127.0.0.1 localhost\n", "resolv.conf": ""}


class Template:
    """The root that all Pods are made from. `mounts` are (source, destination), `hidden` is never visible in a Pod."""

    def __init__(self, base: Path, mounts: Iterable[tuple[Path, Path]], hidden: Iterable[Path]) -> None:
        self._base = base
        self._hidden = [path.resolve() for path in hidden]
        self._mounts = [(source.resolve(), destination) for source, destination in mounts]

    def enter(self) -> None:
        """Build it and make it the root of the calling process (which has a mount namespace of its own)."""
        linux.make_mounts_private()
        linux.mount("tmpfs", self._base, "tmpfs", linux.NO_SUID | linux.NO_DEV, "mode=0755")
        for directory in (STAGE.name, "proc", "sys/fs/cgroup", ".own", ".own/empty"):
            (self._base / directory).mkdir(parents=True, exist_ok=True)
        for name in _SHARED:
            self._share(Path("/", name), self._base / name)
        self._own_etc()
        for source, destination in self._mounts:
            self._share(source, self._base / destination.relative_to("/"))
        self._devices()
        linux.bind(Path("/proc"), self._base / "proc")
        if Path("/sys/fs/cgroup").is_dir():
            linux.bind(Path("/sys/fs/cgroup"), self._base / "sys/fs/cgroup")
        linux.enter_root(self._base)

    def apart(self) -> list[Path]:
        """Mount destinations that are not inside one of the shared trees: each Pod binds them itself."""
        return [where for _, where in self._mounts if where.parts[1] not in _SHARED]

    def _share(self, source: Path, target: Path) -> None:
        if source.is_symlink():
            target.symlink_to(source.readlink())
        elif source.exists():
            _mount_point(source, target)
            linux.bind(source, target)
            for path in self._hidden:
                if path.is_relative_to(source):
                    self._mask(target / path.relative_to(source))
            linux.protect(target)

    def _mask(self, target: Path) -> None:
        if target.is_symlink() or not target.exists():
            return
        if target.is_dir():
            linux.mount("tmpfs", target, "tmpfs", linux.READ_ONLY, "mode=0555")
        else:
            self._replace(target, "")

    def _own_etc(self) -> None:
        for name in _SECRETS:
            self._mask(self._base / "etc" / name)
        for name, text in _ETC.items():
            target = self._base / "etc" / name
            if target.is_file() and not target.is_symlink():
                self._replace(target, text)

    def _replace(self, target: Path, text: str) -> None:
        own = self._base / ".own" / str(target).replace("/", "+")
        own.write_text(text)
        linux.bind(own, target)
        linux.protect(target)

    def _devices(self) -> None:
        directory = self._base / "dev"
        (directory / "pts").mkdir(parents=True)
        for name in _DEVICES:
            (directory / name).touch()
            linux.bind(Path("/dev", name), directory / name)
        for name, where in _DEVICE_LINKS.items():
            (directory / name).symlink_to(where)
        linux.bind(directory, directory)
        linux.protect(directory, linux.READ_ONLY | linux.NO_SUID)  # device files stay usable on a read-only mount


def enter_pod_root(hostname: str, size: int, apart: list[Path], scratch: list[str], *, root: bool) -> None:
    """In a new Pod: build its root from the template and enter it. `size` bytes bound all it may write; `scratch` are
    further empty directories; without `root` only the user's id exists and owns everything."""
    linux.mount("tmpfs", STAGE, "tmpfs", linux.NO_SUID | linux.NO_DEV, f"mode=0755,size={size}")
    for name, (mode, owner) in {**_PRIVATE, **{path.lstrip("/"): (0o1777, 0) for path in scratch}}.items():
        _private(STAGE / name, mode, owner if root else USER_ID)
    for name in (*_SHARED, "dev"):
        _share_again(Path("/", name), STAGE / name)
    for where in apart:
        _mount_point(where, STAGE / where.relative_to("/"))
        linux.bind(where, STAGE / where.relative_to("/"))
    linux.mount("devpts", STAGE / "dev/pts", "devpts", linux.NO_SUID, "newinstance,ptmxmode=0666,mode=0620")
    _process_list(STAGE / "proc")
    _hosts(hostname)
    (STAGE / "var/run").symlink_to("/run")
    linux.enter_root(STAGE)


def _private(directory: Path, mode: int, owner: int) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    directory.chmod(mode)
    os.chown(directory, owner, owner)


def _share_again(source: Path, target: Path) -> None:
    if source.is_symlink():
        target.symlink_to(source.readlink())
    elif source.exists():
        target.mkdir()
        linux.bind(source, target)


def _mount_point(source: Path, target: Path) -> None:
    if source.is_dir():
        target.mkdir(parents=True, exist_ok=True)
    elif not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        target.touch()


def _process_list(target: Path) -> None:
    """A fresh /proc. No user namespaces within: they would give a Pod's process powers in a kernel we share."""
    linux.mount("proc", target, "proc", linux.NO_SUID | linux.NO_DEV)
    (target / "sys/user/max_user_namespaces").write_text("0")
    linux.bind(target / "sys", target / "sys")
    linux.protect(target / "sys")


def _hosts(hostname: str) -> None:
    target = STAGE / "etc/hosts"
    if target.is_file() and not target.is_symlink():
        own = STAGE / "run/hosts"
        own.write_text(f"127.0.0.1 localhost {hostname}\n::1 localhost\n")
        linux.bind(own, target)
