"""The running commands and what they print.

Output goes to the streams that listen, each with a bounded queue: while one is full the pipe is left unread, so a slow
client slows the command and a fast command costs bounded memory. With nobody listening it is thrown away, so the
command never blocks.
"""

from __future__ import annotations

import os
from binascii import b2a_base64

from . import jsontext
from .connect import frame
from .errors import RpcError
from .lean import signals
from .loop import READ, WRITE, Lock, Wait, now

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .loop import Loop, Timer

_PIECE = 64 * 1024
_QUEUE_LIMIT = 256 * 1024
_LINGER_SECONDS = 2.0
"""How long output is still delivered after the command's end, if children of it hold its pipes open."""
_REMEMBER_SECONDS = 30.0
_REMEMBERED = 1024
_PREFIX = {kind: b'{"event":{"data":{"%b":"' % kind.encode() for kind in ("stdout", "stderr", "pty")}


class Feed:
    """One stream's queue of frames. `wait` is fired when there is something to send or the end has come."""

    def __init__(self) -> None:
        self.frames: list[bytes] = []
        self.size = 0
        self.ended = False
        self.error: RpcError | None = None
        self.wait: Wait | None = None

    def put(self, data: bytes) -> None:
        self.frames.append(data)
        self.size += len(data)
        self._ring()

    def end(self, error: RpcError | None = None) -> None:
        self.error = self.error or error
        self.ended = True
        self._ring()

    def _ring(self) -> None:
        if self.wait:
            self.wait.fire()


class Process:
    def __init__(self, table: Processes, pid: int, config: dict[str, object], tag: str | None) -> None:
        self.table = table
        self.pid = pid
        self.config = config
        self.tag = tag
        self.stdin = -1
        self.terminal = -1
        self.input_lock = Lock(table.loop)
        self.feeds: list[Feed] = []
        self.starter: Feed | None = None
        self._outputs = 0
        self._result: bytes = b""
        self._room: list[Wait] = []
        self._limit: Timer | None = None
        self._linger: Timer | None = None

    def read_from(self, fd: int, kind: str) -> None:
        self._outputs += 1
        self.table.loop.start(self._pump(fd, kind))

    def limit(self, until: float | None) -> None:
        """Kills the command at `until`, whether or not anybody still listens (e2b-protocol.md 4)."""
        if until is not None:
            self._limit = self.table.loop.at(until, self._expire)

    def listen(self) -> Feed:
        feed = Feed()
        self.feeds.append(feed)
        return feed

    def leave(self, feed: Feed) -> None:
        if feed in self.feeds:
            self.feeds.remove(feed)
        self.made_room()

    def take(self, feed: Feed) -> bytes:
        """All queued frames of a feed."""
        data = feed.frames[0] if len(feed.frames) == 1 else b"".join(feed.frames)
        feed.frames.clear()
        feed.size = 0
        self.made_room()
        return data

    def made_room(self) -> None:
        for wait in self._room:
            wait.fire()
        self._room.clear()

    def signal(self, number: int) -> None:
        """To the command and all that it started in its group; children of a killed shell must not live on."""
        try:
            os.killpg(self.pid, number)
        except ProcessLookupError:
            raise RpcError("not_found", f"process with pid {self.pid} has ended") from None
        except PermissionError:
            raise RpcError("permission_denied", f"process {self.pid} runs as another user") from None

    def exited(self, status: int) -> None:
        self._result = frame(jsontext.dump({"event": {"end": _result(status)}}))
        if self._outputs == 0:
            self._finish()
            return
        self._linger = self.table.loop.at(now() + _LINGER_SECONDS, self._finish)

    async def write(self, data: bytes, until: float | None) -> None:
        """To stdin or the terminal, whichever it has; waits while the command does not read."""
        async with self.input_lock:
            view = memoryview(data)
            while view:
                fd = self._input()
                try:
                    view = view[os.write(fd, view) :]
                except BlockingIOError:
                    await self._writable(fd, until)
                except OSError as error:
                    raise RpcError("internal", f"process {self.pid} has closed its input: {error.strerror}") from None

    def close_stdin(self) -> None:
        if self.stdin >= 0:
            os.close(self.stdin)
            self.stdin = -1

    def _input(self) -> int:
        fd = self.terminal if self.terminal >= 0 else self.stdin
        if fd < 0:
            raise RpcError("internal", f"stdin of process {self.pid} is not enabled or was closed")
        return fd

    async def _writable(self, fd: int, until: float | None) -> None:
        if not await self.table.loop.ready(fd, WRITE, until):
            raise RpcError("deadline_exceeded", f"process {self.pid} does not read its input")

    def _expire(self) -> None:
        if self.starter:
            self.starter.end(RpcError("deadline_exceeded", "the command ran into its time limit and was killed"))
        try:
            self.signal(signals.SIGKILL)
        except RpcError:
            pass  # it has just ended

    async def _pump(self, fd: int, kind: str) -> None:
        while data := await self._read(fd):
            if self.feeds:
                self._publish(_PREFIX[kind] + b2a_base64(data, newline=False) + b'"}}}')
                await self._drained()
        if fd == self.terminal:
            self.terminal = -1
        os.close(fd)
        self._outputs -= 1
        if self._outputs == 0 and self._result:
            self._finish()

    async def _read(self, fd: int) -> bytes:
        while True:
            try:
                return os.read(fd, _PIECE)
            except BlockingIOError:
                await self.table.loop.ready(fd, READ)
            except OSError:
                return b""  # a terminal whose last user left answers EIO

    def _publish(self, payload: bytes) -> None:
        data = frame(payload)
        for feed in self.feeds:
            feed.put(data)

    async def _drained(self) -> None:
        while any(feed.size > _QUEUE_LIMIT for feed in self.feeds):
            wait = Wait(self.table.loop)
            self._room.append(wait)
            await wait

    def _finish(self) -> None:
        if not self.table.forget(self, self._result):
            return
        for timer in (self._limit, self._linger):
            if timer:
                self.table.loop.cancel(timer)
        self.close_stdin()
        for feed in self.feeds:
            feed.put(self._result)
            feed.end()
        self.feeds = []
        self.made_room()


class Processes:
    """All commands that run, and for half a minute how those ended that do not."""

    def __init__(self, loop: Loop) -> None:
        self.loop = loop
        self.running: dict[int, Process] = {}
        self._ended: dict[int, tuple[float, str | None, bytes]] = {}

    def add(self, process: Process) -> None:
        self.running[process.pid] = process
        self._ended.pop(process.pid, None)

    def forget(self, process: Process, result: bytes) -> bool:
        if self.running.get(process.pid) is not process:
            return False
        del self.running[process.pid]
        self._ended[process.pid] = (now() + _REMEMBER_SECONDS, process.tag, result)
        while len(self._ended) > _REMEMBERED or next(iter(self._ended.values()))[0] < now():
            del self._ended[next(iter(self._ended))]
        return True

    def find(self, pid: int, tag: str) -> Process:
        process = self.running.get(pid) if pid else self._tagged(tag)
        if process is None:
            raise RpcError("not_found", f"there is no running process with {f'pid {pid}' if pid else f'tag {tag!r}'}")
        return process

    def ending(self, pid: int, tag: str) -> tuple[int, bytes] | None:
        """Pid and end frame of a command that ended less than 30 s ago."""
        for number, (until, its_tag, result) in reversed(self._ended.items()):
            if until > now() and (number == pid if pid else its_tag == tag):
                return number, result
        return None

    def reap(self) -> None:
        """Takes leave of every child that ended, also of orphans that came to us as PID 1."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if process := self.running.get(pid):
                process.exited(status)

    def _tagged(self, tag: str) -> Process | None:
        return next((each for each in self.running.values() if each.tag == tag), None)


def _result(status: int) -> dict[str, object]:
    """The end event in the protocol's JSON: exit code 0 and empty errors are left out."""
    if os.WIFEXITED(status):
        code = os.WEXITSTATUS(status)
        text = f"exit status {code}"
        failure = {"exitCode": code, "error": text} if code else {}
        return {"exited": True, "status": text, **failure}
    text = f"signal: {_signal_name(os.WTERMSIG(status))}" + (" (core dumped)" if os.WCOREDUMP(status) else "")
    return {"exitCode": -1, "status": text, "error": text}


def _signal_name(number: int) -> str:
    return (signals.strsignal(number) or f"signal {number}").lower()
