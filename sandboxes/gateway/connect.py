"""Connect streams: where their messages end, and how to end one in good form. Pure (e2b-protocol 3.1)."""

from __future__ import annotations

import json

CONTENT_TYPE = b"application/connect+json"
PREFIX = 5
"""One byte of flags and four of length before each message."""
END = 0x02


class Messages:
    """Follows a stream, however it is cut into pieces, to know whether a message is under way."""

    def __init__(self) -> None:
        self._prefix = b""
        self._left = 0
        self.ended = False

    @property
    def whole(self) -> bool:
        """Nothing is half sent, so that another message may follow."""
        return not self._prefix and not self._left and not self.ended

    def follow(self, piece: bytes) -> None:
        position = 0
        while position < len(piece):
            if self._left:
                step = min(self._left, len(piece) - position)
                self._left -= step
                position += step
            else:
                position = self._follow_prefix(piece, position)

    def _follow_prefix(self, piece: bytes, position: int) -> int:
        taken = piece[position : position + PREFIX - len(self._prefix)]
        self._prefix += taken
        if len(self._prefix) == PREFIX:
            self._left = int.from_bytes(self._prefix[1:], "big")
            self.ended = bool(self._prefix[0] & END)
            self._prefix = b""
        return position + len(taken)


def end_with_error(code: str, message: str) -> bytes:
    """The end-of-stream message that an SDK turns into the exception for `code`."""
    payload = json.dumps({"error": {"code": code, "message": message}}, separators=(",", ":")).encode()
    return bytes([END]) + len(payload).to_bytes(4, "big") + payload
