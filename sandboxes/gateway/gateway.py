"""The gateway's front: find the sandbox, check the caller, relay."""

from __future__ import annotations

from dataclasses import dataclass

import aiohttp
from django.conf import settings

from sandboxes.serving.asgi import Receive, Scope, Send, is_preflight, send_preflight
from sandboxes.serving.database import BROKEN

from . import answers
from .access import allowed, hidden
from .proxy import Relay
from .routes import Route, Routes
from .target import Target
from .websocket import Tunnel


@dataclass(slots=True)
class Gateway:
    routes: Routes
    to_envd: aiohttp.ClientSession
    relayed: aiohttp.ClientSession

    def session(self, target: Target) -> aiohttp.ClientSession:
        return self.to_envd if target.port == settings.ENVD_PORT else self.relayed

    async def http(self, target: Target, scope: Scope, receive: Receive, send: Send) -> None:
        if target.port == settings.ENVD_PORT and is_preflight(scope):
            return await send_preflight(scope, send)
        try:
            route = await self.routes.find(target.sandbox_id)
        except (*BROKEN, TimeoutError):
            return await answers.send_refusal(scope, send, 503, answers.busy())
        if refusal := refused(route, target, scope):
            return await answers.send_refusal(scope, send, *refusal)
        if route is None:
            raise AssertionError("refused without a route")
        return await Relay(self.session(target), route, target, scope, receive, send).run(self.routes)

    async def websocket(self, target: Target, scope: Scope, receive: Receive, send: Send) -> None:
        scope["method"] = "GET"
        try:
            route = await self.routes.find(target.sandbox_id)
        except (*BROKEN, TimeoutError):
            return await answers.deny_websocket(send, 503, answers.busy())
        if refusal := refused(route, target, scope):
            return await answers.deny_websocket(send, *refusal)
        if route is None:
            raise AssertionError("refused without a route")
        return await Tunnel(self.relayed, route, target, scope, receive, send).run(self.routes)


def refused(route: Route | None, target: Target, scope: Scope) -> tuple[int, dict[str, object]] | None:
    """(status, payload) of what does not reach the sandbox."""
    if route is None:
        return 502, answers.not_found(target.sandbox_id)
    if target.port != settings.ENVD_PORT:
        return None
    if hidden(scope):
        return 404, answers.hidden_path()
    return None if allowed(scope, route) else (401, answers.unauthorized())
