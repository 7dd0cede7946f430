"""WebSockets to a port of a sandbox: message by message, each side's slowness slows the other."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import aiohttp
from django.conf import settings
from starlette.types import Message

from sandboxes.serving.asgi import Receive, Scope, Send
from sandboxes.serving.envd import address

from . import answers
from .exchange import Cut, Exchange
from .headers import to_sandbox
from .proxy import UNREACHABLE
from .routes import Route, Routes
from .target import Target

LARGEST_MESSAGE = 16 << 20
"""As uvicorn's."""
OPEN_SECONDS = 10.0
GOING_AWAY = 1001
RESTART = 1012
INTERNAL = 1011
DATA = (aiohttp.WSMsgType.TEXT, aiohttp.WSMsgType.BINARY)


@dataclass(slots=True)
class Tunnel:
    session: aiohttp.ClientSession
    route: Route
    target: Target
    scope: Scope
    receive: Receive
    send: Send
    accepted: bool = False

    async def run(self, routes: Routes) -> None:
        exchange = Exchange(self.route.end_at)
        self.route.exchanges.add(exchange)
        try:
            async with exchange:
                await self._join()
        except aiohttp.WSServerHandshakeError as error:
            return await answers.deny_websocket(
                self.send, error.status, {"code": error.status, "message": error.message}
            )
        except UNREACHABLE:
            return await self._broken(routes)
        finally:
            self.route.exchanges.discard(exchange)
        if exchange.cut_by is not None:
            await self._cut(exchange.cut_by)
        return None

    async def _join(self) -> None:
        await self.receive()
        async with asyncio.timeout(OPEN_SECONDS):
            connection = await self._open()
        async with connection:
            await self.send({"type": "websocket.accept", "subprotocol": connection.protocol})
            self.accepted = True
            await self._pump(connection)

    async def _open(self) -> aiohttp.ClientWebSocketResponse:
        path = self.scope["raw_path"].decode("ascii")
        query = self.scope["query_string"].decode("ascii")
        return await self.session.ws_connect(
            address(self.route.pod_ip, f"{path}?{query}" if query else path),
            headers=to_sandbox(self.scope, self.route, self.target, settings.ENVD_PORT),
            protocols=self.scope.get("subprotocols", []),
            max_msg_size=LARGEST_MESSAGE,
            compress=0,
        )

    async def _pump(self, connection: aiohttp.ClientWebSocketResponse) -> None:
        """Both ways until one side ends; then the other is told."""
        inward = asyncio.create_task(self._inward(connection))
        outward = asyncio.create_task(self._outward(connection))
        try:
            await asyncio.wait({inward, outward}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            inward.cancel()
            outward.cancel()

    async def _inward(self, connection: aiohttp.ClientWebSocketResponse) -> None:
        while True:
            message = await self.receive()
            if message["type"] == "websocket.disconnect":
                await connection.close(code=closing_code(message.get("code")))
                return
            await pass_in(connection, message)

    async def _outward(self, connection: aiohttp.ClientWebSocketResponse) -> None:
        async for message in connection:
            if message.type in DATA:
                kind = "text" if message.type is aiohttp.WSMsgType.TEXT else "bytes"
                await self.send({"type": "websocket.send", kind: message.data})
        await self.send({"type": "websocket.close", "code": closing_code(connection.close_code)})

    async def _broken(self, routes: Routes) -> None:
        if self.accepted:
            await self.send({"type": "websocket.close", "code": INTERNAL, "reason": "The sandbox broke off"})
            return
        route = await routes.confirm(self.route.sandbox_id)
        payload = (
            answers.not_found(self.route.sandbox_id)
            if route is None
            else answers.port_closed(route.sandbox_id, self.target.port)
        )
        await answers.deny_websocket(self.send, 502, payload)

    async def _cut(self, reason: Cut) -> None:
        if not self.accepted:
            return await answers.deny_websocket(self.send, 502, answers.not_found(self.route.sandbox_id))
        gone = reason is Cut.SANDBOX_GONE
        code, text = (GOING_AWAY, answers.NOT_FOUND) if gone else (RESTART, "restarting")
        return await self.send({"type": "websocket.close", "code": code, "reason": text})


async def pass_in(connection: aiohttp.ClientWebSocketResponse, message: Message) -> None:
    text = message.get("text")
    if text is not None:
        await connection.send_str(text)
    else:
        await connection.send_bytes(message["bytes"])


def closing_code(code: int | None) -> int:
    """1005 and 1006 tell that no code was given; they may not be sent."""
    return 1000 if code in (None, 1005) else INTERNAL if code == 1006 else code
