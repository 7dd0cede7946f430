"""A loop that never dies: it says what failed, waits longer each time, and goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import structlog

log = structlog.get_logger(__name__)

LONGEST_PAUSE = 5.0


async def forever(what: str, once: Callable[[], Awaitable[None]], pause: float) -> None:
    """Call `once` again and again, `pause` seconds apart; after a failure 0.2 s, doubled up to LONGEST_PAUSE."""
    failures = 0
    while True:
        try:
            await once()
            failures = 0
        except Exception as error:  # noqa: BLE001 - whatever it is, the loop is needed again
            failures += 1
            log.warning(f"{what} failed", error=str(error) or repr(error), failures=failures)
        await asyncio.sleep(backoff(failures) if failures else pause)


def backoff(failures: int) -> float:
    return float(min(LONGEST_PAUSE, 0.1 * 2 ** min(failures, 10)))
