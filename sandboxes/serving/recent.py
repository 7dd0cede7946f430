"""What was looked up within the last seconds: keys, envs. Small, so that a change is seen soon."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from .batch import seen

LARGEST = 10_000


class Recent[K, V]:
    """`load(key)` at most once in `seconds`; those who ask meanwhile wait for the same load."""

    def __init__(self, load: Callable[[K], Awaitable[V]], seconds: float) -> None:
        self._load = load
        self._seconds = seconds
        self._kept: dict[K, tuple[float, asyncio.Future[V]]] = {}

    async def get(self, key: K) -> V:
        """Raises what `load` raises, to all who waited for it; a failure is not kept."""
        until, future = self._kept.get(key, (0.0, None))
        if future is None or until < time.monotonic():
            future = self._start(key)
        return await asyncio.shield(future)

    def _start(self, key: K) -> asyncio.Future[V]:
        if len(self._kept) >= LARGEST:
            self._kept.clear()
        future = asyncio.ensure_future(self._load(key))
        self._kept[key] = (time.monotonic() + self._seconds, future)
        future.add_done_callback(lambda done: self._settled(key, done))
        return future

    def _settled(self, key: K, future: asyncio.Future[V]) -> None:
        seen(future)
        failed = future.cancelled() or future.exception() is not None
        if failed and self._kept.get(key, (0.0, None))[1] is future:
            del self._kept[key]
