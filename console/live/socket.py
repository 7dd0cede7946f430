"""The live socket of a page: /ws/t/<team>/. Asks nothing of Channels but routing, session and frames.

The page sends one `sub` {epoch, view, ids} and gets `snap`, then `delta`s, a `beat` with the fingerprint of what the
database would show, `feed` when Redis goes or comes, and `resync` when it should re-read. Close codes: 4400 not
understood, 4401 signed out, 4403 no longer a member, 4429 too slow, 1012 reconnect.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import structlog
from channels.exceptions import StopConsumer
from channels.generic.websocket import AsyncWebsocketConsumer
from django.conf import settings
from django.contrib.auth import get_user
from django.contrib.sessions.backends.db import SessionStore
from django.http import QueryDict

from console import truth
from console.sandboxes import listing
from console.shown import Line, line
from pools import access
from pools.errors import DomainError, NotFound
from pools.models import User
from sandboxes.models import Sandbox

from .fingerprint import fingerprint
from .hub import Texts, hub, in_thread
from .viewer import WATCHED, View, Viewer

log = structlog.get_logger(__name__)

FLUSH = settings.LIVE_FLUSH
BEAT = settings.LIVE_BEAT
RECHECK = settings.LIVE_RECHECK
SEND_LIMIT = settings.LIVE_SEND_LIMIT
LONGEST = 8 * 3600.0
NOT_UNDERSTOOD, SIGNED_OUT, NOT_A_MEMBER, TOO_SLOW, RECONNECT = 4400, 4401, 4403, 4429, 1012
OVERFLOWS = 2


class LiveSocket(AsyncWebsocketConsumer):
    viewer: Viewer | None = None
    tasks: tuple[asyncio.Task[None], ...] = ()
    team_id = 0

    async def connect(self) -> None:
        await self.accept()
        await self._check_rights()

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        try:
            message = json.loads(text_data or "")
            view, ids, epoch = await self._understand(message)
        except (ValueError, TypeError, KeyError, AttributeError, DomainError) as error:
            await self.close(NOT_UNDERSTOOD, str(error)[:100])
            return
        await self._subscribe(view, ids, epoch)

    async def disconnect(self, code: int) -> None:
        for task in self.tasks:
            task.cancel()
        if self.viewer is not None:
            hub().leave(self.viewer)

    async def _understand(self, message: dict[str, Any]) -> tuple[View, list[str], str]:
        if message["t"] != "sub" or not self.team_id:
            raise ValueError("Send one `sub` after signing in.")
        ids = [str(id_) for id_ in message["ids"]][:WATCHED]
        pool = None if message.get("pool") is None else int(message["pool"])
        wanted = listing.parse(QueryDict(str(message.get("query", ""))).dict(), pool)
        view = View(wanted, pool, str(message.get("sandbox", "")), bool(message.get("list")))
        return view, ids, str(message["epoch"])

    async def _subscribe(self, view: View, ids: list[str], epoch: str) -> None:
        """Join first, read then: what changes in between comes as a delta, and `rev` drops what is older."""
        await self.disconnect(0)
        now_epoch, seq = await hub().place(self.team_id)
        self.viewer = viewer = Viewer(self.team_id, view, ids, seq)
        hub().join(viewer)
        page = await in_thread(read_page, self.team_id, view, ids)
        viewer.show(page.shown)
        await self.send(page.text(now_epoch, viewer.seq))
        if not now_epoch:
            viewer.note("feed", state="down")
        if epoch and now_epoch and epoch != now_epoch:
            viewer.resync("the feed began anew")
        self.tasks = (asyncio.create_task(self._pump(viewer)), asyncio.create_task(self._watch(viewer)))

    async def _pump(self, viewer: Viewer) -> None:
        """Send what is untold, at most every FLUSH; one message waits in the socket, the rest coalesces."""
        overflows = 0
        while True:
            await viewer.wake.wait()
            await asyncio.sleep(FLUSH)
            feed = hub().feeds.get(viewer.team_id)
            for text in viewer.take(feed.seq if feed else viewer.seq):
                overflows = overflows + 1 if "too much changed" in text[:80] else 0
                if overflows >= OVERFLOWS or not await self._sent(text):
                    await self._refuse(TOO_SLOW, "This page reads too slowly; it reconnects by itself.")
                    return

    async def _sent(self, text: str) -> bool:
        """False when the browser does not take it within SEND_LIMIT."""
        try:
            async with asyncio.timeout(SEND_LIMIT):
                await self.send(text)
        except TimeoutError:
            log.info("slow live client closed", team=self.team_id)
            return False
        return True

    async def _watch(self, viewer: Viewer) -> None:
        """Beats and the re-check of rights, until the socket is old."""
        loop = asyncio.get_running_loop()
        opened = checked = loop.time()
        while loop.time() - opened < LONGEST:
            await asyncio.sleep(min(BEAT, RECHECK))
            if loop.time() - checked >= RECHECK:
                checked = loop.time()
                await self._check_rights()
            await self._beat(viewer)
        await self._refuse(RECONNECT, "")

    async def _beat(self, viewer: Viewer) -> None:
        try:
            rows = await in_thread(rows_of, viewer.team_id, viewer.view)
        except Exception:
            log.exception("live beat not read", team=viewer.team_id)
            return
        viewer.note("beat", seq=viewer.seq, count=len(rows), hash=fingerprint(rows))

    async def _check_rights(self) -> None:
        """Also while the socket is open: sessions end, members leave."""
        session, team = self.scope["session"].session_key, self.scope["url_route"]["kwargs"]["team"]
        try:
            self.team_id = await in_thread(team_of, session, team)
        except PermissionError:
            await self._refuse(SIGNED_OUT, "Sign in again.")
        except NotFound:
            await self._refuse(NOT_A_MEMBER, "You are no longer a member of this team.")

    async def _refuse(self, code: int, reason: str) -> None:
        if self.viewer is not None:
            hub().leave(self.viewer)
        with suppress(StopConsumer, RuntimeError):
            await self.close(code, reason)


class Page:
    """What a page shows, read from the database: its lines, and those born since it was rendered."""

    def __init__(self, lines: list[Line], born: list[Line], now: str) -> None:
        self.lines = lines
        self.born = born
        self.now = now

    @property
    def shown(self) -> list[Line]:
        """Newest first."""
        return [*self.born, *self.lines]

    def text(self, epoch: str, seq: str) -> str:
        rows, born = ([line.json() for line in lines] for lines in (self.lines, self.born))
        head = {"t": "snap", "epoch": epoch, "seq": seq, "rows": rows, "born": born}
        return json.dumps(head, separators=(",", ":"))[:-1] + f',"now":{self.now}}}'


def read_page(team_id: int, view: View, ids: list[str]) -> Page:
    """Three queries: the lines on screen, the first page's newborn, the figures."""
    on_screen = Sandbox.objects.filter(team_id=team_id, id__in=ids).select_related("pool")
    lines = sorted((line(sandbox) for sandbox in on_screen), key=lambda row: (row.created, row.id), reverse=True)
    born: list[Line] = []
    if view.takes_new:
        page, _ = listing.page(team_id, view.filter)
        known = set(ids)
        born = [line(sandbox) for sandbox in page if sandbox.pk not in known]
    return Page(lines, born, Texts(truth.read(team_id)).of(view.pool))


def rows_of(team_id: int, view: View) -> list[tuple[str, int]]:
    if view.sandbox:
        return list(Sandbox.objects.filter(team_id=team_id, id=view.sandbox).values_list("id", "rev"))
    return listing.revs(team_id, view.filter) if view.listed else []


def team_of(session_key: str | None, team: str) -> int:
    """The team's id, if the session's user may see it. PermissionError without a user, NotFound for foreign teams."""
    request: Any = SimpleNamespace(session=SessionStore(session_key))
    user = get_user(request)
    if not isinstance(user, User):
        raise PermissionError
    return access.seat_for(user, team).team.pk
