"""Runs a command as a container would, `container.py ROOT PACK OPTIONS COMMAND...`: PID 1, in a root of its own.

The pack is mounted read-only at /opt/agentbox. OPTIONS is JSON: `uid` of the image's user, `read_only` for the root
file system, `host` to have this machine's programs in it, `variables` that the image sets. Needs root.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3]))

from tests.sandboxes.envd.inside import BIND, PRIVATE, RECURSIVE, become_pid_1, mount

READ_ONLY, REMOUNT = 1, 32
HOST = ("usr", "bin", "lib", "lib64", "sbin", "etc")


def read_only(path: Path) -> None:
    mount("none", str(path), None, BIND | REMOUNT | READ_ONLY)


def bind(source: Path, target: Path) -> None:
    mount(str(source), str(target), None, BIND)
    read_only(target)


def with_programs_of_this_machine(root: Path) -> None:
    for name in HOST:
        source = Path("/", name)
        if source.is_symlink():
            (root / name).symlink_to(source.readlink())
        elif source.exists():
            (root / name).mkdir()
            bind(source, root / name)


def build(root: Path, pack: Path, options: dict[str, object]) -> None:
    for folder in ("dev/pts", "proc", "tmp", "opt/agentbox"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    (root / "dev/null").touch()
    if not (root / "dev/ptmx").is_symlink():
        (root / "dev/ptmx").symlink_to("pts/ptmx")
    if options.get("host"):
        with_programs_of_this_machine(root)
    mount(str(root), str(root), None, BIND | RECURSIVE)
    bind(pack, root / "opt/agentbox")
    mount("/dev/null", str(root / "dev/null"), None, BIND)
    mount("devpts", str(root / "dev/pts"), "devpts", 0, "newinstance,ptmxmode=0666,mode=0620")
    mount("proc", str(root / "proc"), "proc", 0)
    mount("tmpfs", str(root / "tmp"), "tmpfs", 0, "mode=1777")
    if options.get("read_only"):
        read_only(root)


def main() -> None:
    root, pack, options = Path(sys.argv[1]), Path(sys.argv[2]), json.loads(sys.argv[3])
    os.unshare(os.CLONE_NEWNS)
    mount("none", "/", None, RECURSIVE | PRIVATE)
    become_pid_1()
    build(root, pack, options)
    os.chroot(root)
    os.chdir("/")
    os.setgroups([])
    os.setgid(options.get("uid", 0))
    os.setuid(options.get("uid", 0))
    os.umask(0o077)
    os.environ.update(options.get("variables", {}))
    os.execv(sys.argv[4], sys.argv[4:])


main()
