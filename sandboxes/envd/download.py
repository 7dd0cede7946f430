"""`GET /files`: one file of any size, whole or a range of it, compressed if asked for, in bounded memory."""

from __future__ import annotations

import os
import stat
import time

from . import paths
from .connection import PIECE
from .errors import Gone, HttpError, RpcError, http_error
from .http1 import Reply, head_of
from .workers import run_as

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .accounts import Account
    from .http1 import Request
    from .loop import Loop
    from .sandbox import Sandbox

_WORTH_COMPRESSING = 1024
_GZIP = 31
_FAST = 1


class _File:
    """An open regular file and the part of it that is wanted; a small one is read along with the opening."""

    def __init__(self, fd: int, size: int, changed: float) -> None:
        self.fd = fd
        self.size = size
        self.changed = changed
        self.begin = 0
        self.end = size
        self._content = os.pread(fd, size, 0) if 0 < size <= PIECE else None

    @property
    def endless(self) -> bool:
        """Files of /proc and their like say they are empty and are not: they are read until nothing comes."""
        return self.size == 0

    def read(self) -> bytes:
        limit = PIECE if self.endless else min(PIECE, self.end - self.begin)
        if self._content is None:
            piece = os.pread(self.fd, limit, self.begin)
        else:
            piece = self._content[self.begin : self.begin + limit]
        self.begin += len(piece)
        return piece

    def in_memory(self) -> bool:
        return self._content is not None


async def download(loop: Loop, sandbox: Sandbox, request: Request) -> Reply | None:
    """200 or 206 with the bytes; 400 folder, 401 user, 404 missing, 406 no coding the client takes, 416 range."""
    account, path = whose_path(sandbox, request)
    compress = _wants_gzip(request)
    file = await run_as(loop, account, lambda: _opened(path))
    try:
        status, headers = _ranged(file, request.headers.get("range", ""))
        compress = compress and status == 200 and not 0 < file.size < _WORTH_COMPRESSING
        if compress or file.endless:
            await _send_chunked(loop, request, file, headers, compress)
        else:
            await _send_plain(loop, request, file, status, headers)
        return None
    finally:
        os.close(file.fd)


def whose_path(sandbox: Sandbox, request: Request) -> tuple[Account, str]:
    """The query's `username` and `path`; HttpError 401 for an unknown user, 400 for an impossible path."""
    query = request.parameters()
    try:
        account = sandbox.account(query.get("username", ""))
        return account, paths.resolve(query.get("path", ""), account, sandbox.default_workdir)
    except RpcError as error:
        raise HttpError(401 if error.code == "unauthenticated" else 400, error.message) from None


def _opened(path: str) -> _File:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except FileNotFoundError:
        raise HttpError(404, f"path {path!r} does not exist") from None
    except OSError as error:
        raise http_error(error, f"reading {path!r}") from None
    status = os.fstat(fd)
    if not stat.S_ISREG(status.st_mode):
        os.close(fd)
        kind = "a folder" if stat.S_ISDIR(status.st_mode) else "not a regular file"
        raise HttpError(400, f"path {path!r} is {kind}")
    return _File(fd, status.st_size, status.st_mtime)


def _wants_gzip(request: Request) -> bool:
    """Whether to compress; HttpError 406 if the client takes neither gzip nor the plain bytes."""
    qualities: dict[str, float] = {}
    for part in request.headers.get("accept-encoding", "").lower().split(","):
        name, _, quality = part.partition(";")
        qualities[name.strip()] = _quality(quality)
    gzip = qualities.get("gzip", qualities.get("*", 0.0))
    plain = qualities.get("identity", qualities.get("*", 1.0) if "*" in qualities else 1.0)
    if not gzip and not plain:
        raise HttpError(406, "no coding that the client accepts; there are identity and gzip")
    return bool(gzip) and gzip >= qualities.get("identity", 0.0) and "range" not in request.headers


def _quality(text: str) -> float:
    name, _, value = text.strip().partition("=")
    try:
        return float(value) if name.strip() == "q" else 1.0
    except ValueError:
        return 1.0


def _ranged(file: _File, wanted: str) -> tuple[int, str]:
    """Narrows the file to a single byte range if one is asked for; anything else is ignored, as RFC 9110 allows."""
    changed = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(file.changed))
    headers = (
        "Content-Type: application/octet-stream\r\nAccept-Ranges: bytes\r\nVary: Accept-Encoding\r\n"
        f"Last-Modified: {changed}\r\n"
    )
    unit, _, spans = wanted.partition("=")
    first, dash, last = spans.strip().partition("-")
    numbers = all(not part or (part.isascii() and part.isdigit() and len(part) < 19) for part in (first, last))
    if unit.strip() != "bytes" or not dash or not numbers or not (first or last) or not file.size:
        return 200, headers
    begin = int(first) if first else max(0, file.size - int(last))
    end = min(file.size, int(last) + 1) if first and last else file.size
    if begin >= end:
        raise HttpError(416, f"the range {wanted!r} lies outside the file's {file.size} bytes")
    file.begin, file.end = begin, end
    return 206, headers + f"Content-Range: bytes {begin}-{end - 1}/{file.size}\r\n"


async def _send_plain(loop: Loop, request: Request, file: _File, status: int, headers: str) -> None:
    connection, left = request.connection, file.end - file.begin
    head = head_of(request, status, f"{headers}Content-Length: {left}\r\n")
    if request.method == "HEAD":
        await connection.send(head)
        return
    while left:
        piece = file.read() if file.in_memory() else await run_as(loop, None, file.read)
        if not piece:
            raise Gone  # the file shrank: breaking off is the only way to say so
        left -= len(piece)
        await connection.send(head + piece)
        head = b""


async def _send_chunked(loop: Loop, request: Request, file: _File, headers: str, compress: bool) -> None:
    """For bytes of unknown number: compressed ones, and files that do not know their size."""
    coding = "Content-Encoding: gzip\r\n" if compress else ""
    request.keep_alive = request.keep_alive and not request.old
    framing = "" if request.old else "Transfer-Encoding: chunked\r\n"
    connection = request.connection
    await connection.send(head_of(request, 200, headers + coding + framing))
    read = _gzipped(file) if compress else file.read
    while request.method != "HEAD" and (piece := await run_as(loop, None, read)):
        await connection.send(piece if request.old else b"%x\r\n%b\r\n" % (len(piece), piece))
    if request.method != "HEAD" and not request.old:
        await connection.send(b"0\r\n\r\n")


def _gzipped(file: _File) -> Callable[[], bytes]:
    """A `read` that gives the file compressed; b"" when all is given."""
    import zlib

    packer = zlib.compressobj(_FAST, zlib.DEFLATED, _GZIP)
    ended = False

    def read() -> bytes:
        nonlocal ended
        packed = b""
        while not packed and not ended:
            piece = file.read()
            ended = not piece
            packed = packer.flush() if ended else packer.compress(piece)
        return packed

    return read
