"""One cluster of ours a machine: a lock that the kernel frees when its `up` ends, however that happens."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from signal import Signals
from typing import IO

from console.up import leftovers
from console.up.problem import Problem

from .place import Place

RECORD = Path("/run/agentbox-kubernetes.lock")
PATIENCE = 30.0
POLL = 0.02


@dataclass(frozen=True)
class Holder:
    """Who runs the cluster, or ran the last one, and in which state folder."""

    pid: int
    state: str

    @property
    def place(self) -> Place:
        return Place(Path(self.state))


def take() -> IO[str]:
    """The lock, or a sentence that says who has it."""
    lock = RECORD.open("a+")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        lock.close()
        holder = last()
        where = f" in {holder.state} (process {holder.pid})" if holder else ""
        advice = "use it (`manage.py kubernetes status`), or stop it with `manage.py kubernetes down`"
        raise Problem(f"A cluster of ours already runs on this machine{where}: {advice}.") from error
    return lock


def write(lock: IO[str], place: Place) -> None:
    lock.truncate(0)
    lock.write(json.dumps(asdict(Holder(os.getpid(), str(place.state)))))
    lock.flush()


def last() -> Holder | None:
    with contextlib.suppress(OSError, ValueError, TypeError):
        return Holder(**json.loads(RECORD.read_text()))
    return None


def running() -> Holder | None:
    """Its holder, if somebody has the lock."""
    try:
        with RECORD.open() as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return None
    except BlockingIOError:
        return last()
    return None


def end(holder: Holder) -> None:
    """Ask its process to end, and wait until it has; then kill."""
    for number in (Signals.SIGTERM, Signals.SIGKILL):
        leftovers.signal_all([holder.pid], number)
        if has_ended(holder):
            return
    raise Problem(f"The process {holder.pid} of the cluster in {holder.state} does not end, not even by kill -9.")


def has_ended(holder: Holder) -> bool:
    """Within PATIENCE."""
    deadline = time.monotonic() + PATIENCE
    while running() or is_alive(holder.pid):
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL)
    return True


def is_alive(pid: int) -> bool:
    """It gives the lock away some milliseconds before it has ended."""
    fields = leftovers.stat(pid)
    return fields is not None and fields[leftovers.STATE] not in "ZX"
