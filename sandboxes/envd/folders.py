"""File system changes as one user: making, moving and removing. They run on worker threads under that user's rights."""

from __future__ import annotations

import errno
import os
import stat

from .errors import RpcError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


def make_parents(path: str) -> None:
    """Makes the folders above `path` that are missing, mode 0755, owned by whom we act as."""
    parent = path.rpartition("/")[0]
    if not parent or os.path.isdir(parent):
        return
    try:
        os.makedirs(parent, mode=0o755, exist_ok=True)
    except FileExistsError as error:
        raise NotADirectoryError(errno.ENOTDIR, "a parent is not a folder", error.filename) from None


def make(path: str) -> None:
    """RpcError already_exists for a folder, invalid_argument for anything else in its place."""
    if os.path.isdir(path):
        raise RpcError("already_exists", f"folder {path!r} exists already")
    if os.path.lexists(path):
        raise RpcError("invalid_argument", f"path {path!r} exists and is not a folder")
    make_parents(path)
    try:
        os.mkdir(path, 0o755)
    except FileExistsError:
        raise RpcError("already_exists", f"folder {path!r} exists already") from None


def move(source: str, destination: str) -> None:
    if not os.path.lexists(source):
        raise RpcError("not_found", f"path {source!r} does not exist")
    make_parents(destination)
    os.rename(source, destination)


def remove(path: str) -> None:
    """A file, a link or a whole tree; nothing to remove is no error."""
    try:
        if stat.S_ISDIR(os.lstat(path).st_mode):
            _remove_tree(path)
        else:
            os.unlink(path)
    except (FileNotFoundError, NotADirectoryError):
        return


def _remove_tree(path: str) -> None:
    """Not by `shutil`: an import must not happen here, where the interpreter's own files may be closed to the user."""
    for folder, folders, files in os.walk(path, topdown=False, onerror=_raise):
        for name in files:
            _forget(os.unlink, f"{folder}/{name}")
        for name in folders:
            inside = f"{folder}/{name}"
            _forget(os.unlink if os.path.islink(inside) else os.rmdir, inside)
    os.rmdir(path)


def _forget(remove: Callable[[str], None], path: str) -> None:
    try:
        remove(path)
    except FileNotFoundError:
        pass  # somebody else was faster


def _raise(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error
