"""Where sandboxes are, and until when: a cache that forgets at once what it hears is gone.

Redis tells at once (`gone`, `deadline`); one query a second for the sandboxes in use makes it true without Redis.
While PostgreSQL does not answer, known routes go on to their own deadline: nothing can be killed meanwhile either.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import structlog

from sandboxes import tokens
from sandboxes.lifecycle import State
from sandboxes.models import LIVE_SHELF, Sandbox
from sandboxes.serving.batch import Batch
from sandboxes.serving.database import BROKEN, Database

from .exchange import Cut, Exchange

log = structlog.get_logger(__name__)

REFRESH_SECONDS = 0.5
FRESH_SECONDS = 1.0
"""A route that nobody confirmed for longer is asked for before use."""
OUTAGE_SECONDS = 3.0
"""After a failed refresh known routes are used unconfirmed for so long, or until a refresh succeeds."""
LOOKUP_SECONDS = 5.0
KEPT_SECONDS = 5.0
"""Unused for longer, it is dropped and no longer refreshed."""
MISSING_SECONDS = 0.5
MANY_MISSING = 10_000

type Found = tuple[str, float]
"""Pod IP and deadline (unix seconds)."""


@dataclass(slots=True)
class Route:
    sandbox_id: str
    pod_ip: str
    end_at: float
    token: str
    confirmed: float
    used: float
    exchanges: set[Exchange] = field(default_factory=set)

    def open(self) -> bool:
        return time.time() < self.end_at


class Routes:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._routes: dict[str, Route] = {}
        self._missing: dict[str, float] = {}
        self._lookups: Batch[str, Found] = Batch(self._look_up)
        self._outage_until = 0.0

    async def find(self, sandbox_id: str) -> Route | None:
        """The way to a usable sandbox, confirmed within the last second. Raises BROKEN for an unknown one only."""
        now = time.monotonic()
        route = self._routes.get(sandbox_id)
        if route is not None and (now - route.confirmed < FRESH_SECONDS or now < self._outage_until):
            route.used = now
            return route if route.open() else None
        if self._missing.get(sandbox_id, 0.0) > now:
            return None
        return await self.confirm(sandbox_id)

    async def confirm(self, sandbox_id: str) -> Route | None:
        """The same, asking PostgreSQL in any case."""
        known = self._routes.get(sandbox_id)
        try:
            async with asyncio.timeout(LOOKUP_SECONDS if known is None else FRESH_SECONDS):
                found = await self._lookups.get(sandbox_id)
        except (*BROKEN, TimeoutError):
            if known is None:
                raise
            return known if self._routes.get(sandbox_id) is known and known.open() else None
        if found is None:
            self._note_missing(sandbox_id)
            return None
        route = self.learn(sandbox_id, *found)
        return route if route.open() else None

    def learn(self, sandbox_id: str, pod_ip: str, end_at: float) -> Route:
        now = time.monotonic()
        route = self._routes.get(sandbox_id)
        if route is None:
            token = tokens.access_token(sandbox_id)
            route = self._routes[sandbox_id] = Route(sandbox_id, pod_ip, end_at, token, now, now)
        self._missing.pop(sandbox_id, None)
        route.confirmed = now
        route.pod_ip = pod_ip
        self._set_deadline(route, end_at)
        return route

    def moved(self, sandbox_id: str, end_at: float) -> None:
        route = self._routes.get(sandbox_id)
        if route is not None:
            self._set_deadline(route, end_at)

    def gone(self, sandbox_ids: Iterable[str]) -> None:
        """Cut what is open to them, and forget them."""
        for sandbox_id in sandbox_ids:
            route = self._routes.pop(sandbox_id, None)
            for exchange in route.exchanges if route else ():
                exchange.cut(Cut.SANDBOX_GONE)

    def cut_all(self, reason: Cut) -> None:
        for route in self._routes.values():
            for exchange in route.exchanges:
                exchange.cut(reason)

    def note_gone(self, message: list[str]) -> None:
        self.gone(message)

    def note_deadline(self, message: dict[str, Any]) -> None:
        self.moved(message["id"], datetime.fromisoformat(message["end_at"]).timestamp())

    async def refresh(self) -> None:
        """Confirm the routes in use, all in one query; meant for `loops.forever`."""
        self._drop_unused()
        sandbox_ids = list(self._routes)
        if not sandbox_ids:
            return
        try:
            async with asyncio.timeout(FRESH_SECONDS):
                found = await self._look_up(sandbox_ids)
        except (*BROKEN, TimeoutError) as error:
            self._note_outage(error)
            return
        self._outage_until = 0.0
        for sandbox_id, place in found.items():
            if sandbox_id in self._routes:
                self.learn(sandbox_id, *place)
        self.gone(sandbox_id for sandbox_id in sandbox_ids if sandbox_id not in found)

    def _note_outage(self, error: Exception) -> None:
        now = time.monotonic()
        if now > self._outage_until:
            log.warning("routes cannot be confirmed, known ones go on", routes=len(self._routes), error=str(error))
        self._outage_until = now + OUTAGE_SECONDS

    def _drop_unused(self) -> None:
        now = time.monotonic()
        unused = [r.sandbox_id for r in self._routes.values() if now - r.used > KEPT_SECONDS and not r.exchanges]
        for sandbox_id in unused:
            del self._routes[sandbox_id]
        self._missing = {sandbox_id: until for sandbox_id, until in self._missing.items() if until > now}

    def _set_deadline(self, route: Route, end_at: float) -> None:
        if route.end_at != end_at:
            route.end_at = end_at
            for exchange in route.exchanges:
                exchange.move(end_at)

    def _note_missing(self, sandbox_id: str) -> None:
        self.gone([sandbox_id])
        if len(self._missing) < MANY_MISSING:
            self._missing[sandbox_id] = time.monotonic() + MISSING_SECONDS

    async def _look_up(self, sandbox_ids: list[str]) -> Mapping[str, Found]:
        return await self._database.upkeep(read, sandbox_ids)


def read(sandbox_ids: list[str]) -> dict[str, Found]:
    rows = Sandbox.objects.filter(id__in=sandbox_ids, state=State.CLAIMED.value, shelf=LIVE_SHELF)
    found = rows.values_list("id", "pod_ip", "end_at")
    return {sandbox_id: (pod_ip, end_at.timestamp()) for sandbox_id, pod_ip, end_at in found if end_at is not None}
