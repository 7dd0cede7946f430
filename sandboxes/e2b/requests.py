"""New claims on their way into the queue: what arrives while a group's last call is under way goes in together.

One at a time they cost a transaction each, and a burst would spend its first half minute only on queueing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pools.errors import QuotaExceeded
from sandboxes import claims
from sandboxes.serving.batch import Batch
from sandboxes.serving.database import Database

type Outcome = claims.Ticket | QuotaExceeded

MANY_GROUPS = 1000


@dataclass(frozen=True, slots=True, eq=False)
class Request:
    """A wish with an identity: equal wishes are different requests."""

    wanted: claims.Wanted


class Requests:
    def __init__(self, database: Database, edge: str) -> None:
        self._database = database
        self._edge = edge
        self._groups: dict[int, Batch[Request, Outcome]] = {}

    async def ticket(self, wanted: claims.Wanted) -> claims.Ticket:
        """As `claims.request`, with what that raises."""
        if wanted.idempotency_key is not None:
            return await self._database.run(claims.request, wanted, self._edge)
        outcome = await self._group(wanted.group_id).get(Request(wanted))
        if outcome is None:
            raise AssertionError("every request has an outcome")
        if isinstance(outcome, QuotaExceeded):
            raise outcome.with_traceback(None)
        return outcome

    def _group(self, group_id: int) -> Batch[Request, Outcome]:
        if group_id not in self._groups:
            if len(self._groups) >= MANY_GROUPS:
                self._groups = {known: batch for known, batch in self._groups.items() if batch.busy()}
            self._groups[group_id] = Batch(self._ask)
        return self._groups[group_id]

    async def _ask(self, requests: list[Request]) -> Mapping[Request, Outcome]:
        wanted = [request.wanted for request in requests]
        outcomes = await self._database.run(claims.request_many, wanted, self._edge)
        return dict(zip(requests, outcomes, strict=True))
