"""Pseudo-terminals: one is opened with the user's rights, so the device is the user's own."""

from __future__ import annotations

import fcntl
import os
import termios

_SIDE = 65535


def open_terminal(columns: int, rows: int) -> tuple[int, str, int]:
    """Our end, the path of the program's end, and that end kept open until the program has opened it itself."""
    ours, theirs = os.openpty()
    os.set_blocking(ours, False)
    resize(ours, columns, rows)
    return ours, os.ttyname(theirs), theirs


def resize(terminal: int, columns: int, rows: int) -> None:
    sides = min(rows, _SIDE).to_bytes(2, "little") + min(columns, _SIDE).to_bytes(2, "little")
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, sides + b"\0\0\0\0")
