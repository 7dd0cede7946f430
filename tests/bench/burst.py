"""Two thousand claims at once on simulated nodes: how soon they are usable, and that nothing is left."""

from __future__ import annotations

import asyncio
import time

from tests.stack import Stack, until

from .sizes import left, resize
from .table import Row, console, show
from .trainers import trainers

CLAIMS = 2000
TIMEOUT = 45
"""Seconds of life: nobody kills these, their deadlines do."""


async def measure(stack: Stack) -> None:
    resize(stack, "small", ceiling=CLAIMS, idle=8)
    began = time.monotonic()
    async with trainers(stack.demo()) as load:
        await asyncio.gather(*(load.create(lifetime=TIMEOUT) for _ in range(CLAIMS)))
    usable = sorted(at - began for at in load.outcome.at)
    ended = time.monotonic()
    until(lambda: left(stack) == 0, TIMEOUT + 60, lambda: left(stack))
    gone = time.monotonic() - ended
    show(f"Burst of {CLAIMS} claims, createRate 150 (the bars are those of 10,000)", rows(usable, gone))
    for reason, count in load.outcome.failures.items():
        console.print(f"  [red]{count} x {reason}[/]")


def rows(usable: list[float], gone: float) -> list[Row]:
    nth = [*usable, *[float("nan")] * (CLAIMS - len(usable))]
    return [
        Row("succeeded", len(usable), None, f"of {CLAIMS}"),
        Row("half usable after", nth[CLAIMS // 2 - 1], 60.0, "s"),
        Row("all usable after", nth[CLAIMS - 1], 150.0, "s"),
        Row("none left after the timeouts", max(0.0, gone - TIMEOUT), 30.0, "s"),
    ]
