"""How a child process is started: it dies with us, and never runs a database as root."""

from __future__ import annotations

import ctypes
import functools
import os
import pwd
import subprocess
from collections.abc import Callable
from pathlib import Path
from signal import Signals

NOBODY = 65534
PR_SET_PDEATHSIG = 1

libc = ctypes.CDLL(None, use_errno=True)


def before_exec(death: Signals, *, ordinary: bool = False, nice: int = 0) -> Callable[[], None]:
    """A `preexec_fn`: `death` is sent to the child when the thread that started it ends, even by SIGKILL.

    With `ordinary` the child runs as a user that is not root and has a name, as PostgreSQL demands. `nice` is how far
    it steps back when CPU is short.
    """
    other = ordinary and not is_ordinary(os.geteuid())

    def prepare() -> None:  # pragma: no cover - between fork and exec nobody measures
        os.nice(nice)
        if other:
            become_ordinary()
        libc.prctl(PR_SET_PDEATHSIG, death, 0, 0, 0)

    return prepare


def is_ordinary(uid: int) -> bool:
    try:
        pwd.getpwuid(uid)
    except KeyError:
        return False
    return uid != 0


def become_ordinary() -> None:  # pragma: no cover - likewise
    """In a user namespace root's own files stay reachable (a project below /root, mode 700), unlike for `nobody`."""
    try:
        enter_user_namespace(NOBODY)
    except OSError:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)


def enter_user_namespace(uid: int) -> None:  # pragma: no cover - likewise
    outer = os.geteuid(), os.getegid()
    os.unshare(os.CLONE_NEWUSER)
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{uid} {outer[0]} 1")
    Path("/proc/self/gid_map").write_text(f"{uid} {outer[1]} 1")


@functools.cache
def user_namespaces_allowed() -> bool:
    try:
        subprocess.run(["true"], preexec_fn=lambda: enter_user_namespace(NOBODY), check=True, timeout=5)
    except (OSError, subprocess.SubprocessError):
        return False
    return True


def give_to_ordinary(folder: Path) -> None:
    """Let `become_ordinary` use the folder: only where the kernel refuses user namespaces does it need a new owner."""
    if os.geteuid() == 0 and not user_namespaces_allowed():
        os.chown(folder, NOBODY, NOBODY)
        folder.parent.chmod(folder.parent.stat().st_mode | 0o011)
