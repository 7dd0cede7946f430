"""The Connect protocol as far as E2B's SDKs use it: JSON only, no compression (e2b-protocol.md 3.1)."""

from __future__ import annotations

from . import jsontext
from .errors import RPC_STATUS, RpcError
from .http1 import Reply, head_of, json_reply
from .loop import Wait, now

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .http1 import Request

    Message = dict[str, Any]

UNARY_TYPE = "application/json"
STREAM_TYPE = "application/connect+json"
MESSAGE_LIMIT = 16 * 1024 * 1024
_FRAMED_LIMIT = MESSAGE_LIMIT + 4096
_END_OF_STREAM = 2
_LONGEST_TIMEOUT = 366 * 86400.0
_DEFAULT_KEEPALIVE = 90.0


def frame(payload: bytes, flags: int = 0) -> bytes:
    return bytes((flags,)) + len(payload).to_bytes(4, "big") + payload


def end_frame(error: RpcError | None = None) -> bytes:
    if error is None:
        return frame(b"{}", _END_OF_STREAM)
    return frame(jsontext.dump({"error": {"code": error.code, "message": error.message}}), _END_OF_STREAM)


def error_reply(error: RpcError) -> Reply:
    return json_reply(RPC_STATUS.get(error.code, 500), {"code": error.code, "message": error.message})


def media_type(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


async def read_message(request: Request) -> Message:
    """The one message of a unary call."""
    if request.headers.get("content-encoding", "identity") != "identity":
        raise RpcError("unimplemented", "compressed messages are not spoken here: use content-encoding identity")
    return parse_message(await request.body.read_all(MESSAGE_LIMIT) or b"{}")


def parse_message(data: bytes) -> Message:
    try:
        message = jsontext.parse(data)
    except ValueError as error:
        raise RpcError("invalid_argument", f"the message is not JSON: {error}") from None
    if not isinstance(message, dict):
        raise RpcError("invalid_argument", "the message must be a JSON object")
    return message


async def read_only_frame(request: Request) -> Message:
    """The one message of a server-streaming call."""
    data = await request.body.read_all(_FRAMED_LIMIT)
    message, rest = _split(data)
    if message is None or rest:
        raise RpcError("invalid_argument", "the body must be exactly one enveloped message")
    return parse_message(message)


class Frames:
    """The messages of a client-streaming call, one at a time."""

    def __init__(self, request: Request) -> None:
        self._body = request.body
        self._data = b""

    async def next(self) -> Message | None:
        while True:
            message, self._data = _split(self._data)
            if message is not None:
                return parse_message(message)
            piece = await self._body.read()
            if not piece and self._data:
                raise RpcError("invalid_argument", "the stream ended inside a message")
            if not piece:
                return None
            self._data += piece


def _split(data: bytes) -> tuple[bytes | None, bytes]:
    """The first enveloped message and what follows it; (None, data) while it is incomplete."""
    if len(data) < 5:
        return None, data
    size = int.from_bytes(data[1:5], "big")
    if data[0]:
        raise RpcError("invalid_argument", "only plain messages (flags 0) may be sent")
    if size > MESSAGE_LIMIT:
        raise RpcError("resource_exhausted", f"the message is larger than {MESSAGE_LIMIT} bytes")
    if len(data) < 5 + size:
        return None, data
    return data[5 : 5 + size], data[5 + size :]


class Stream:
    """The answer of a streaming call: HTTP 200 and enveloped messages, always; errors go into the last one."""

    open: set[Stream] = set()
    """Streams in progress, so that a dying daemon can say so to each."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._connection = request.connection
        self._begun = False
        self._sending = False

    async def __aenter__(self) -> Stream:
        Stream.open.add(self)
        self._connection.look_for_hangup()
        return self

    async def __aexit__(self, *error: object) -> None:
        Stream.open.discard(self)

    async def send(self, frames: bytes, last: bool = False) -> None:
        data = self._packed(frames, last)
        self._sending = True
        await self._connection.send(data, stall=None)
        self._sending = False

    async def end(self, error: RpcError | None = None, frames: bytes = b"") -> None:
        await self.send(frames + end_frame(error), last=True)

    def abandon(self, error: RpcError) -> None:
        """Ends the stream at once, as well as one write that must not wait can."""
        if self._sending:
            return
        try:
            self._connection.socket.send(self._packed(end_frame(error), last=True))
        except OSError:
            return

    async def park(self, wait: Wait, until: float | None) -> bool:
        return await self._connection.park(wait, until)

    def _packed(self, frames: bytes, last: bool) -> bytes:
        chunked = not self._request.old
        data = b"%x\r\n%b\r\n" % (len(frames), frames) if chunked else frames
        if last and chunked:
            data += b"0\r\n\r\n"
        if self._begun:
            return data
        self._begun = True
        length = "Transfer-Encoding: chunked\r\n" if chunked else ""
        self._request.keep_alive = self._request.keep_alive and chunked
        return head_of(self._request, 200, f"Content-Type: {STREAM_TYPE}\r\n{length}") + data


def time_limit(request: Request) -> float | None:
    """When the caller's patience ends, in monotonic seconds; None for never."""
    text = request.headers.get("connect-timeout-ms")
    if not text:
        return None
    if not text.isascii() or not text.isdigit() or len(text) > 10:
        raise RpcError("invalid_argument", "the header connect-timeout-ms must be a number of at most ten digits")
    return now() + min(int(text) / 1000, _LONGEST_TIMEOUT)


def keepalive_seconds(request: Request) -> float:
    """How long a stream may be silent; the header is in seconds (e2b-protocol.md 3.1)."""
    text = request.headers.get("keepalive-ping-interval", "")
    return max(1.0, float(text[:6])) if text.isascii() and text.isdigit() else _DEFAULT_KEEPALIVE
