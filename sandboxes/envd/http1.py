"""HTTP/1.1 requests and answers, strict and bounded: what is ambiguous is refused, never guessed."""

from __future__ import annotations

from . import jsontext
from .connection import Body
from .errors import Gone, HttpError
from .loop import now

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .connection import Connection

_HEAD_LIMIT = 32 * 1024
_IDLE_SECONDS = 620.0
"""Longer than clients keep an idle connection (the SDK: 300 s), so it is they who close it."""
_HEAD_SECONDS = 30.0
_TOKEN = frozenset("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
_REASONS = {
    200: "OK",
    204: "No Content",
    206: "Partial Content",
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    406: "Not Acceptable",
    408: "Request Timeout",
    409: "Conflict",
    413: "Content Too Large",
    415: "Unsupported Media Type",
    416: "Range Not Satisfiable",
    429: "Too Many Requests",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    501: "Not Implemented",
    502: "Bad Gateway",
    503: "Service Unavailable",
    504: "Gateway Timeout",
    505: "HTTP Version Not Supported",
    507: "Insufficient Storage",
}


class Request:
    """One request; header names are in lower case, `head` is the raw text up to the empty line."""

    def __init__(self, connection: Connection, head: str) -> None:
        self.connection = connection
        self.head = head
        line, _, fields = head.partition("\r\n")
        self.method, self.target, version = _request_line(line)
        self.headers = _headers(fields)
        self.path, _, self.query = self.target.partition("?")
        self.old = version == "HTTP/1.0"
        self.body = _body(connection, self.headers)
        tokens = self.headers.get("connection", "").lower()
        self.keep_alive = "keep-alive" in tokens if self.old else "close" not in tokens

    def parameters(self) -> dict[str, str]:
        """The query's fields; the first of a name counts."""
        fields: dict[str, str] = {}
        for pair in self.query.split("&") if self.query else ():
            name, _, value = pair.partition("=")
            fields.setdefault(unquote(name), unquote(value))
        return fields


class Reply:
    """A complete answer. `headers` are extra lines, each ending in CRLF."""

    def __init__(self, status: int, body: bytes = b"", headers: str = "", close: bool = False) -> None:
        self.status = status
        self.body = body
        self.headers = headers
        self.close = close


async def read_request(connection: Connection) -> Request | None:
    """The next request; None when the client closed or stayed idle."""
    if not connection.unread:
        try:
            if not await connection.fill(now() + _IDLE_SECONDS):
                return None
        except HttpError:
            return None
    until = now() + _HEAD_SECONDS
    while (end := connection.unread.find(b"\r\n\r\n")) < 0:
        if len(connection.unread) > _HEAD_LIMIT:
            raise HttpError(431, f"the request's head is larger than {_HEAD_LIMIT} bytes", close=True)
        if not await connection.fill(until):
            raise Gone
    if end > _HEAD_LIMIT:
        raise HttpError(431, f"the request's head is larger than {_HEAD_LIMIT} bytes", close=True)
    head = connection.unread[:end].decode("latin-1")
    del connection.unread[: end + 4]
    return Request(connection, head)


def json_reply(status: int, value: object, headers: str = "", close: bool = False) -> Reply:
    return Reply(status, jsontext.dump(value), "Content-Type: application/json\r\n" + headers, close)


def head_of(request: Request, status: int, headers: str) -> bytes:
    """Status line and headers; the length headers are the caller's."""
    lines = [f"HTTP/1.1 {status} {_REASONS.get(status, 'Unknown')}\r\n", headers]
    if "origin" in request.headers:
        lines.append("Access-Control-Allow-Origin: *\r\nAccess-Control-Expose-Headers: *\r\n")
    if not request.keep_alive:
        lines.append("Connection: close\r\n")
    lines.append("\r\n")
    return "".join(lines).encode("latin-1", "replace")


async def send_reply(request: Request, reply: Reply) -> None:
    request.keep_alive = request.keep_alive and not reply.close
    length = "" if reply.status == 204 else f"Content-Length: {len(reply.body)}\r\n"
    body = b"" if request.method == "HEAD" else reply.body
    await request.connection.send(head_of(request, reply.status, reply.headers + length) + body)


def bare_answer(error: HttpError) -> bytes:
    """The answer to something that was no HTTP request; the connection is closed after it."""
    reply = json_reply(error.status, {"code": error.status, "message": error.message})
    head = f"HTTP/1.1 {error.status} {_REASONS.get(error.status, 'Unknown')}\r\n{reply.headers}"
    return f"{head}Content-Length: {len(reply.body)}\r\nConnection: close\r\n\r\n".encode() + reply.body


def preflight(request: Request) -> Reply:
    """CORS is open: SDK and terminal run in browsers (e2b-protocol.md 2.2)."""
    wanted = request.headers.get("access-control-request-headers", "*")
    allow = f"Access-Control-Allow-Methods: GET, HEAD, POST, OPTIONS\r\nAccess-Control-Allow-Headers: {wanted}\r\n"
    return Reply(204, headers=allow + "Access-Control-Max-Age: 7200\r\n")


def unquote(text: str) -> str:
    """Undoes the encoding of query strings; HttpError 400 when it is not UTF-8."""
    if "%" not in text and "+" not in text:
        return text
    first, *rest = text.replace("+", " ").split("%")
    data = bytearray(first.encode())
    for part in rest:
        data += _unquoted(part)
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise HttpError(400, "the query string is not UTF-8") from None


def _unquoted(part: str) -> bytes:
    try:
        return bytes.fromhex(part[:2]) + part[2:].encode() if len(part) >= 2 else b"%" + part.encode()
    except ValueError:
        return b"%" + part.encode()


def _request_line(line: str) -> tuple[str, str, str]:
    parts = line.split(" ")
    if len(parts) != 3 or not parts[0] or not _TOKEN.issuperset(parts[0]) or not _printable(parts[1]):
        raise HttpError(400, "the request line is not `METHOD /path HTTP/1.1`", close=True)
    if parts[2] not in ("HTTP/1.1", "HTTP/1.0"):
        raise HttpError(505, "only HTTP/1.1 is spoken here", close=True)
    if not parts[1].startswith("/") and parts[1] != "*":
        raise HttpError(400, "the request's target must start with a slash", close=True)
    return parts[0], parts[1], parts[2]


def _headers(text: str) -> dict[str, str]:
    headers: dict[str, str] = {}
    for line in text.split("\r\n") if text else ():
        name, colon, value = line.partition(":")
        if not colon or not name or not _TOKEN.issuperset(name) or "\n" in line or "\r" in line or "\0" in line:
            raise HttpError(400, "a header is not `Name: value`", close=True)
        name, value = name.lower(), value.strip(" \t")
        if name in headers:
            if name in ("content-length", "transfer-encoding", "host"):
                raise HttpError(400, f"the header {name} is given twice", close=True)
            value = f"{headers[name]}, {value}"
        headers[name] = value
    return headers


def _body(connection: Connection, headers: dict[str, str]) -> Body:
    length, coding = headers.get("content-length"), headers.get("transfer-encoding")
    if coding is not None and (length is not None or coding.lower() != "chunked"):
        raise HttpError(400, "the body must have a Content-Length or be chunked, not both", close=True)
    if length is not None and not (length.isascii() and length.isdigit() and len(length) < 18):
        raise HttpError(400, "Content-Length is not a number", close=True)
    waits = headers.get("expect", "").lower() == "100-continue"
    return Body(connection, int(length or 0), coding is not None, waits)


def _printable(text: str) -> bool:
    return bool(text) and text.isascii() and text.isprintable()
