"""The sandbox's users, read from its /etc/passwd and /etc/group.

The files are parsed here and not asked for through the C library: in an image with another libc its name service would
not load.
"""

from __future__ import annotations

import os

from .errors import RpcError

_PASSWD = "/etc/passwd"  # noqa: S105
_GROUP = "/etc/group"


class Account:
    """One user and the groups it is in."""

    __slots__ = ("gid", "groups", "home", "name", "uid")

    def __init__(self, name: str, uid: int, gid: int, home: str, groups: tuple[int, ...] = ()) -> None:
        self.name = name
        self.uid = uid
        self.gid = gid
        self.home = home
        self.groups = groups or (gid,)


class _Directory:
    """Both files as of their last change."""

    def __init__(self) -> None:
        self.stamp: tuple[int, ...] = ()
        self.accounts: dict[str, Account] = {}
        self.user_names: dict[int, str] = {}
        self.group_names: dict[int, str] = {}

    def fresh(self) -> _Directory:
        stamp = _stamp(_PASSWD) + _stamp(_GROUP)
        if stamp != self.stamp:
            self._read()
            self.stamp = stamp
        return self

    def _read(self) -> None:
        members: dict[str, list[int]] = {}
        self.group_names = {}
        for name, gid, users in ((row[0], row[2], row[3]) for row in _rows(_GROUP, 4) if row[2].isdigit()):
            self.group_names.setdefault(int(gid), name)
            for user in users.split(","):
                members.setdefault(user, []).append(int(gid))
        self.accounts = {}
        for row in _rows(_PASSWD, 7):
            if row[2].isdigit() and row[3].isdigit():
                groups = (int(row[3]), *members.get(row[0], ()))
                account = Account(row[0], int(row[2]), int(row[3]), row[5] or "/", groups)
                self.accounts.setdefault(row[0], account)
        self.user_names = {account.uid: name for name, account in reversed(self.accounts.items())}


_directory = _Directory()


def find(name: str) -> Account:
    """RpcError unauthenticated for a user that the sandbox does not have."""
    account = _directory.fresh().accounts.get(name)
    if account is None:
        raise RpcError("unauthenticated", f"there is no user {name!r} in this sandbox")
    return account


def own(name: str) -> Account:
    """The account envd itself runs under, called `name` when the image does not name it."""
    names = _directory.fresh()
    known = names.accounts.get(names.user_names.get(os.geteuid(), ""))
    return known or Account(name, os.geteuid(), os.getegid(), os.environ.get("HOME") or "/")


def owner_name(uid: int) -> str:
    return _directory.fresh().user_names.get(uid) or str(uid)


def group_name(gid: int) -> str:
    return _directory.fresh().group_names.get(gid) or str(gid)


def _stamp(path: str) -> tuple[int, ...]:
    try:
        status = os.stat(path)
    except OSError:
        return (0,)
    return status.st_mtime_ns, status.st_ino, status.st_size


def _rows(path: str, width: int) -> list[list[str]]:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            rows = [line.rstrip("\n").split(":") for line in file]
    except OSError:
        return []
    return [row for row in rows if len(row) == width]
