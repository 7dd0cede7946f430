"""Claims whose callers wait in this process: a future each, one query a second for all (design, Claims).

A notice from Redis makes the look at a claim immediate; a lost notice costs at most LOOK_SECONDS.
"""

from __future__ import annotations

import asyncio
from typing import Any

from sandboxes import claims
from sandboxes.matcher import Bound
from sandboxes.serving.database import Database

from .answers import try_again
from .call import CallerGone

LOOK_SECONDS = 1.0

type Outcome = Bound | claims.Lost


class Late(Exception):
    """No sandbox came within the claim's time."""


class Waiting:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._futures: dict[int, asyncio.Future[Outcome]] = {}
        self._noticed: set[int] = set()
        self._wake = asyncio.Event()
        self._look_at_all = 0.0
        self._leaving = False

    def __len__(self) -> int:
        return len(self._futures)

    async def outcome(self, claim_id: int, gone: asyncio.Future[Any], until: float) -> Outcome:
        """What became of the claim. Raises Late at `until` (loop time), CallerGone, Refusal when we shut down."""
        if self._leaving:
            raise restarting()
        future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._futures[claim_id] = future
        if claim_id in self._noticed:
            self._wake.set()
        leave = leaver(future)
        gone.add_done_callback(leave)
        try:
            async with asyncio.timeout_at(until):
                return await future
        except TimeoutError as error:
            raise Late from error
        finally:
            gone.remove_done_callback(leave)
            del self._futures[claim_id]

    def notice(self, message: dict[str, Any]) -> None:
        """A claim of ours was bound. It may be one that is not registered yet, or one answered long ago."""
        claim_id = int(message["claim"])
        self._noticed.add(claim_id)
        if claim_id in self._futures:
            self._wake.set()

    async def look(self) -> None:
        """At once at claims that were noticed, once a second at all; meant for `loops.forever`."""
        await self._until_needed()
        claim_ids = self._to_look_at()
        if not claim_ids:
            return
        for claim_id, outcome in (await self._database.upkeep(claims.bound, claim_ids)).items():
            future = self._futures.get(claim_id)
            if future is not None and not future.done():
                future.set_result(outcome)

    async def _until_needed(self) -> None:
        try:
            async with asyncio.timeout_at(self._look_at_all):
                await self._wake.wait()
        except TimeoutError:
            pass
        self._wake.clear()

    def _to_look_at(self) -> list[int]:
        now = asyncio.get_running_loop().time()
        if now >= self._look_at_all:
            self._look_at_all = now + LOOK_SECONDS
            self._noticed.clear()
            return list(self._futures)
        known = [claim_id for claim_id in self._noticed if claim_id in self._futures]
        self._noticed.difference_update(known)
        return known

    def leave(self) -> None:
        """We shut down: everybody is told to ask again, where another process will answer."""
        self._leaving = True
        for future in self._futures.values():
            if not future.done():
                future.set_exception(restarting())


def leaver(future: asyncio.Future[Outcome]) -> Any:
    def leave(_: object) -> None:
        if not future.done():
            future.set_exception(CallerGone())

    return leave


def restarting() -> Exception:
    return try_again("This server is restarting; nothing was kept. Ask again.")
