"""The cgroups of the Pods: one tree of ours in each hierarchy. Through it every process of every Pod is found."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from signal import Signals

from console.up import leftovers
from console.up.problem import Problem

from .place import CGROUP

LIMIT = 10.0
POLL = 0.02
UNIFIED = Path("/sys/fs/cgroup")


def make() -> None:
    """The kubelet wants the tree's root to be there."""
    for kind, hierarchy in hierarchies():
        if kind == "cgroup" or hierarchy == UNIFIED:
            (hierarchy / CGROUP).mkdir(exist_ok=True)


def remove() -> None:
    """End all processes in the tree, and the tree."""
    deadline = time.monotonic() + LIMIT
    while pids := processes():
        leftovers.signal_all(pids, Signals.SIGKILL)
        pause(deadline)
    for tree in trees():
        while not remove_tree(tree):
            pause(deadline)


def pause(deadline: float) -> None:
    if time.monotonic() > deadline:
        raise Problem(f"The cgroups {CGROUP} do not become empty within {LIMIT:g} s: see /proc/PID/cgroup for whose.")
    time.sleep(POLL)


def processes() -> list[int]:
    found: set[int] = set()
    for tree in trees():
        for folder, _, _ in os.walk(tree):
            found.update(members(Path(folder)))
    return sorted(found)


def members(cgroup: Path) -> list[int]:
    try:
        return [int(line) for line in (cgroup / "cgroup.procs").read_text().split()]
    except OSError:  # it has just gone
        return []


def remove_tree(tree: Path) -> bool:
    """False if the kernel still counts something in it; ended processes linger for some milliseconds."""
    for folder, _, _ in os.walk(tree, topdown=False):
        try:
            Path(folder).rmdir()
        except FileNotFoundError:
            continue
        except OSError:
            return False
    return True


def trees() -> list[Path]:
    return [tree for _, hierarchy in hierarchies() if (tree := hierarchy / CGROUP).is_dir()]


def hierarchies() -> Iterator[tuple[str, Path]]:
    """(file system type, mount point) of each."""
    for line in Path("/proc/mounts").read_text().splitlines():
        _, point, kind, *_ = line.split()
        if kind in {"cgroup", "cgroup2"}:
            yield kind, Path(point)
