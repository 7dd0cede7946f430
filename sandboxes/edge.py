"""The edge: what trainers talk to. One ASGI program, several processes on one socket (`uvicorn sandboxes.edge:app`).

The E2B API answers at the root, the gateway for hosts `<port>-<sandboxID>.<domain>` and by the E2b-Sandbox headers.
Raw ASGI: five thousand callers may wait here, and a thread or a framework's layers for each would cost too much.
"""

from __future__ import annotations

import asyncio
import gc
import os
import resource
import secrets
import signal
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from types import FrameType

import django
import structlog

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings")
django.setup()

from django.conf import settings  # noqa: E402 - models need Django set up

from . import times  # noqa: E402
from .e2b import claiming, lifetime  # noqa: E402
from .e2b.capacity import Capacity  # noqa: E402
from .e2b.catalog import Catalog  # noqa: E402
from .e2b.claiming import Claiming  # noqa: E402
from .e2b.control import Control  # noqa: E402
from .e2b.images import Images  # noqa: E402
from .e2b.keys import Keys  # noqa: E402
from .e2b.requests import Requests  # noqa: E402
from .e2b.waiting import Waiting  # noqa: E402
from .gateway.answers import send_refusal  # noqa: E402
from .gateway.exchange import Cut  # noqa: E402
from .gateway.gateway import Gateway  # noqa: E402
from .gateway.routes import REFRESH_SECONDS, Routes  # noqa: E402
from .gateway.target import BadTarget, target_of  # noqa: E402
from .serving import quiet  # noqa: E402
from .serving.asgi import Receive, Scope, Send, send_json  # noqa: E402
from .serving.database import BROKEN, Database  # noqa: E402
from .serving.envd import Envd, make_session  # noqa: E402
from .serving.loops import forever  # noqa: E402
from .serving.notices import Listener, Notices  # noqa: E402

log = structlog.get_logger(__name__)

STREAMS_LEAVE_SECONDS = 1.0
"""After SIGTERM streams through the gateway go on for so long; then their callers find another process.

Less than uvicorn's --timeout-graceful-shutdown, after which requests are cancelled without an answer.
"""
CLOSING_SECONDS = 5.0


@dataclass(slots=True)
class Running:
    """The parts of a started process."""

    database: Database
    control: Control
    gateway: Gateway
    tasks: list[asyncio.Task[None]] = field(default_factory=list)


class Edge:
    def __init__(self) -> None:
        self._running: Running | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return await self._lifespan(receive, send)
        if self._running is None:
            raise RuntimeError("the edge needs ASGI's lifespan: start uvicorn without --lifespan off")
        if scope["type"] == "websocket":
            return await websocket(self._running, scope, receive, send)
        return await http(self._running, scope, receive, send)

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        self._running = start()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await stop(self._running)
        await send({"type": "lifespan.shutdown.complete"})


async def http(running: Running, scope: Scope, receive: Receive, send: Send) -> None:
    try:
        target = target_of(scope, settings.ENVD_PORT)
    except BadTarget as error:
        return await send_refusal(scope, send, 400, {"code": 400, "message": str(error)})
    if target is not None:
        return await running.gateway.http(target, scope, receive, send)
    if scope["path"] in ("/healthz", "/health"):
        return await send_json(send, 200, {"status": "up"})
    if scope["path"] == "/readyz":
        return await ready(running, send)
    return await running.control(scope, receive, send)


async def websocket(running: Running, scope: Scope, receive: Receive, send: Send) -> None:
    try:
        target = target_of(scope, settings.ENVD_PORT)
    except BadTarget:
        target = None
    if target is None:
        return await send({"type": "websocket.close", "code": 1008, "reason": "No sandbox is named"})
    return await running.gateway.websocket(target, scope, receive, send)


async def ready(running: Running, send: Send) -> None:
    """Ready = the database answers. Redis is only speed."""
    try:
        async with asyncio.timeout(2):
            await running.database.upkeep(Database.ping)
    except (*BROKEN, TimeoutError) as error:
        log.warning("not ready", error=str(error))
        return await send_json(send, 503, {"status": "the database does not answer", "code": 503})
    return await send_json(send, 200, {"status": "ready"})


def start() -> Running:
    allow_many_connections()
    gc.freeze()  # what was imported stays: looking through it again and again costs requests milliseconds
    name = process_name()
    database = Database()
    session = make_session()
    routes = Routes(database)
    waiting = Waiting(database)
    envd = Envd(session)
    capacity = Capacity(database)
    batches = (claiming.deliveries(database), claiming.cancels(database), claiming.expiries(database))
    requests, images = Requests(database, name), Images(database)
    claims = Claiming(name, database, waiting, envd, images, capacity, requests, *batches)
    control = Control(database, envd, claims, routes, Keys(database), Catalog(database), lifetime.kills(database))
    listeners: dict[str, Listener] = {
        f"edge:{name}": waiting.notice,
        "gone": routes.note_gone,
        "deadline": routes.note_deadline,
    }
    running = Running(database, control, Gateway(routes, session, make_session(pooled=False)))
    running.tasks = [
        asyncio.create_task(forever("heartbeat", partial(claiming.beat, claims), times.EDGE_HEARTBEAT)),
        asyncio.create_task(forever("look at waiting claims", waiting.look, 0.0)),
        asyncio.create_task(forever("confirmation of routes", routes.refresh, REFRESH_SECONDS)),
        asyncio.create_task(forever("subscription to notices", Notices(listeners).listen, 1.0)),
    ]
    quiet.install()
    leave_on_sigterm(lambda: leave(running))
    log.info("edge started", name=name)
    return running


def leave(running: Running) -> None:
    """First those who only wait; streams get a little time."""
    running.control.claiming.waiting.leave()
    cut = partial(running.gateway.routes.cut_all, Cut.RESTARTING)
    asyncio.get_running_loop().call_later(STREAMS_LEAVE_SECONDS, cut)


async def stop(running: Running) -> None:
    for task in running.tasks:
        task.cancel()
    try:
        async with asyncio.timeout(CLOSING_SECONDS):
            await running.control.claiming.cancels.drained()
            await running.control.claiming.expiries.drained()
    except TimeoutError:
        log.warning("claims left open, the collector will close them")
    await running.gateway.to_envd.close()
    await running.gateway.relayed.close()
    running.control.claiming.images.close()
    await asyncio.to_thread(running.database.close)
    log.info("edge stopped", name=running.control.claiming.name)


def leave_on_sigterm(leave: Callable[[], None]) -> None:
    """uvicorn waits for requests before it tells us of the shutdown, so we listen to its signals too."""
    loop = asyncio.get_running_loop()
    if threading.current_thread() is not threading.main_thread():
        return
    for number in (signal.SIGTERM, signal.SIGINT):
        before = signal.getsignal(number)

        def both(number: int, frame: FrameType | None, before: object = before) -> None:
            loop.call_soon_threadsafe(leave)
            if callable(before):
                before(number, frame)

        signal.signal(number, both)


def allow_many_connections() -> None:
    """Five thousand callers wait on as many descriptors; the usual soft limit is 1,024."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def process_name() -> str:
    """Unique over restarts: claims of the former process are not ours."""
    return f"{socket.gethostname()[:20]}-{os.getpid()}-{secrets.token_hex(3)}"


app = Edge()
