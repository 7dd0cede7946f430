"""Kernel calls that Python has no name for: clone3, mount, mount_setattr, pivot_root, prctl."""

import contextlib
import ctypes
import fcntl
import os
import signal
import socket
import struct
from pathlib import Path

READ_ONLY, NO_SUID, NO_DEV = 1, 2, 4  # MS_* of mount(2) and MOUNT_ATTR_* of mount_setattr(2) agree on these three
REMOUNT_PRIVATE, BIND, RECURSIVE = 1 << 18, 1 << 12, 1 << 14
DETACH = 2
KEEP_CAPABILITIES = {  # what a daemon that switches users needs; names as in securityContext.capabilities
    "CHOWN": 0, "DAC_OVERRIDE": 1, "FOWNER": 3, "FSETID": 4, "KILL": 5, "SETGID": 6, "SETUID": 7, "SETPCAP": 8,
    "NET_BIND_SERVICE": 10, "SYS_CHROOT": 18,
}  # fmt: skip
OWN_NAMESPACES = os.CLONE_NEWUSER | os.CLONE_NEWNS
POD_NAMESPACES = OWN_NAMESPACES | os.CLONE_NEWPID | os.CLONE_NEWNET | os.CLONE_NEWUTS | os.CLONE_NEWIPC
_PDEATHSIG, _CAPBSET_DROP, _NO_NEW_PRIVS = 1, 24, 38
_CLONE3, _MOUNT_SETATTR = 435, 442  # the same on every CPU
_AT_RECURSIVE = 0x8000

# PyDLL keeps the interpreter lock: after clone3 the child goes on in this very thread, which must still hold it.
_libc = ctypes.PyDLL(None, use_errno=True)


def _check(result: int, what: str) -> int:
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, f"{what}: {os.strerror(error)}")
    return result


def clone(namespaces: int) -> int:
    """Fork into new namespaces: 0 in the child (PID 1 there), its pid in the parent."""
    arguments = (ctypes.c_uint64 * 8)(namespaces, 0, 0, 0, signal.SIGCHLD, 0, 0, 0)
    return _check(_libc.syscall(_CLONE3, ctypes.byref(arguments), ctypes.sizeof(arguments)), "clone3")


def mount(source: str, target: Path, kind: str, flags: int = 0, data: str = "") -> None:
    arguments = (source.encode(), bytes(target), kind.encode(), ctypes.c_ulong(flags), data.encode())
    _check(_libc.mount(*arguments), f"mount {kind or source} on {target}")


def bind(source: Path, target: Path) -> None:
    mount(str(source), target, "", BIND | RECURSIVE)


def protect(target: Path, flags: int = READ_ONLY | NO_SUID | NO_DEV) -> None:
    """Add flags to a mount and all below it, keeping those it has (remounting would need to repeat them)."""
    attributes = (ctypes.c_uint64 * 4)(flags, 0, 0, 0)
    arguments = (-100, bytes(target), _AT_RECURSIVE, ctypes.byref(attributes), ctypes.sizeof(attributes))
    _check(_libc.syscall(_MOUNT_SETATTR, *arguments), f"mount_setattr {target}")


def make_mounts_private() -> None:
    mount("", Path("/"), "", REMOUNT_PRIVATE | RECURSIVE)


def enter_root(directory: Path) -> None:
    """Make a mounted directory the root and let go of the old one."""
    os.chdir(directory)
    _check(_libc.pivot_root(b".", b"."), f"pivot_root {directory}")
    _check(_libc.umount2(b".", DETACH), "umount2 of the old root")
    os.chdir("/")


def die_with_parent(number: int = signal.SIGKILL) -> None:
    """A signal when the parent ends. Forgotten by the kernel at a change of user, so asked for again after one."""
    _check(_libc.prctl(_PDEATHSIG, number, 0, 0, 0), "prctl")


def limit_capabilities(keep: set[int]) -> None:
    """Nothing beyond `keep` can ever be had again by this process or its children."""
    for capability in range(64):
        if capability not in keep and _libc.prctl(_CAPBSET_DROP, capability, 0, 0, 0) < 0:
            break  # beyond the last one this kernel knows
    _check(_libc.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0), "prctl")


def loopback_up() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        fcntl.ioctl(probe, 0x8914, struct.pack("16sH14x", b"lo", 0x1 | 0x40))  # SIOCSIFFLAGS: IFF_UP | IFF_RUNNING


def write_id_map(pid: int, inside: int, outside: int, count: int, *, groups: bool) -> None:
    """Map user and group ids of a new user namespace; without `groups` setgroups is given up, as the kernel demands."""
    if not groups:
        with contextlib.suppress(FileNotFoundError):
            Path(f"/proc/{pid}/setgroups").write_text("deny")
    for name in ("uid_map", "gid_map"):
        Path(f"/proc/{pid}/{name}").write_text(f"{inside} {outside} {count}\n")
