"""The gateway's way to user ports: one request or WebSocket, forwarded to a port of the sandbox's own loopback.

The gateway thus talks to one port with one token, whatever the sandbox serves (design section 4, "Gateway").
"""

from __future__ import annotations

import _socket
import errno

from . import access
from .connection import PIECE
from .errors import Gone, HttpError
from .http1 import Reply, json_reply
from .loop import READ, WRITE, now

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .http1 import Request
    from .loop import Loop, Task
    from .sandbox import Sandbox

_PORT = "x-envd-relay-port"
_TOKEN = "x-envd-relay-token"  # noqa: S105
_CONNECT_SECONDS = 5.0
_PARTING_SECONDS = 30.0
_ADDRESSES = ((_socket.AF_INET, "127.0.0.1"), (_socket.AF_INET6, "::1"))


async def relay(loop: Loop, sandbox: Sandbox, request: Request) -> Reply | None:
    """Connects to `X-Envd-Relay-Port`, passes the request on and all that follows both ways until either side is done.

    401 for a wrong `X-Envd-Relay-Token`, 400 for an impossible port, 502 when nothing listens. The connection serves no
    second request.
    """
    access.check_token(sandbox, request.headers.get(_TOKEN, ""), "X-Envd-Relay-Token")
    port = _port(request.headers[_PORT])
    upstream = await _open(loop, port)
    if upstream is None:
        message = "The sandbox is running but port is not open"
        return json_reply(502, {"code": 502, "message": message, "port": port})
    try:
        await _splice(loop, request, upstream)
    finally:
        upstream.close()
    raise Gone


def _port(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 5 or not 0 < int(text) < 65536:
        raise HttpError(400, "the header X-Envd-Relay-Port must be a port number from 1 to 65535")
    return int(text)


async def _open(loop: Loop, port: int) -> _socket.socket | None:
    for family, address in _ADDRESSES:
        try:
            upstream = _socket.socket(family, _socket.SOCK_STREAM | _socket.SOCK_CLOEXEC | _socket.SOCK_NONBLOCK)
        except OSError:
            continue  # no IPv6 in this sandbox
        problem = upstream.connect_ex((address, port))
        if problem == errno.EINPROGRESS and await loop.ready(upstream.fileno(), WRITE, now() + _CONNECT_SECONDS):
            problem = upstream.getsockopt(_socket.SOL_SOCKET, _socket.SO_ERROR)
        if problem == 0:
            upstream.setsockopt(_socket.IPPROTO_TCP, _socket.TCP_NODELAY, 1)
            return upstream
        upstream.close()
    return None


async def _splice(loop: Loop, request: Request, upstream: _socket.socket) -> None:
    """Up and down at once. The answer's end is the end; the client may stop sending earlier."""
    connection = request.connection
    start = _head(request) + bytes(connection.unread)
    connection.unread.clear()
    up = loop.start(_upwards(loop, connection.socket, upstream, start))
    try:
        await _pass_on(loop, upstream, connection.socket, b"")
    finally:
        await _stop(up)


async def _upwards(loop: Loop, client: _socket.socket, upstream: _socket.socket, start: bytes) -> None:
    """A client that has ended has most likely left: a server that does not notice must not keep the connection."""
    await _pass_on(loop, client, upstream, start)
    await loop.sleep(_PARTING_SECONDS)
    upstream.shutdown(_socket.SHUT_RDWR)


async def _stop(task: Task) -> None:
    task.cancel()
    await task.join()


def _head(request: Request) -> bytes:
    """The request's head as it came, without our headers; a connection that is not upgraded is good for one request."""
    line, *fields = request.head.split("\r\n")
    upgrade = "upgrade" in request.headers
    dropped = (_PORT, _TOKEN) if upgrade else (_PORT, _TOKEN, "connection", "keep-alive")
    kept = [field for field in fields if field.partition(":")[0].lower() not in dropped]
    return "\r\n".join([line, *kept, *([] if upgrade else ["Connection: close"]), "\r\n"]).encode("latin-1")


async def _pass_on(loop: Loop, source: _socket.socket, target: _socket.socket, data: bytes) -> None:
    """Copies until `source` ends, then says so to `target`. A broken side ends it too."""
    try:
        while True:
            await _send(loop, target, data)
            data = await _receive(loop, source)
            if not data:
                target.shutdown(_socket.SHUT_WR)
                return
    except OSError:
        return


async def _receive(loop: Loop, source: _socket.socket) -> bytes:
    while True:
        try:
            return source.recv(PIECE)
        except BlockingIOError:
            await loop.ready(source.fileno(), READ)


async def _send(loop: Loop, target: _socket.socket, data: bytes) -> None:
    view = memoryview(data)
    while view:
        try:
            view = view[target.send(view) :]
        except BlockingIOError:
            await loop.ready(target.fileno(), WRITE)
