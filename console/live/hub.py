"""One hub a web process: reads the live streams of the teams that are being looked at, tells each open page its part.

One XREAD for all teams; rows are turned into lines once and offered to each viewer; figures are read at most twice a
second a team, and only when something changed. When Redis is away viewers are told so (they poll then) and the hub
keeps trying; when it is back they re-read. Lives in one event loop.
"""

from __future__ import annotations

import asyncio
import json
import random
import secrets
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from typing import Any

import structlog
from django.conf import settings
from django.db import close_old_connections
from redis.asyncio import Redis
from redis.exceptions import RedisError

from console import figures, truth
from console.shown import line_of
from sandboxes.live import stream as key

from .stream import EPOCH, NOWHERE, START, Place, order
from .viewer import Viewer

log = structlog.get_logger(__name__)

BLOCK_MS = 250
BATCH = 1000
TICK = 0.25
FIGURES_EVERY = 0.5
WAITS_EVERY = 5.0
ALIVE_EVERY = 1.0
BACKOFF = (0.2, 5.0)
TIMEOUT = 2.0
THREADS = 2

threads = ThreadPoolExecutor(THREADS, thread_name_prefix="live")


async def in_thread[T](call: Callable[..., T], *args: Any) -> T:
    """Database work of the live feed: few threads, each with a connection that is checked first."""

    def work() -> T:
        close_old_connections()
        return call(*args)

    return await asyncio.get_running_loop().run_in_executor(threads, work)


class Feed:
    """One team: its viewers, how far its stream is read, and whether its figures are old."""

    def __init__(self, team_id: int, seq: str) -> None:
        self.team_id = team_id
        self.seq = seq
        self.viewers: set[Viewer] = set()
        self.changed = False
        self.read_at = 0.0
        self.waits_at = 0.0
        self.waits: truth.GroupWaits | None = None
        self.task: asyncio.Task[None] | None = None
        self.queued = False

    def take(self, entries: list[tuple[str, dict[str, str]]]) -> None:
        for seq, entry in entries:
            self.seq = seq
            self._take(json.loads(entry["data"]))
        self.changed = True

    def _take(self, message: dict[str, Any]) -> None:
        for row in message.get("rows", ()):
            line = line_of(row)
            text = json.dumps(asdict(line), separators=(",", ":"))
            for viewer in self.viewers:
                viewer.offer(line, text)

    def resync(self, reason: str) -> None:
        for viewer in self.viewers:
            viewer.resync(reason)

    @property
    def due(self) -> bool:
        """While claims wait, figures age by themselves."""
        age = time.monotonic() - self.read_at
        return (self.changed and age >= FIGURES_EVERY) or (self.queued and age >= WAITS_EVERY)

    async def tell_figures(self) -> None:
        """Read the figures once and tell every viewer."""
        self.changed, self.read_at = False, time.monotonic()
        if self.read_at - self.waits_at >= WAITS_EVERY:
            self.waits, self.waits_at = None, self.read_at
        now = await in_thread(truth.read, self.team_id, self.waits)
        self.waits, self.queued = now.group_waits, bool(now.queued)
        self.tell(now)

    def tell(self, now: truth.Truth) -> None:
        texts = Texts(now)
        for viewer in self.viewers:
            viewer.tell_now(texts.of(viewer.view.pool))


class Texts:
    """The figures as JSON, made once for each kind of page."""

    def __init__(self, now: truth.Truth) -> None:
        self.now = now
        self.made: dict[int | None, str] = {}

    def of(self, pool_id: int | None) -> str:
        if pool_id not in self.made:
            self.made[pool_id] = json.dumps(self._now(pool_id), separators=(",", ":"))
        return self.made[pool_id]

    def _now(self, pool_id: int | None) -> dict[str, Any]:
        pool = next((pool for pool in self.now.pools if pool.id == pool_id), None)
        return figures.team_now(self.now) if pool is None else figures.pool_now(self.now, pool)


class Hub:
    def __init__(self) -> None:
        self.feeds: dict[int, Feed] = {}
        self.epoch = ""
        self.up = True
        self.redis = Redis.from_url(
            settings.REDIS_URL,
            socket_timeout=TIMEOUT,
            socket_connect_timeout=TIMEOUT,
            decode_responses=True,
            retry=None,
        )
        self.tasks: list[asyncio.Task[None]] = []

    def join(self, viewer: Viewer) -> None:
        """From now on the viewer is told what changes. Deltas may repeat what its snapshot says: `rev` sorts it out."""
        feed = self.feeds.get(viewer.team_id)
        if feed is None:
            feed = self.feeds[viewer.team_id] = Feed(viewer.team_id, viewer.seq)
        viewer.seq = feed.seq
        feed.viewers.add(viewer)
        if not self.tasks:
            self.tasks = [asyncio.create_task(self._read()), asyncio.create_task(self._tick())]

    def leave(self, viewer: Viewer) -> None:
        feed = self.feeds.get(viewer.team_id)
        if feed is None:
            return
        feed.viewers.discard(viewer)
        if not feed.viewers:
            del self.feeds[viewer.team_id]
        if not self.feeds:
            self._stop()

    def _stop(self) -> None:
        for task in self.tasks:
            task.cancel()
        self.tasks = []

    async def place(self, team_id: int) -> Place:
        """The team's stream now; NOWHERE when Redis does not answer."""
        try:
            epoch = await self._epoch()
            newest: Any = await self.redis.xrevrange(key(team_id), count=1)
        except (RedisError, OSError):
            return NOWHERE
        return Place(epoch, newest[0][0] if newest else START)

    async def _epoch(self) -> str:
        await self.redis.set(EPOCH, secrets.token_hex(4), nx=True)
        return str(await self.redis.get(EPOCH))

    async def _read(self) -> None:
        low, high = BACKOFF
        wait = low
        while True:
            try:
                if not self.up or not self.epoch:
                    await self._return()
                await self._read_once()
                wait = low
            except (RedisError, OSError) as error:
                self._away(error)
                await asyncio.sleep(wait * random.uniform(0.5, 1))  # noqa: S311 - jitter, not a secret
                wait = min(high, 2 * wait)

    async def _read_once(self) -> None:
        before = {key(feed.team_id): (feed, feed.seq) for feed in self.feeds.values()}
        places: dict[Any, Any] = {name: seq for name, (_, seq) in before.items()}
        answer: Any = await self.redis.xread(places, count=BATCH, block=BLOCK_MS)
        for name, entries in answer:
            feed, seq = before[name]
            if len(entries) >= BATCH and await self._trimmed(name, seq):
                feed.resync("the feed went on without us")
            feed.take(entries)

    async def _trimmed(self, name: str, seq: str) -> bool:
        oldest: Any = await self.redis.xrange(name, count=1)
        return seq != START and bool(oldest) and order(oldest[0][0]) > order(seq)

    def _away(self, error: Exception) -> None:
        if self.up:
            log.warning("live feed is away", error=str(error))
            self.up = False
            self._tell_all("feed", state="down")

    async def _return(self) -> None:
        """Redis answers (again). With another epoch, or after an outage, nobody knows what was missed."""
        epoch = await self._epoch()
        again, self.epoch, self.up = bool(self.epoch), epoch, True
        if again:
            for feed in self.feeds.values():
                _, feed.seq = await self.place(feed.team_id)
                feed.resync("the feed was away")
            self._tell_all("feed", state="up")

    def _tell_all(self, kind: str, **values: str) -> None:
        for feed in self.feeds.values():
            for viewer in feed.viewers:
                viewer.note(kind, **values)

    async def _tick(self) -> None:
        """Start what is due, and tell viewers that the feed is alive: they show how old their view is."""
        said = 0.0
        while True:
            await asyncio.sleep(TICK)
            if self.up and time.monotonic() - said >= ALIVE_EVERY:
                said = time.monotonic()
                self._tell_all("alive")
            for feed in list(self.feeds.values()):
                if feed.due and (feed.task is None or feed.task.done()):
                    feed.task = asyncio.create_task(self._figures(feed))

    async def _figures(self, feed: Feed) -> None:
        try:
            await feed.tell_figures()
        except Exception:
            log.exception("live figures not read", team=feed.team_id)


_hub: tuple[asyncio.AbstractEventLoop, Hub] | None = None


def hub() -> Hub:
    """The hub of the running event loop."""
    global _hub
    loop = asyncio.get_running_loop()
    if _hub is None or _hub[0] is not loop:
        _hub = (loop, Hub())
    return _hub[1]
