"""Where a caller's path lies: relative ones and `~` start at the user's home (e2b-protocol.md 3.3)."""

from __future__ import annotations

import posixpath

from .errors import RpcError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .accounts import Account

_LONGEST = 4096


def resolve(path: str, account: Account, workdir: str = "") -> str:
    """The absolute path; an empty one is the working folder. RpcError invalid_argument for one that cannot be."""
    if "\0" in path or len(path) > _LONGEST:
        raise RpcError("invalid_argument", f"path must be at most {_LONGEST} characters and without NUL")
    if not path:
        return workdir or account.home
    if path[0] == "~":
        if path[1:2] not in ("", "/"):
            raise RpcError("invalid_argument", f"path {path!r}: only ~ and ~/ are expanded, not another user's home")
        path = account.home + path[1:]
    if path[0] != "/":
        path = posixpath.normpath(posixpath.join(account.home, path))
    return path.rstrip("/") or "/"
