"""One watched folder: the kernel's events turned into the protocol's (e2b-protocol.md 3.3)."""

from __future__ import annotations

import os
import stat

from . import entries
from .errors import RpcError, rpc_error
from .inotify import (
    ATTRIB,
    CREATE,
    DELETE,
    DELETE_SELF,
    IGNORED,
    IS_FOLDER,
    MODIFY,
    MOVE_SELF,
    MOVED_FROM,
    MOVED_TO,
    OVERFLOW,
    Inotify,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    Event = dict[str, object]

_KINDS = (
    (CREATE | MOVED_TO, "EVENT_TYPE_CREATE"),
    (MOVED_FROM | MOVE_SELF, "EVENT_TYPE_RENAME"),
    (ATTRIB, "EVENT_TYPE_CHMOD"),
    (MODIFY, "EVENT_TYPE_WRITE"),
    (DELETE | DELETE_SELF, "EVENT_TYPE_REMOVE"),
)
_OF_ITSELF = DELETE_SELF | MOVE_SELF | ATTRIB
_STILL_THERE = ("EVENT_TYPE_CREATE", "EVENT_TYPE_CHMOD", "EVENT_TYPE_WRITE")
_NETWORK = ("nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "ceph", "fuse", "fuseblk")


class Watcher:
    """Made and read on worker threads, with the rights of the user who asked."""

    def __init__(self, root: str, recursive: bool, with_entries: bool) -> None:
        self.root = root
        self._recursive = recursive
        self._with_entries = with_entries
        self._folders: dict[int, str] = {}
        """Relative path of each watched folder, "" for the root."""
        try:
            self.inotify = Inotify()
        except OSError as error:
            raise rpc_error(error, "starting one more watcher") from None
        try:
            self._watch("", [])
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self.inotify.close()

    def read(self) -> list[Event]:
        """All events that wait, oldest first. RpcError resource_exhausted when the kernel had to drop some."""
        found: list[Event] = []
        while batch := self.inotify.read():
            for number, mask, name in batch:
                self._translate(number, mask, name, found)
        return found

    def _translate(self, number: int, mask: int, name: str, found: list[Event]) -> None:
        if mask & OVERFLOW:
            raise RpcError("resource_exhausted", f"too many events in {self.root!r}: some are lost, watch it anew")
        folder = self._folders.get(number)
        if mask & IGNORED:
            self._folders.pop(number, None)
        elif folder is not None and (name or folder == "" or not mask & _OF_ITSELF):
            path = f"{folder}/{name}" if folder and name else name or folder
            found.extend(self._event(path, kind) for bits, kind in _KINDS if mask & bits)
            if mask & IS_FOLDER and name and self._recursive:
                self._follow(path, mask, found)

    def _follow(self, path: str, mask: int, found: list[Event]) -> None:
        if mask & (CREATE | MOVED_TO):
            self._watch(path, found)
        elif mask & MOVED_FROM:
            for number, folder in list(self._folders.items()):
                if folder == path or folder.startswith(path + "/"):
                    self.inotify.remove(number)

    def _watch(self, path: str, found: list[Event]) -> None:
        """Watches a folder, and below it if asked to; reports what was made in it before the watch began."""
        folder = f"{self.root}/{path}" if path else self.root
        try:
            self._folders[self.inotify.add(folder)] = path
            inside = sorted(os.scandir(folder), key=lambda each: each.name) if self._recursive else []
        except OSError as error:
            if path and error.errno in (2, 13, 20):  # gone again, closed to the user, no folder any more
                return
            raise rpc_error(error, f"watching {folder!r}") from None
        for each in inside:
            below = f"{path}/{each.name}" if path else each.name
            found.append(self._event(below, "EVENT_TYPE_CREATE"))
            if each.is_dir(follow_symlinks=False):
                self._watch(below, found)
            elif _has_content(each):
                found.append(self._event(below, "EVENT_TYPE_WRITE"))

    def _event(self, path: str, kind: str) -> Event:
        event: Event = {"name": entries.clean(path or "."), "type": kind}
        if self._with_entries and kind in _STILL_THERE:
            try:
                event["entry"] = entries.entry(f"{self.root}/{path}" if path else self.root)
            except OSError:
                pass  # gone already
        return event


def check(path: str, allow_network: bool) -> None:
    """RpcError not_found or invalid_argument for what cannot be watched."""
    try:
        status = os.stat(path)
    except OSError as error:
        raise rpc_error(error, f"watching {path!r}") from None
    if not stat.S_ISDIR(status.st_mode):
        raise RpcError("invalid_argument", f"path {path!r} is not a folder")
    if not allow_network and _file_system(os.path.realpath(path)).partition(".")[0] in _NETWORK:
        raise RpcError("invalid_argument", f"path {path!r} is on a network file system: allow that to watch it")


def _has_content(each: os.DirEntry[str]) -> bool:
    try:
        return each.is_file(follow_symlinks=False) and each.stat(follow_symlinks=False).st_size > 0
    except OSError:
        return False


def _file_system(path: str) -> str:
    """The kind of file system a path lies on; the last and longest mount point above it counts."""
    best, kind = "", ""
    try:
        with open("/proc/self/mounts", encoding="utf-8", errors="surrogateescape") as file:
            mounts = [line.split(" ")[1:3] for line in file]
    except OSError:
        return ""
    for point, name in mounts:
        if len(point) >= len(best) and (path == point or path.startswith(point.rstrip("/") + "/")):
            best, kind = point, name
    return kind
