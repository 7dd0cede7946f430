"""CPU time by process of the stack, with everything that each has started."""

from __future__ import annotations

import os

from console.up import leftovers
from tests.stack import Stack

TICKS = os.sysconf("SC_CLK_TCK")
USER, SYSTEM, CHILDREN_USER, CHILDREN_SYSTEM, PARENT = 11, 12, 13, 14, 1
NAMES = ("edge-1", "edge-2", "web", "worker", "beat", "watcher", "postgresql", "valkey", "localkube")


def seconds(stack: Stack) -> dict[str, float]:
    """CPU seconds since each process started; ended children count with their parent."""
    everybody = dict(leftovers.everybody())
    return {name: sum(own(everybody[pid]) for pid in family(stack.pid(name), everybody)) for name in NAMES}


def of_process(pid: int) -> float:
    """CPU seconds since it started."""
    return own(dict(leftovers.everybody())[pid])


def own(fields: list[str]) -> float:
    return sum(int(fields[place]) for place in (USER, SYSTEM, CHILDREN_USER, CHILDREN_SYSTEM)) / TICKS


def family(pid: int, everybody: dict[int, list[str]]) -> list[int]:
    """The process and its living descendants."""
    found = [pid]
    for member in found:
        found += [child for child, fields in everybody.items() if int(fields[PARENT]) == member]
    return found


def spent(before: dict[str, float], after: dict[str, float]) -> dict[str, float]:
    return {name: after[name] - before[name] for name in NAMES}
