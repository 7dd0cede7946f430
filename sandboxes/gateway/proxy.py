"""HTTP to a sandbox: both bodies stream, nothing is buffered, and the deadline cuts whatever is under way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, field

import aiohttp
import structlog
from django.conf import settings

from sandboxes.serving.asgi import Receive, Scope, Send, header
from sandboxes.serving.envd import address

from . import answers
from .connect import CONTENT_TYPE, Messages, end_with_error
from .exchange import Cut, Exchange
from .headers import to_caller, to_sandbox
from .routes import Route, Routes
from .target import Target

log = structlog.get_logger(__name__)

LAST_WORD_SECONDS = 0.5
"""For a caller who does not read to take the last message of a cut stream."""
UNREACHABLE = (aiohttp.ClientError, OSError)


@dataclass(slots=True)
class Relay:
    """One request on its way. `started` once the caller has been sent a status line."""

    session: aiohttp.ClientSession
    route: Route
    target: Target
    scope: Scope
    receive: Receive
    send: Send
    started: bool = False
    messages: Messages | None = None
    _watch: asyncio.Task[None] | None = field(default=None)

    async def run(self, routes: Routes) -> None:
        exchange = Exchange(self.route.end_at)
        self.route.exchanges.add(exchange)
        try:
            async with exchange:
                await self._forward(exchange)
        except UNREACHABLE as error:
            await self._broken(routes, error)
        finally:
            self.route.exchanges.discard(exchange)
            if self._watch is not None:
                self._watch.cancel()
        if exchange.cut_by is not None and exchange.cut_by is not Cut.CALLER_GONE:
            await self._cut(exchange.cut_by)

    async def _forward(self, exchange: Exchange) -> None:
        headers = to_sandbox(self.scope, self.route, self.target, settings.ENVD_PORT)
        path = self.scope["raw_path"].decode("ascii")
        query = self.scope["query_string"].decode("ascii")
        url = address(self.route.pod_ip, f"{path}?{query}" if query else path)
        body = self._body(exchange) if has_body(self.scope) else None
        if body is None:
            self._watch_caller(exchange)
        method = self.scope["method"]
        async with self.session.request(method, url, headers=headers, data=body, allow_redirects=False) as response:
            await self._answer(response)

    async def _body(self, exchange: Exchange) -> AsyncIterator[bytes]:
        while True:
            message = await self.receive()
            if message["type"] == "http.disconnect":
                exchange.cut(Cut.CALLER_GONE)
                raise ConnectionResetError("the caller left in the middle of its body")
            if body := message.get("body"):
                yield body
            if not message.get("more_body", False):
                self._watch_caller(exchange)
                return

    def _watch_caller(self, exchange: Exchange) -> None:
        """uvicorn does not say on sending that nobody listens any more; only receive does."""
        self._watch = asyncio.create_task(self._until_caller_gone(exchange))

    async def _until_caller_gone(self, exchange: Exchange) -> None:
        while (await self.receive())["type"] != "http.disconnect":
            pass
        exchange.cut(Cut.CALLER_GONE)

    async def _answer(self, response: aiohttp.ClientResponse) -> None:
        headers = to_caller(response.raw_headers, from_envd=self.target.port == settings.ENVD_PORT)
        if response.headers.get("Content-Type", "").encode() == CONTENT_TYPE:
            self.messages = Messages()
        self.started = True
        await self.send({"type": "http.response.start", "status": response.status, "headers": headers})
        async for piece in response.content.iter_any():
            if self.messages is not None:
                self.messages.follow(piece)
            await self.send({"type": "http.response.body", "body": piece, "more_body": True})
        await self.send({"type": "http.response.body"})

    async def _broken(self, routes: Routes, error: Exception) -> None:
        """The sandbox does not answer, or stopped in the middle: gone, or its daemon is."""
        route = await routes.confirm(self.route.sandbox_id)
        if route is None:
            return await self._cut(Cut.SANDBOX_GONE)
        if self.started:
            return None
        log.info("sandbox not reached", sandbox=route.sandbox_id, port=self.target.port, error=str(error))
        payload = answers.port_closed(route.sandbox_id, self.target.port)
        return await answers.send_refusal(self.scope, self.send, 502, payload)

    async def _cut(self, reason: Cut) -> None:
        """The last word, as the SDK understands it; any other body is left unfinished, and so closes the connection."""
        gone = reason is Cut.SANDBOX_GONE
        if not self.started:
            payload = answers.not_found(self.route.sandbox_id) if gone else answers.busy()
            return await answers.send_refusal(self.scope, self.send, 502 if gone else 503, payload)
        if gone and self.messages is not None and self.messages.whole:
            last = end_with_error("unavailable", answers.NOT_FOUND)
            with suppress(TimeoutError):
                async with asyncio.timeout(LAST_WORD_SECONDS):
                    await self.send({"type": "http.response.body", "body": last})
        return None


def has_body(scope: Scope) -> bool:
    length = header(scope, b"content-length")
    return (length is not None and length != "0") or header(scope, b"transfer-encoding") is not None
