"""Kernel settings that a kubelet changes (how to act on a panic, memory overcommit): put back when the cluster ends."""

from __future__ import annotations

import json
from pathlib import Path

from .place import Place

ROOT = Path("/proc/sys")
CHANGED = [
    "vm/overcommit_memory",
    "vm/panic_on_oom",
    "kernel/panic",
    "kernel/panic_on_oops",
    "kernel/keys/root_maxkeys",
    "kernel/keys/root_maxbytes",
]


def remember(place: Place) -> None:
    values = {name: (ROOT / name).read_text().strip() for name in CHANGED if (ROOT / name).exists()}
    place.kernel.write_text(json.dumps(values))


def restore(place: Place) -> None:
    if not place.kernel.exists():
        return
    for name, value in json.loads(place.kernel.read_text()).items():
        if (ROOT / name).read_text().strip() != value:
            (ROOT / name).write_text(value)
    place.kernel.unlink()
