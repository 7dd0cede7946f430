"""One exchange with a sandbox that is under way, and the three things that may cut it short."""

from __future__ import annotations

import asyncio
import time
from enum import Enum
from types import TracebackType
from typing import Self


class Cut(Enum):
    SANDBOX_GONE = "sandbox gone"
    CALLER_GONE = "caller gone"
    RESTARTING = "restarting"


class Exchange:
    """A block that ends at the sandbox's deadline, whatever it waits for; `cut` ends it at once.

    async with Exchange(end_at) as exchange: ...
    if exchange.cut_by: ...   # the block was left early
    """

    def __init__(self, end_at: float) -> None:
        self.cut_by: Cut | None = None
        self._asked: Cut | None = None
        self._timeout = asyncio.timeout_at(loop_time(end_at))

    def cut(self, reason: Cut) -> None:
        if self._asked is None:
            self._asked = reason
            self._reschedule(asyncio.get_running_loop().time())

    def move(self, end_at: float) -> None:
        if self._asked is None:
            self._reschedule(loop_time(end_at))

    def _reschedule(self, when: float) -> None:
        if not self._timeout.expired():
            self._timeout.reschedule(when)

    async def __aenter__(self) -> Self:
        await self._timeout.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        try:
            await self._timeout.__aexit__(kind, error, trace)
        except TimeoutError:
            self.cut_by = self._asked or Cut.SANDBOX_GONE
            return True
        return None


def loop_time(unix: float) -> float:
    """A moment of the wall clock on the event loop's clock."""
    return asyncio.get_running_loop().time() + unix - time.time()
