"""`envd install FOLDER`: copies the pack that this envd runs from. An init container does it, without shell or cp."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

_PACK = "/opt/agentbox"
_PIECE = 16 * 1024 * 1024


def install(target: str, source: str = _PACK) -> None:
    """Whoever the Pod's user is, everybody may read the copy. What an earlier try left is overwritten."""
    if not target.startswith("/"):
        sys.exit("usage: envd install /FOLDER")
    os.umask(0o022)
    try:
        for folder, _, files in os.walk(source, onerror=_fail):
            there = target + folder[len(source) :]
            os.makedirs(there, exist_ok=True)
            for name in files:
                _copy(f"{folder}/{name}", f"{there}/{name}")
    except OSError as error:
        sys.exit(f"envd cannot be installed into {target!r}: {error}")


def _fail(error: OSError) -> NoReturn:
    raise error


def _copy(path: str, target: str) -> None:
    with open(path, "rb") as source:
        mode = 0o755 if os.fstat(source.fileno()).st_mode & 0o100 else 0o644
        copy = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
        try:
            while os.sendfile(copy, source.fileno(), None, _PIECE):
                pass
        finally:
            os.close(copy)
