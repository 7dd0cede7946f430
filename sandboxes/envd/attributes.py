"""File metadata of the API, kept as extended attributes `user.e2b.<key>` (e2b-protocol.md 3.4)."""

from __future__ import annotations

import os

from .errors import HttpError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .http1 import Request

_NAMESPACE = "user.e2b."
_HEADER = "x-metadata-"
_KEY_LIMIT = 246
_TOTAL_LIMIT = 4096


def wanted(request: Request) -> dict[str, str]:
    """Keys and values from `X-Metadata-*` headers; HttpError 400 for what an attribute cannot hold."""
    found = {name[len(_HEADER) :]: value for name, value in request.headers.items() if name.startswith(_HEADER)}
    found.pop("", None)
    for key, value in found.items():
        if len(key) > _KEY_LIMIT or not value.isascii() or (value and not value.isprintable()):
            raise HttpError(
                400, f"X-Metadata-{key[:80]} must be printable ASCII, its name at most {_KEY_LIMIT} characters"
            )
    if sum(len(_NAMESPACE) + len(key) + len(value) for key, value in found.items()) > _TOTAL_LIMIT:
        raise HttpError(400, f"all X-Metadata-* headers together must not exceed {_TOTAL_LIMIT} bytes")
    return found


def read(path: str) -> dict[str, str]:
    """Empty also where the file system has no such attributes."""
    try:
        names = [name for name in os.listxattr(path, follow_symlinks=False) if name.startswith(_NAMESPACE)]
        return {name[len(_NAMESPACE) :]: os.getxattr(path, name).decode("utf-8", "replace") for name in names}
    except OSError:
        return {}


def replace(fd: int, metadata: dict[str, str]) -> None:
    """Sets exactly these; file systems without attributes keep the content only."""
    try:
        for name in os.listxattr(fd):
            if name.startswith(_NAMESPACE):
                os.removexattr(fd, name)
        for key, value in metadata.items():
            os.setxattr(fd, _NAMESPACE + key, value.encode())
    except OSError:
        return
