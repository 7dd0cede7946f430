"""Mounts below the state folder: containers' roots, Pods' volumes, network namespaces."""

from __future__ import annotations

import ctypes
import os
import re
from pathlib import Path

from console.up.child import libc
from console.up.problem import Problem

MNT_DETACH = 2
MOUNT_POINT = 4
"""Place in /proc/self/mountinfo."""


def remove(folder: Path) -> None:
    """Unmount all, the last mounted first. Whoever deletes the folder then deletes nothing that was mounted there."""
    for point in reversed(below(folder)):
        libc.umount2(ctypes.c_char_p(os.fsencode(point)), MNT_DETACH)
    if left := below(folder):
        raise Problem(f"{left[0]} cannot be unmounted: see what uses it with fuser -m, end that, and try again.")


def below(folder: Path) -> list[Path]:
    points = [unescaped(line.split()[MOUNT_POINT]) for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    return [point for point in points if point.is_relative_to(folder)]


def unescaped(text: str) -> Path:
    return Path(re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), text))
