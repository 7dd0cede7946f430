"""Container output: read from a pipe, stamped line by line, kept in bounded files, followed live.

A line is kept as containers' runtimes do: `time tag text`, with the tag P if its end is still to come, or never came.
"""

import asyncio
import contextlib
import os
import time
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

FILE_BYTES = 1 << 20  # two files of this size at most for each run of a container
CHUNK = 64 << 10
PAUSE_SECONDS = 0.02  # after a full chunk: a chatty Pod gets about 3 MB/s and then waits for its pipe
LINE_BYTES = 16 << 10
FOLLOWER_LINES = 20_000
WHOLE, PART = b"F", b"P"


@dataclass(frozen=True)
class Ask:
    tail: int | None = None
    since: str = ""  # lines stamped earlier are left out; RFC 3339 without a zone, UTC
    timestamps: bool = False
    limit: int | None = None  # bytes of the whole answer

    def shown(self, lines: list[bytes]) -> bytes:
        since = self.since.encode()
        lines = [line for line in lines if line[: len(since)] >= since] if since else lines
        if self.tail is not None:
            lines = lines[len(lines) - min(self.tail, len(lines)) :]
        return b"".join(map(self._text, lines))[: self.limit]

    def _text(self, line: bytes) -> bytes:
        stamp, tag, text = line.split(b" ", 2)
        text = text[:-1] if tag == PART else text
        return stamp + b" " + text if self.timestamps else text


class PodLog:
    """The output of one run of a container; give `fd` to it and read until it closes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("wb")
        self._rest = b""
        self._followers: set[asyncio.Queue[list[bytes] | None]] = set()
        self._read, self.fd = os.pipe()
        os.set_blocking(self._read, False)
        self._open = True
        asyncio.get_running_loop().add_reader(self._read, self._take)

    def _take(self) -> None:
        chunk = os.read(self._read, CHUNK)
        if not chunk:
            self._end()
            return
        self._cut(chunk)
        if len(chunk) == CHUNK:
            loop = asyncio.get_running_loop()
            loop.remove_reader(self._read)
            loop.call_later(PAUSE_SECONDS, self._resume)

    def _cut(self, chunk: bytes) -> None:
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        self._keep(lines, WHOLE)
        if len(self._rest) > LINE_BYTES:
            rest, self._rest = self._rest, b""
            self._keep([rest], PART)

    def _resume(self) -> None:
        if self._open:
            asyncio.get_running_loop().add_reader(self._read, self._take)

    def _keep(self, lines: list[bytes], tag: bytes) -> None:
        now = time.time()
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{int(now % 1 * 1e9):09d}Z "
        head = stamp.encode() + tag + b" "
        stamped = [head + line + b"\n" for line in lines]
        self._file.write(b"".join(stamped))
        self._file.flush()
        if self._file.tell() > FILE_BYTES:
            self._path.rename(self._path.with_suffix(".old"))
            self._file = self._path.open("wb")
        for follower in list(self._followers):
            if follower.qsize() > FOLLOWER_LINES:
                self._followers.discard(follower)
                follower.put_nowait(None)
            elif stamped:
                follower.put_nowait(stamped)

    def close(self) -> None:
        """The container has ended: take what is still in the pipe, whoever else holds it."""
        with contextlib.suppress(BlockingIOError):
            for _ in range(FILE_BYTES // CHUNK if self._open else 0):
                self._cut(os.read(self._read, CHUNK))
        self._end()

    def _end(self) -> None:
        if not self._open:
            return
        self._open = False
        asyncio.get_running_loop().remove_reader(self._read)
        os.close(self._read)
        if self._rest:
            self._keep([self._rest], PART)
        self._file.close()
        for follower in self._followers:
            follower.put_nowait(None)

    def lines(self) -> list[bytes]:
        lines: deque[bytes] = deque()
        for path in (self._path.with_suffix(".old"), self._path):
            if path.exists():
                lines.extend(path.read_bytes().splitlines(keepends=True))
        return list(lines)

    async def follow(self, ask: Ask) -> AsyncIterator[bytes]:
        queue: asyncio.Queue[list[bytes] | None] = asyncio.Queue()
        start = ask.shown(self.lines())
        if self._open:
            self._followers.add(queue)
        else:
            queue.put_nowait(None)
        try:
            if start:
                yield start
            left = None if ask.limit is None else ask.limit - len(start)
            while left != 0 and (lines := await queue.get()) is not None:
                more = Ask(timestamps=ask.timestamps, limit=left).shown(lines)
                left = None if left is None else left - len(more)
                yield more
        finally:
            self._followers.discard(queue)
