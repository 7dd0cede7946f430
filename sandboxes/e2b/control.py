"""The control plane's front: key, route, endpoint, and every failure in a form that the SDK can read."""

from __future__ import annotations

from dataclasses import dataclass, field

import structlog

from pools.errors import DomainError
from sandboxes.gateway.routes import Routes as SandboxRoutes
from sandboxes.serving.asgi import (
    OPEN_TO_BROWSERS,
    Receive,
    Scope,
    Send,
    is_preflight,
    send_answer,
    send_json,
    send_preflight,
)
from sandboxes.serving.batch import Batch
from sandboxes.serving.database import BROKEN, Database
from sandboxes.serving.envd import Envd

from . import lifetime
from .answers import Answer, Refusal, refusal_of, try_again
from .call import Call, CallerGone
from .catalog import Catalog
from .claiming import Claiming
from .keys import Keys
from .routes import Routes

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class Control:
    database: Database
    envd: Envd
    claiming: Claiming
    routes: SandboxRoutes
    keys: Keys
    catalog: Catalog
    kills: Batch[lifetime.Kill, bool]
    paths: Routes = field(default_factory=Routes)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if is_preflight(scope):
            return await send_preflight(scope, send)
        try:
            answer = await self._answer(scope, receive)
        except CallerGone:
            return None
        if answer.payload is None:
            return await send_answer(send, answer.status, headers=[OPEN_TO_BROWSERS, *answer.headers])
        return await send_json(send, answer.status, answer.payload, answer.headers)

    async def _answer(self, scope: Scope, receive: Receive) -> Answer:
        try:
            return await self._dispatch(scope, receive)
        except Refusal as refusal:
            return refusal.answer()
        except DomainError as error:
            return refusal_of(error).answer()
        except BROKEN as error:
            log.warning("database not available", path=scope["path"], error=str(error))
            return try_again("The database is not available at the moment. Ask again.").answer()
        except CallerGone:
            raise
        except Exception:
            log.exception("request failed", method=scope["method"], path=scope["path"])
            return Refusal(500, "An internal error; the log of the edge says more.").answer()

    async def _dispatch(self, scope: Scope, receive: Receive) -> Answer:
        methods, values = self.paths.find(scope["path"])
        if not methods:
            raise Refusal(404, f"There is no endpoint {scope['path'][:200]}.")
        if scope["method"] not in methods:
            allowed = ", ".join(sorted(methods))
            raise Refusal(405, f"{scope['path'][:200]} takes {allowed}.", headers=[(b"allow", allowed.encode())])
        key = await self.keys.of(scope)
        endpoint, names = methods[scope["method"]]
        return await endpoint(Call(self, scope, receive, key, dict(zip(names, values, strict=True))))
