"""`POST /files`: one raw body or a form of many files, any size, written in place as it arrives.

Writing in place keeps the file's inode, mode and links, as editors and mounts expect; a broken upload leaves what had
arrived.
"""

from __future__ import annotations

import os
import stat

from . import attributes, entries, folders, paths
from .connect import media_type
from .download import whose_path
from .errors import HttpError, RpcError, http_error
from .http1 import Reply, json_reply
from .workers import run_as

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from .accounts import Account
    from .http1 import Request
    from .loop import Loop
    from .sandbox import Sandbox

    Read = Callable[[], Awaitable[bytes]]

_GZIP = 31
_INFLATED_PIECE = 256 * 1024
_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY


class Upload:
    """What all files of one request share."""

    def __init__(self, loop: Loop, account: Account, metadata: dict[str, str]) -> None:
        self._loop = loop
        self._account = account
        self._metadata = metadata

    async def save(self, path: str, read: Read) -> dict[str, object]:
        """Writes all that `read` gives; 400, 403, 404, 507 as the file system says."""
        first = await read()
        fd = await run_as(self._loop, self._account, lambda: self._begin(path, first))
        try:
            while piece := await read():
                await run_as(self._loop, None, lambda: _write(fd, piece, path))
        finally:
            os.close(fd)
        metadata = {"metadata": self._metadata} if self._metadata else {}
        name = path.rpartition("/")[2]
        return {"name": entries.clean(name), "type": "file", "path": entries.clean(path), **metadata}

    def _begin(self, path: str, first: bytes) -> int:
        try:
            folders.make_parents(path)
            fd = os.open(path, _FLAGS, 0o644)
        except OSError as error:
            raise http_error(error, f"writing {path!r}") from None
        try:
            self._claim(fd, path)
            _write(fd, first, path)
        except BaseException:
            os.close(fd)
            raise
        return fd

    def _claim(self, fd: int, path: str) -> None:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode) and not stat.S_ISCHR(status.st_mode):
            raise HttpError(400, f"path {path!r} is not a regular file")
        if status.st_uid == self._account.uid and stat.S_ISREG(status.st_mode):
            os.fchown(fd, status.st_uid, status.st_gid)  # changes nothing; watchers expect the CHMOD event it makes
            attributes.replace(fd, self._metadata)


async def upload(loop: Loop, sandbox: Sandbox, request: Request) -> Reply:
    """Answers 200 with a list of `{name, type, path}`; 401 unknown user, 400 whatever the body or path has wrong."""
    account, path = whose_path(sandbox, request)
    files = Upload(loop, account, attributes.wanted(request))
    kind = media_type(request)
    named = bool(request.parameters().get("path"))
    if kind == "application/octet-stream":
        if not named:
            raise HttpError(400, "the query must have a path when the body is application/octet-stream")
        return json_reply(200, [await files.save(path, _body(request))])
    if kind != "multipart/form-data":
        raise HttpError(400, "the header Content-Type must be multipart/form-data or application/octet-stream")
    return json_reply(200, await _save_form(request, files, account, sandbox.default_workdir, path if named else ""))


async def _save_form(
    request: Request, files: Upload, account: Account, workdir: str, path: str
) -> list[dict[str, object]]:
    from .multipart import Form

    form = Form(request.headers["content-type"], _body(request))
    saved: list[dict[str, object]] = []
    seen: set[str] = set()
    while part := await form.next_part():
        if part.name != "file":
            continue
        target = path or _named(part.filename, account, workdir)
        if target in seen:
            raise HttpError(400, f"path {target!r} is given to two files of one upload; only the first was written")
        seen.add(target)
        saved.append(await files.save(target, form.read))
    if not saved:
        raise HttpError(400, "the form has no part named file")
    return saved


def _named(filename: str, account: Account, workdir: str) -> str:
    if not filename:
        raise HttpError(400, "a part named file has no filename, and the query has no path")
    try:
        return paths.resolve(filename, account, workdir)
    except RpcError as error:
        raise HttpError(400, error.message) from None


def _write(fd: int, data: bytes, path: str) -> None:
    view = memoryview(data)
    try:
        while view:
            view = view[os.write(fd, view) :]
    except OSError as error:
        raise http_error(error, f"writing {path!r}") from None


def _body(request: Request) -> Read:
    """The body's bytes, unpacked if they are gzip."""
    coding = request.headers.get("content-encoding", "identity").lower()
    if coding == "identity":
        return request.body.read
    if coding != "gzip":
        raise HttpError(400, "the header Content-Encoding must be gzip or identity")
    return _inflated(request.body.read)


def _inflated(read: Read) -> Read:
    import zlib

    unpacker = zlib.decompressobj(_GZIP)

    async def inflated() -> bytes:
        while True:
            data = unpacker.unconsumed_tail or await read()
            if not data:
                break
            try:
                if piece := unpacker.decompress(data, _INFLATED_PIECE):
                    return piece
            except zlib.error as error:
                raise HttpError(400, f"the body is not gzip: {error}", close=True) from None
        if not unpacker.eof:
            raise HttpError(400, "the gzip body is incomplete", close=True)
        return b""

    return inflated
