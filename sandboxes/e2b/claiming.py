"""From a wish to an armed sandbox: queue, wait, arm, deliver; and nothing left behind when any of it fails."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any

import structlog

from sandboxes import claims, times
from sandboxes.matcher import Bound
from sandboxes.serving.batch import Batch
from sandboxes.serving.database import BROKEN, Database
from sandboxes.serving.envd import Envd
from sandboxes.serving.loops import backoff

from .answers import Refusal, try_again
from .call import CallerGone
from .capacity import Capacity
from .images import Images
from .requests import Requests
from .waiting import Late, Waiting

log = structlog.get_logger(__name__)

CLOSE_TRIES = 8
"""About half a minute; after that the collector's passes close what an edge process left open."""


@dataclass(frozen=True, slots=True)
class Claiming:
    """`name` is this process's heartbeat: claims of a silent one are closed by the collector."""

    name: str
    database: Database
    waiting: Waiting
    envd: Envd
    images: Images
    capacity: Capacity
    requests: Requests
    deliveries: Batch[int, datetime]
    cancels: Batch[int, None]
    expiries: Batch[int, None]

    async def obtain(self, wanted: claims.Wanted, env_vars: dict[str, str], gone: asyncio.Future[Any]) -> Bound:
        """A delivered sandbox. Raises CallerGone, Refusal, DomainError; then no claim and no sandbox is left."""
        until = asyncio.get_running_loop().time() + wanted.wait
        ticket = await self.requests.ticket(wanted)
        if ticket.replayed and ticket.bound:
            return ticket.bound
        try:
            bound = await self._armed(ticket, wanted, env_vars, gone, until)
            return await self._delivered(bound, gone)
        except Late:
            raise await self._expired(ticket.claim_id, wanted) from None
        except BaseException:
            self.cancels.ask(ticket.claim_id)
            raise

    async def _armed(
        self,
        ticket: claims.Ticket,
        wanted: claims.Wanted,
        env_vars: dict[str, str],
        gone: asyncio.Future[Any],
        until: float,
    ) -> Bound:
        """A sandbox that answers; those that do not are given back for another while there is time."""
        bound = ticket.bound
        while True:
            if bound is None:
                bound = await self._found(ticket.claim_id, gone, until)
            if gone.done():
                raise CallerGone
            problem = wanted.image and await self._with_image(bound, wanted.image, gone, until)
            problem = problem or await self.envd.arm(bound.sandbox_id, bound.pod_ip, env_vars, wanted.timeout)
            if not problem:
                return bound
            log.warning("sandbox not armed", sandbox=bound.sandbox_id, problem=problem)
            reason = f"The sandbox did not take its claim: {problem}"
            bound = await self.database.run(claims.give_back, ticket.claim_id, reason, replace=True)

    async def _with_image(self, bound: Bound, image: str, gone: asyncio.Future[Any], until: float) -> str:
        """As Images.change; with a refusal the claim is over, for the reason that its caller is told."""
        try:
            return await self.images.change(bound, image, gone, until)
        except Refusal as refusal:
            await self.database.run(claims.give_back, bound.claim_id, refusal.message, replace=False)
            raise

    async def _found(self, claim_id: int, gone: asyncio.Future[Any], until: float) -> Bound:
        outcome = await self.waiting.outcome(claim_id, gone, until)
        if isinstance(outcome, Bound):
            return outcome
        if outcome.reason == claims.TOO_LATE:
            raise Late
        raise try_again(f"The claim was lost: {outcome.reason}. Ask again.")

    async def _delivered(self, bound: Bound, gone: asyncio.Future[Any]) -> Bound:
        if gone.done():
            raise CallerGone
        end_at = await self.deliveries.get(bound.claim_id)
        if end_at is None:
            raise try_again("The sandbox was lost while it was prepared. Ask again.")
        if gone.done():
            raise CallerGone
        return replace(bound, end_at=end_at)

    async def _expired(self, claim_id: int, wanted: claims.Wanted) -> Refusal:
        """503, after the claim is closed, so that a repeat finds nothing of it."""
        await self.expiries.get(claim_id)
        return await self.capacity.missing(wanted)


def deliveries(database: Database) -> Batch[int, datetime]:
    async def deliver(claim_ids: list[int]) -> Mapping[int, datetime]:
        return await database.run(claims.deliver_many, claim_ids)

    return Batch(deliver)


def cancels(database: Database) -> Batch[int, None]:
    return Batch(partial(close, database, partial(claims.cancel, reason="the caller is gone")))


def expiries(database: Database) -> Batch[int, None]:
    return Batch(partial(close, database, claims.expire))


async def close(database: Database, verb: Any, claim_ids: list[int]) -> Mapping[int, None]:
    """Two thousand callers may leave at once: their claims are closed together, and again if the database fails."""
    for attempt in range(CLOSE_TRIES):
        try:
            await database.upkeep(verb, claim_ids)
            return {}
        except BROKEN as error:
            log.warning("claims not closed yet", claims=len(claim_ids), error=str(error))
            await asyncio.sleep(backoff(attempt + 1))
    return {}


async def beat(claiming: Claiming) -> None:
    """The heartbeat, every times.EDGE_HEARTBEAT; bounded, so that a hanging query is noticed in the log."""
    async with asyncio.timeout(times.EDGE_GONE):
        await claiming.database.upkeep(claims.beat, claiming.name)
