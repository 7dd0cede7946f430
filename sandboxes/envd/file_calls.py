"""The service filesystem.Filesystem without its watchers (e2b-protocol.md 3.3)."""

from __future__ import annotations

import errno
import os

from . import entries, fields, folders, paths
from .connect import read_message
from .errors import RpcError, rpc_error
from .process_calls import caller
from .workers import run_as

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .connect import Message
    from .entries import Entry
    from .http1 import Request
    from .loop import Loop
    from .sandbox import Sandbox

_MOST_ENTRIES = 200_000
_DEEPEST = 4096


async def stat(loop: Loop, sandbox: Sandbox, request: Request) -> Message:
    account, message = caller(sandbox, request), await read_message(request)
    path = _path(message, "path", paths.resolve(fields.text(message, "path"), account, sandbox.default_workdir))
    return {"entry": await run_as(loop, account, lambda: _tried(f"looking at {path!r}", lambda: entries.entry(path)))}


async def make_dir(loop: Loop, sandbox: Sandbox, request: Request) -> Message:
    account, message = caller(sandbox, request), await read_message(request)
    path = _path(message, "path", paths.resolve(fields.text(message, "path"), account, sandbox.default_workdir))

    def work() -> Entry:
        folders.make(path)
        return entries.entry(path)

    return {"entry": await run_as(loop, account, lambda: _tried(f"making {path!r}", work))}


async def move(loop: Loop, sandbox: Sandbox, request: Request) -> Message:
    account, message = caller(sandbox, request), await read_message(request)
    source = _path(message, "source", paths.resolve(fields.text(message, "source"), account))
    destination = _path(message, "destination", paths.resolve(fields.text(message, "destination"), account))

    def work() -> Entry:
        folders.move(source, destination)
        return entries.entry(destination)

    def copy() -> Entry:
        shutil.move(source, destination)
        return entries.entry(destination)

    what = f"moving {source!r} to {destination!r}"
    try:
        return {"entry": await run_as(loop, account, lambda: _tried(what, work))}
    except RpcError as error:
        if not isinstance(error.__context__, OSError) or error.__context__.errno != errno.EXDEV:
            raise
    import shutil  # here and not on the worker, where the interpreter's own files may be closed to the user

    return {"entry": await run_as(loop, account, lambda: _tried(what, copy))}  # between two mounts


async def remove(loop: Loop, sandbox: Sandbox, request: Request) -> Message:
    account, message = caller(sandbox, request), await read_message(request)
    path = _path(message, "path", paths.resolve(fields.text(message, "path"), account))
    if path == "/":
        raise RpcError("invalid_argument", "path must not be the root folder")
    await run_as(loop, account, lambda: _tried(f"removing {path!r}", lambda: folders.remove(path)))
    return {}


async def list_dir(loop: Loop, sandbox: Sandbox, request: Request) -> Message:
    account, message = caller(sandbox, request), await read_message(request)
    path = paths.resolve(fields.text(message, "path"), account, sandbox.default_workdir)
    depth = fields.number(message, "depth", 2**32 - 1) or 1
    found = await run_as(
        loop, account, lambda: _tried(f"listing {path!r}", lambda: _listed(path, min(depth, _DEEPEST)))
    )
    return {"entries": found} if found else {}


CALLS = {"Stat": stat, "MakeDir": make_dir, "Move": move, "Remove": remove, "ListDir": list_dir}


def _path(message: Message, name: str, resolved: str) -> str:
    if not fields.text(message, name):
        raise RpcError("invalid_argument", f"{name} must not be empty")
    return resolved


def _tried[T](what: str, work: Callable[[], T]) -> T:
    try:
        return work()
    except OSError as error:
        raise rpc_error(error, what) from None


def _listed(path: str, depth: int) -> list[Entry]:
    if not os.path.exists(path):
        raise RpcError("not_found", f"path {path!r} does not exist")
    if not os.path.isdir(path):
        raise RpcError("invalid_argument", f"path {path!r} is not a folder")
    found: list[Entry] = []
    _collect(path, depth, found)
    return found


def _collect(path: str, depth: int, found: list[Entry]) -> None:
    """Depth first, by name. Links are shown, not followed; what vanishes or is closed to the user is left out."""
    for name in sorted(os.listdir(path)):
        inside = f"{path.rstrip('/')}/{name}"
        try:
            found.append(entries.entry(inside))
        except OSError:
            continue
        if len(found) > _MOST_ENTRIES:
            raise RpcError("resource_exhausted", f"{path!r} holds more than {_MOST_ENTRIES} entries: list a part of it")
        if depth > 1 and os.path.isdir(inside) and not os.path.islink(inside):
            _collect_inside(inside, depth - 1, found)


def _collect_inside(path: str, depth: int, found: list[Entry]) -> None:
    try:
        _collect(path, depth, found)
    except OSError:
        return
