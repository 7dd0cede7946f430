"""EntryInfo, the protocol's description of one file (e2b-protocol.md 3.3)."""

from __future__ import annotations

import os
import stat
import time

from . import accounts, attributes

TYPE_CHECKING = False
if TYPE_CHECKING:
    Entry = dict[str, object]

_LETTERS = (
    (stat.S_ISDIR, "d"),
    (stat.S_ISLNK, "L"),
    (stat.S_ISBLK, "D"),
    (stat.S_ISFIFO, "p"),
    (stat.S_ISSOCK, "S"),
    (stat.S_ISCHR, "Dc"),
)
_BITS = ((stat.S_ISUID, "u"), (stat.S_ISGID, "g"), (stat.S_ISVTX, "t"))


def entry(path: str) -> Entry:
    """The entry at an absolute path, not following a link at its end. OSError when there is none.

    Values that are the protocol's defaults are left out; `size` is a string, as JSON carries 64-bit numbers.
    """
    status = os.lstat(path)
    target = os.path.realpath(path) if stat.S_ISLNK(status.st_mode) else None
    kind, mode = _kind(path, status, target)
    found: Entry = {
        "name": clean(path.rpartition("/")[2] or "/"),
        "path": clean(path),
        "permissions": permissions(status.st_mode),
        "owner": accounts.owner_name(status.st_uid),
        "group": accounts.group_name(status.st_gid),
        "modifiedTime": _timestamp(status.st_mtime_ns),
        **({"type": kind} if kind else {}),
        **({"size": str(status.st_size)} if status.st_size else {}),
        **({"mode": mode} if mode else {}),
    }
    if target is not None:
        found["symlinkTarget"] = clean(target)
    if metadata := attributes.read(path):
        found["metadata"] = metadata
    return found


def permissions(mode: int) -> str:
    """As `drwxr-xr-x`; special bits come before, as in `dtrwxrwxrwx` for /tmp."""
    kind = "".join(letter for test, letter in _LETTERS if test(mode)) + "".join(
        name for bit, name in _BITS if mode & bit
    )
    rights = "".join(name if mode >> 8 - place & 1 else "-" for place, name in enumerate("rwxrwxrwx"))
    return (kind or "-") + rights


def clean(name: str) -> str:
    """A file name that JSON can carry: bytes that are not UTF-8 become replacement characters."""
    return name if name.isascii() else name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _kind(path: str, status: os.stat_result, target: str | None) -> tuple[str, int]:
    """Type and permission bits; a link has those of what it leads to."""
    if target is not None:
        try:
            status = os.stat(path)
        except OSError:
            return "", 0
    mode = stat.S_IMODE(status.st_mode) & 0o777
    if stat.S_ISDIR(status.st_mode):
        return "FILE_TYPE_DIRECTORY", mode
    return ("FILE_TYPE_FILE" if stat.S_ISREG(status.st_mode) else ""), mode


def _timestamp(nanoseconds: int) -> str:
    seconds, rest = divmod(nanoseconds, 1_000_000_000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{rest:09d}Z"
