"""Gather what many requests ask for while one call is under way, and ask for it together."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

LARGEST = 1000


class Batch[K, V]:
    """`get(key)` answers what `fetch` says about it, None if nothing; keys asked for meanwhile share the next call."""

    def __init__(self, fetch: Callable[[list[K]], Awaitable[Mapping[K, V]]]) -> None:
        self._fetch = fetch
        self._waiting: dict[K, asyncio.Future[V | None]] = {}
        self._task: asyncio.Task[None] | None = None

    async def get(self, key: K) -> V | None:
        """Raises what `fetch` raised for the call this key was part of."""
        return await asyncio.shield(self.ask(key))

    def ask(self, key: K) -> asyncio.Future[V | None]:
        future = self._waiting.get(key)
        if future is None:
            future = self._waiting[key] = asyncio.get_running_loop().create_future()
            future.add_done_callback(seen)
        if not self.busy():
            self._task = asyncio.create_task(self._work())
        return future

    def busy(self) -> bool:
        return self._task is not None and not self._task.done()

    async def drained(self) -> None:
        if self._task is not None:
            await asyncio.wait({self._task})

    async def _work(self) -> None:
        while self._waiting:
            keys = list(self._waiting)[:LARGEST]
            futures = {key: self._waiting.pop(key) for key in keys}
            await self._settle(futures)

    async def _settle(self, futures: dict[K, asyncio.Future[V | None]]) -> None:
        try:
            found = await self._fetch(list(futures))
        except Exception as error:  # noqa: BLE001 - passed on to everybody who asked
            for future in futures.values():
                future.set_exception(error)
            return
        for key, future in futures.items():
            future.set_result(found.get(key))


def seen(future: asyncio.Future[Any]) -> None:
    """Mark an exception as retrieved: the one who asked may have left."""
    if not future.cancelled():
        future.exception()
