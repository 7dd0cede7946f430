"""How a sandbox ends: on SIGTERM, or by itself when its deadline and a margin have passed and nobody came to end it."""

from __future__ import annotations

import os
import time

from .connect import Stream
from .errors import RpcError
from .lean import signals
from .loop import now

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from .loop import Loop, Timer
    from .processes import Processes

_LONGEST_NAP = 30.0
"""The wall clock may be set while we wait (a suspended node), so it is looked at this often."""
_KILL_ROUNDS = 20


class Lifetime:
    def __init__(self, loop: Loop, table: Processes) -> None:
        self._loop = loop
        self._table = table
        self._end = 0.0
        self._timer: Timer | None = None

    def end_at(self, moment: float) -> None:
        """Ends everything at `moment` (unix seconds); a later call replaces an earlier one."""
        self._end = moment
        if self._timer:
            self._loop.cancel(self._timer)
        self._timer = self._loop.at(now(), self._look)  # not before the caller has its answer

    def on_signal(self, number: int) -> None:
        if number == signals.SIGCHLD:
            self._table.reap()
        else:
            self.end("the sandbox was stopped")

    def end(self, reason: str) -> NoReturn:
        """Tells every open stream, kills every process, leaves."""
        for stream in list(Stream.open):
            stream.abandon(RpcError("unavailable", reason))
        kill_everything()
        os._exit(0)

    def _look(self) -> None:
        left = self._end - time.time()
        if left <= 0:
            self.end("the sandbox's time is over")
        self._timer = self._loop.at(now() + min(left, _LONGEST_NAP), self._look)


def kill_everything() -> None:
    """As PID 1 that is one call; elsewhere (tests) all descendants, again until none is left."""
    if os.getpid() == 1:
        try:
            os.kill(-1, signals.SIGKILL)
        except ProcessLookupError:
            pass
        return
    for _ in range(_KILL_ROUNDS):
        living = _descendants()
        if not living:
            return
        for pid in living:
            _kill(pid)


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signals.SIGKILL)
        os.waitpid(pid, os.WNOHANG)
    except OSError:
        pass  # gone, somebody else's child, or another user's process


def _descendants() -> list[int]:
    parents = {int(name): _parent(name) for name in os.listdir("/proc") if name.isdigit()}
    family = {os.getpid()}
    while grown := {pid for pid, parent in parents.items() if parent in family} - family:
        family |= grown
    return sorted(family - {os.getpid()})


def _parent(pid: str) -> int:
    """The parent's pid; -1 for a process that is gone or only waits to be reaped."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            state, parent = file.read().rpartition(b")")[2].split()[:2]
    except OSError:
        return -1
    return -1 if state == b"Z" else int(parent)
