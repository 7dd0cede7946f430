"""The kernel's inotify, through ctypes."""

from __future__ import annotations

import os
import struct

from .identity import kernel

MODIFY = 0x2
ATTRIB = 0x4
MOVED_FROM = 0x40
MOVED_TO = 0x80
CREATE = 0x100
DELETE = 0x200
DELETE_SELF = 0x400
MOVE_SELF = 0x800
OVERFLOW = 0x4000
IGNORED = 0x8000
IS_FOLDER = 0x40000000
_ALL = MODIFY | ATTRIB | MOVED_FROM | MOVED_TO | CREATE | DELETE | DELETE_SELF | MOVE_SELF
_ONLY_FOLDERS = 0x1000000
_BUFFER = 64 * 1024
_HEADER = struct.Struct("iIII")


class Inotify:
    """One instance; `fd` turns readable when there are events. OSError EMFILE when the user has too many."""

    def __init__(self) -> None:
        self.fd: int = _checked(kernel().library.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))

    def add(self, folder: str) -> int:
        """Watches a folder and returns its number."""
        return _checked(kernel().library.inotify_add_watch(self.fd, os.fsencode(folder), _ALL | _ONLY_FOLDERS))

    def remove(self, number: int) -> None:
        kernel().library.inotify_rm_watch(self.fd, number)

    def read(self) -> list[tuple[int, int, str]]:
        """Watch number, mask and name of each event that waits."""
        try:
            data = os.read(self.fd, _BUFFER)
        except BlockingIOError:
            return []
        events = []
        place = 0
        while place < len(data):
            number, mask, _, length = _HEADER.unpack_from(data, place)
            place += _HEADER.size + length
            events.append((number, mask, os.fsdecode(data[place - length : place].rstrip(b"\0"))))
        return events

    def close(self) -> None:
        os.close(self.fd)


def _checked(result: int) -> int:
    if result >= 0:
        return result
    import ctypes

    code = ctypes.get_errno()
    raise OSError(code, os.strerror(code))
