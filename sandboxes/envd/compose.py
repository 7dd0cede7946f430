"""`POST /files/compose`: joins files into one and removes the sources."""

from __future__ import annotations

import os
import stat

from . import fields, folders, paths
from .errors import HttpError, RpcError, http_error
from .http1 import Reply, json_reply
from .init import parsed
from .workers import run_as

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .http1 import Request
    from .loop import Loop
    from .sandbox import Sandbox

_LIMIT = 1024 * 1024
_PIECE = 16 * 1024 * 1024


async def compose(loop: Loop, sandbox: Sandbox, request: Request) -> Reply:
    """Body `{source_paths, destination, username?}`; 200 with `{name, type, path}`, 400, 401, 404, 507."""
    message = parsed(await request.body.read_all(_LIMIT))
    try:
        account = sandbox.account(fields.text(message, "username"))
        sources = [paths.resolve(each, account) for each in fields.texts(message, "source_paths")]
        destination = paths.resolve(fields.text(message, "destination"), account)
    except RpcError as error:
        raise HttpError(401 if error.code == "unauthenticated" else 400, error.message) from None
    if not sources or not message.get("destination"):
        raise HttpError(400, "source_paths and destination must be given")
    if len(set(sources)) < len(sources):
        raise HttpError(400, "source_paths must not name a file twice")
    await run_as(loop, account, lambda: _join(sources, destination))
    return json_reply(200, {"name": destination.rpartition("/")[2], "type": "file", "path": destination})


def _join(sources: list[str], destination: str) -> None:
    """Into a file beside the destination first: the destination may be one of the sources."""
    for path in sources:
        _check(path)
    whole = f"{destination}.compose-{os.getpid()}"
    try:
        folders.make_parents(destination)
        _copy_all(sources, whole)
        os.replace(whole, destination)
        for path in sources:
            if path != destination:
                os.unlink(path)
    except OSError as error:
        raise http_error(error, f"composing {destination!r}") from None


def _check(path: str) -> None:
    try:
        mode = os.stat(path).st_mode
    except OSError as error:
        raise http_error(error, f"reading {path!r}") from None
    if not stat.S_ISREG(mode):
        raise HttpError(400, f"path {path!r} is not a regular file")


def _copy_all(sources: list[str], whole: str) -> None:
    target = os.open(whole, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
    try:
        for path in sources:
            with open(path, "rb") as source:
                while os.sendfile(target, source.fileno(), None, _PIECE):
                    pass
    except BaseException:
        os.unlink(whole)
        raise
    finally:
        os.close(target)
