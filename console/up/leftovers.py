"""Processes that a killed supervisor left behind are found by pid files and ended, but only if they are ours.

A pid alone proves nothing, it may be somebody else's by now: the file also has the boot and the start time. Every child
leads a session of its own, so what it started itself is found too, even after the child has ended.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from signal import Signals

PATIENCE = 8.0
STATE, SESSION, START_TIME = 0, 3, 19
"""Places in /proc/<pid>/stat, counted after the command's name."""


@dataclass(frozen=True)
class Record:
    """One child. `started` is in clock ticks since boot, as in /proc/<pid>/stat."""

    pid: int
    started: int
    boot: str
    stop_signal: int


def remember(folder: Path, name: str, pid: int, stop_signal: Signals) -> None:
    started = (stat(pid) or {START_TIME: 0})[START_TIME]
    record = Record(pid, int(started), boot_id(), int(stop_signal))
    (folder / f"{name}.pid").write_text(json.dumps(asdict(record)))


def forget(folder: Path, name: str) -> None:
    (folder / f"{name}.pid").unlink(missing_ok=True)


def end_all(folder: Path) -> list[str]:
    """End everything that the folder's pid files name; the names of what still ran."""
    found = []
    for file in sorted(folder.glob("*.pid")):
        record = read(file)
        if record and processes(record):
            found.append(file.stem)
            end(record)
        file.unlink(missing_ok=True)
    return found


def read(file: Path) -> Record | None:
    try:
        return Record(**json.loads(file.read_text()))
    except (OSError, ValueError, TypeError):
        return None


def end(record: Record) -> None:
    """Ask, wait, then kill."""
    signal_all([record.pid], record.stop_signal)
    deadline = time.monotonic() + PATIENCE
    while alive := processes(record):
        if time.monotonic() > deadline:
            signal_all(alive, Signals.SIGKILL)
            deadline += PATIENCE
        elif record.pid not in alive:
            signal_all(alive, Signals.SIGKILL)
        time.sleep(0.02)


def processes(record: Record) -> list[int]:
    """The living processes of the record's session; none if its pid has gone to somebody else."""
    if record.boot != boot_id():
        return []
    leader = stat(record.pid)
    if leader and int(leader[START_TIME]) != record.started:
        return []
    return session(record.pid)


def session(pid: int) -> list[int]:
    return [process for process, fields in everybody() if int(fields[SESSION]) == pid and fields[STATE] not in "ZX"]


def everybody() -> Iterator[tuple[int, list[str]]]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (fields := stat(int(entry.name))):
            yield int(entry.name), fields


def stat(pid: int) -> list[str] | None:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return None


def signal_all(pids: list[int], signal: int) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal)


def boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
