"""Runs envd as a sandbox would: `inside.py PARENT_OF_PACKAGE HOME_FOLDER UID`, with users and folders of its own.

As root it makes a mount namespace with a user `user` and an empty /home; nothing of the machine is changed. With a UID
other than 0 the interpreter and the package are mounted at /opt/agentbox, as in a Pod, and the launcher is run. The
variable ENVD_PACK names a pack (deploy/envd) to run instead.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import sys
from pathlib import Path

BIND, RECURSIVE, PRIVATE = 0x1000, 0x4000, 0x40000
USER = 1000


def mount(source: str, target: str, kind: str | None, flags: int, options: str = "") -> None:
    library = ctypes.CDLL(None, use_errno=True)
    names = [None if name is None else name.encode() for name in (source, target, kind)]
    if library.mount(*names, ctypes.c_ulong(flags), options.encode()):
        raise OSError(ctypes.get_errno(), f"mounting {target}")


def with_accounts(folder: Path) -> None:
    """An /etc/passwd and /etc/group that name `user`, and its home."""
    os.unshare(os.CLONE_NEWNS)
    mount("none", "/", None, RECURSIVE | PRIVATE)
    for name, line in (("passwd", f"user:x:{USER}:{USER}::/home/user:/bin/bash"), ("group", f"user:x:{USER}:")):
        kept = [each for each in Path(f"/etc/{name}").read_text().splitlines() if f":{USER}:" not in each]
        (folder / name).write_text("\n".join([*kept, line, ""]))
        mount(str(folder / name), f"/etc/{name}", None, BIND)
    mount("tmpfs", "/home", "tmpfs", 0, "mode=755")
    Path("/home/user").mkdir()
    os.chown("/home/user", USER, USER)
    Path("/home/small").mkdir()
    mount("tmpfs", "/home/small", "tmpfs", 0, "mode=1777,size=1m")


def as_in_a_pod(package: Path) -> list[str]:
    interpreter = Path(sys.base_prefix)
    staged = Path("/home/.staged")
    for part in ("python", "lib", "bin"):
        (staged / part).mkdir(parents=True)
    mount(str(interpreter), str(staged / "python"), None, BIND)
    shutil.copytree(package / "envd", staged / "lib" / "envd")
    shutil.copy(package / "envd" / "launcher", staged / "bin" / "envd")
    mount("tmpfs", "/opt", "tmpfs", 0, "mode=755")
    Path("/opt/agentbox").mkdir()
    mount(str(staged), "/opt/agentbox", None, BIND | RECURSIVE)
    os.environ["LD_LIBRARY_PATH"] = "/opt/agentbox/python/lib"  # for interpreters with a shared library
    return ["/opt/agentbox/bin/envd"]


def as_packed(pack: str) -> list[str]:
    mount("tmpfs", "/opt", "tmpfs", 0, "mode=755")
    Path("/opt/agentbox").mkdir()
    mount(pack, "/opt/agentbox", None, BIND)
    return ["/opt/agentbox/bin/envd"]


def become_pid_1() -> None:
    """Goes on in a child that is PID 1 of a new namespace; this process passes SIGTERM on and ends with it."""
    os.unshare(os.CLONE_NEWPID)
    child = os.fork()
    if child == 0:
        mount("proc", "/proc", "proc", 0)
        return
    signal.signal(signal.SIGTERM, lambda number, stack: os.kill(child, number))
    os.closerange(0, 4)
    os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) & 0xFF)


def main() -> None:
    package, folder, uid = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    command = [sys.executable, "-B", str(Path(__file__).with_name("entry.py")), str(package)]
    if os.geteuid() == 0:
        with_accounts(folder)
    if os.environ.pop("AS_PID_1", ""):
        become_pid_1()
    if pack := os.environ.pop("ENVD_PACK", ""):
        command = as_packed(pack)
    elif uid != os.geteuid():
        command = as_in_a_pod(package)
    if uid != os.geteuid():
        os.setgroups([])
        os.setgid(uid)
        os.setuid(uid)
    os.execv(command[0], command)


if __name__ == "__main__":
    main()
