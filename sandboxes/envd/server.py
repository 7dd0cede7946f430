"""Accepts connections and answers the requests on each, one after the other."""

from __future__ import annotations

import _socket
import os

from .connection import Connection
from .errors import Gone, HttpError
from .http1 import bare_answer, json_reply, read_request, send_reply
from .loop import READ, now, report

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .http1 import Reply, Request
    from .loop import Loop
    from .routes import Routes

DEFAULT_PORT = 49983
_INHERITED = 3
_BACKLOG = 512
_MOST_CONNECTIONS = 512
_DRAIN_LIMIT = 64 * 1024
_LINGER_SECONDS = 5.0
_BUSY = HttpError(503, "the sandbox has too many connections")


def listening_socket() -> _socket.socket:
    """The socket handed in by whoever started us (systemd's convention: LISTEN_FDS=1, descriptor 3), else our own."""
    inherited = os.environ.pop("LISTEN_FDS", "")
    os.environ.pop("LISTEN_PID", None)
    if inherited:
        os.set_inheritable(_INHERITED, False)
        return _socket.socket(fileno=_INHERITED)
    listener = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM | _socket.SOCK_CLOEXEC)
    listener.setsockopt(_socket.SOL_SOCKET, _socket.SO_REUSEADDR, 1)
    listener.bind(("0.0.0.0", int(os.environ.pop("ENVD_PORT", "") or DEFAULT_PORT)))  # noqa: S104
    listener.listen(_BACKLOG)
    return listener


class Server:
    def __init__(self, loop: Loop, routes: Routes) -> None:
        self._loop = loop
        self._routes = routes
        self._open = 0

    async def accept(self, listener: _socket.socket) -> None:
        listener.setblocking(False)
        while True:
            try:
                fd, _ = listener._accept()  # type: ignore[attr-defined]
            except BlockingIOError:
                await self._loop.ready(listener.fileno(), READ)
            except OSError:
                await self._loop.sleep(0.05)  # a client gave up before its turn, or no descriptor is free
            else:
                self._admit(fd)

    def _admit(self, fd: int) -> None:
        if self._open < _MOST_CONNECTIONS:
            self._open += 1
            self._loop.start(self._serve(Connection(self._loop, fd)))
            return
        refused = _socket.socket(fileno=fd)
        refused.setblocking(False)
        try:
            refused.send(bare_answer(_BUSY))
        except OSError:
            pass
        refused.close()

    async def _serve(self, connection: Connection) -> None:
        try:
            while await self._exchange(connection):
                pass
        except Gone:
            pass
        finally:
            self._open -= 1
            connection.close()

    async def _exchange(self, connection: Connection) -> bool:
        """One request and its answer; False when the connection is of no more use."""
        try:
            request = await read_request(connection)
        except HttpError as error:
            await connection.send(bare_answer(error))
            return False
        if request is None:
            return False
        reply = await self._reply(request)
        if reply:
            request.keep_alive = request.keep_alive and await self._rest_read(request, reply)
            await send_reply(request, reply)
        if not request.body.ended:
            await self._linger(connection)
        return request.keep_alive and request.body.ended

    async def _linger(self, connection: Connection) -> None:
        """Lets a client that is still sending read why it was refused, instead of resetting the connection under it."""
        try:
            connection.socket.shutdown(_socket.SHUT_WR)
        except OSError:
            return
        until = now() + _LINGER_SECONDS
        try:
            while await connection.receive(until):
                pass
        except HttpError:
            return

    async def _reply(self, request: Request) -> Reply | None:
        try:
            return await self._routes.answer(request)
        except Gone:
            raise
        except Exception as error:  # noqa: BLE001
            report(error)
            return json_reply(500, {"code": 500, "message": f"internal error: {error!r}"}, close=True)

    async def _rest_read(self, request: Request, reply: Reply) -> bool:
        """Reads a small rest of a refused request's body, so that the connection stays usable."""
        if reply.close or request.body.awaits_consent:
            return request.body.ended
        try:
            await request.body.read_all(_DRAIN_LIMIT)
        except HttpError:
            return False
        return True
