"""python -m tests.bench [claims] [burst] [waiting] [live] [pages] [noop]: all, or those that are named."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

import uvloop

from tests.stack import Stack

from . import burst, claims, live, noop, pages, waiting
from .table import console

Measure = Callable[[Stack], Awaitable[None]]
SIMULATED: dict[str, Measure] = {
    "claims": claims.measure,
    "burst": burst.measure,
    "waiting": waiting.measure,
    "live": live.measure,
    "pages": pages.measure,
}
REAL: dict[str, Measure] = {"noop": noop.measure}
NODES = ("--node-name", "", "--simulated-nodes", "40")


def main(names: list[str]) -> int:
    known = [*SIMULATED, *REAL]
    if unknown := set(names) - set(known):
        console.print(f"There is no measurement {', '.join(sorted(unknown))}; there are: {', '.join(known)}.")
        return 2
    console.print(f"{datetime.now(UTC):%Y-%m-%d}, {os.cpu_count()} CPUs, Python {sys.version.split()[0]}")
    chosen = names or known
    measure_on(NODES, {name: run for name, run in SIMULATED.items() if name in chosen})
    measure_on((), {name: run for name, run in REAL.items() if name in chosen})
    return 0


def measure_on(arguments: tuple[str, ...], measures: dict[str, Measure]) -> None:
    if not measures:
        return
    began = time.monotonic()
    with Stack(*arguments) as stack:
        console.print(
            f"\nThe stack was ready after {time.monotonic() - began:.1f} s ({' '.join(arguments) or 'real Pods'})"
        )
        for run in measures.values():
            uvloop.run(run(stack))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
