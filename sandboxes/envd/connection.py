"""One client connection: bounded reading, writing that waits for the client, chunked or plain bodies."""

from __future__ import annotations

import _socket

from .errors import Gone, HttpError
from .loop import LATE, READ, READY, WRITE, Wait, now

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .loop import Loop

PIECE = 256 * 1024
"""The most one read takes, and so what a transfer of any size costs in memory."""
_LINE_LIMIT = 4096
STALL_SECONDS = 300.0
"""How long a body may stand still before the connection is given up."""
_OPTIONS = (
    (_socket.IPPROTO_TCP, _socket.TCP_NODELAY, 1),
    (_socket.SOL_SOCKET, _socket.SO_KEEPALIVE, 1),
    (_socket.IPPROTO_TCP, _socket.TCP_KEEPIDLE, 60),
    (_socket.IPPROTO_TCP, _socket.TCP_KEEPINTVL, 15),
    (_socket.IPPROTO_TCP, _socket.TCP_KEEPCNT, 4),
)
"""No waiting for more to send; a peer that vanished without a word is noticed after two minutes."""


class Connection:
    """A socket with its unread bytes. `hung_up` is meaningful only between a request's body and its answer's end."""

    def __init__(self, loop: Loop, fd: int) -> None:
        self.loop = loop
        self.socket = _socket.socket(fileno=fd)
        self.fd = fd
        self.unread = bytearray()
        self._quiet = True
        self.socket.setblocking(False)
        if self.socket.family != _socket.AF_UNIX:
            for option in _OPTIONS:
                self.socket.setsockopt(*option)

    def close(self) -> None:
        self.fd = -1
        self.socket.close()

    async def fill(self, until: float) -> bool:
        """Adds what has arrived to `unread`; False when the client sends no more. HttpError 408 when `until` passes."""
        data = await self.receive(until)
        self.unread += data
        return bool(data)

    async def receive(self, until: float) -> bytes:
        while True:
            try:
                return self.socket.recv(PIECE)
            except BlockingIOError:
                if not await self.loop.ready(self.fd, READ, until):
                    raise HttpError(408, "the request was not completed in time", close=True) from None
            except OSError as error:
                raise Gone from error

    async def take(self, limit: int) -> bytes:
        """Between 1 and `limit` bytes; Gone when the client leaves in the middle."""
        if not self.unread:
            data = await self.receive(now() + STALL_SECONDS)
            if not data:
                raise Gone
            if len(data) <= limit:
                return data
            self.unread += data
        taken = bytes(self.unread[:limit])
        del self.unread[:limit]
        return taken

    async def line(self) -> bytes:
        """The next CRLF line of a chunked body, without its end."""
        while (end := self.unread.find(b"\r\n")) < 0:
            if len(self.unread) > _LINE_LIMIT:
                raise HttpError(400, "a chunk header is too long", close=True)
            if not await self.fill(now() + STALL_SECONDS):
                raise Gone
        line = bytes(self.unread[:end])
        del self.unread[: end + 2]
        return line

    async def send(self, data: bytes | memoryview, stall: float | None = STALL_SECONDS) -> None:
        """Writes all of `data`, waiting for a slow client; Gone when it left or took nothing for `stall` seconds."""
        view = memoryview(data)
        while view:
            try:
                view = view[self.socket.send(view) :]
            except BlockingIOError:
                until = None if stall is None else now() + stall
                if not await self.loop.ready(self.fd, WRITE, until):
                    raise Gone from None
            except OSError as error:
                raise Gone from error

    def look_for_hangup(self) -> None:
        """From here on `park` notices when the client leaves."""
        self._quiet = True

    def hung_up(self) -> bool:
        """Whether the client closed its end. Bytes of a next request end the looking: they are read later."""
        try:
            waiting = self.socket.recv(1, _socket.MSG_PEEK)
        except BlockingIOError:
            return False
        except OSError:
            return True
        self._quiet = not waiting
        return not waiting

    async def park(self, wait: Wait, until: float | None) -> bool:
        """Waits for `wait`, for the client's leaving (raises Gone) or for `until`; False when `until` came."""
        fd = self.fd if self._quiet else -1
        cause = await self.loop.park(wait, fd, READ, until)
        if cause is READY and self.hung_up():
            raise Gone
        return cause is not LATE


class Body:
    """A request's body, read piece by piece."""

    def __init__(self, connection: Connection, length: int, chunked: bool, expects_continue: bool) -> None:
        self._connection = connection
        self._left = length
        self._chunked = chunked
        self._expects_continue = expects_continue
        self.ended = not chunked and length == 0

    @property
    def awaits_consent(self) -> bool:
        """The client holds the body back until told to continue; refusing early must then close the connection."""
        return self._expects_continue and not self.ended

    async def read(self, limit: int = PIECE) -> bytes:
        """The next piece; b"" at the end."""
        if self.ended:
            return b""
        await self._consent()
        if self._left == 0 and not await self._next_chunk():
            return b""
        piece = await self._connection.take(min(self._left, limit))
        self._left -= len(piece)
        if self._left == 0:
            await self._end_chunk()
        return piece

    async def read_all(self, limit: int) -> bytes:
        """The whole body; HttpError 413 beyond `limit` bytes."""
        if self._left > limit:
            raise HttpError(413, f"the request's body is larger than {limit} bytes", close=True)
        pieces = []
        total = 0
        while piece := await self.read():
            pieces.append(piece)
            total += len(piece)
            if total > limit:
                raise HttpError(413, f"the request's body is larger than {limit} bytes", close=True)
        return b"".join(pieces)

    async def _consent(self) -> None:
        if self._expects_continue:
            self._expects_continue = False
            await self._connection.send(b"HTTP/1.1 100 Continue\r\n\r\n")

    async def _next_chunk(self) -> bool:
        size = (await self._connection.line()).split(b";", 1)[0].strip()
        if not size or len(size) > 15 or size.strip(b"0123456789abcdefABCDEF"):
            raise HttpError(400, "a chunk's size is not a hexadecimal number", close=True)
        self._left = int(size, 16)
        if self._left:
            return True
        while await self._connection.line():
            pass  # trailers mean nothing here
        self.ended = True
        return False

    async def _end_chunk(self) -> None:
        if not self._chunked:
            self.ended = True
        elif await self._connection.line():
            raise HttpError(400, "a chunk is longer than its size says", close=True)
