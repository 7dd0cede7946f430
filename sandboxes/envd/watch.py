"""The watching calls: WatchDir streams events, CreateWatcher keeps them for GetWatcherEvents to fetch."""

from __future__ import annotations

from . import fields, jsontext, paths, watcher
from .connect import frame, keepalive_seconds, read_message, read_only_frame, time_limit
from .errors import RpcError
from .loop import Lock, Wait, now
from .process_calls import caller
from .workers import run_as

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from .accounts import Account
    from .connect import Message, Stream
    from .http1 import Request
    from .loop import Loop
    from .sandbox import Sandbox
    from .watcher import Event, Watcher

_START = frame(b'{"start":{}}')
_KEEPALIVE = frame(b'{"keepalive":{}}')
_MOST_KEPT = 16384
_MOST_WATCHERS = 1024


class Kept:
    """A watcher whose events wait to be taken; a task reads on always, so that new folders are watched at once."""

    def __init__(self, loop: Loop, account: Account, source: Watcher) -> None:
        self._loop = loop
        self._account = account
        self._source = source
        self._lock = Lock(loop)
        self._events: list[Event] = []
        self._error: RpcError | None = None
        self._closing = False
        self._reader: Wait | None = None
        self.news: Wait | None = None
        """Fired when there is something to take."""
        loop.start(self._read_on())

    async def fetch(self) -> list[Event]:
        """All events up to this moment."""
        await self._read()
        return self.take()

    def take(self) -> list[Event]:
        """The events read since the last call; RpcError once some were lost."""
        if self._error:
            raise self._error
        events, self._events = self._events, []
        return events

    def close(self) -> None:
        self._closing = True
        if self._reader:
            self._reader.fire()

    async def _read_on(self) -> None:
        while not self._error and not self._closing:
            self._reader = Wait(self._loop)
            await self._loop.park(self._reader, self._source.inotify.fd)
            await self._read()
        async with self._lock:
            self._source.close()
            self._closing = True

    async def _read(self) -> None:
        async with self._lock:
            if self._error or self._closing:
                return
            try:
                self._events += await run_as(self._loop, self._account, self._source.read)
            except RpcError as error:
                self._error = error
        if len(self._events) > _MOST_KEPT:
            self._error = RpcError("resource_exhausted", f"more than {_MOST_KEPT} events were not taken: watch anew")
            self._events = []
        if self.news and (self._events or self._error):
            self.news.fire()


class Watchers:
    def __init__(self, loop: Loop, sandbox: Sandbox) -> None:
        self._loop = loop
        self._sandbox = sandbox
        self._kept: dict[str, Kept] = {}
        self._made = 0
        self.calls: dict[str, Callable[[Request], Awaitable[Message]]] = {
            "CreateWatcher": self.create,
            "GetWatcherEvents": self.events,
            "RemoveWatcher": self.remove,
        }

    async def stream(self, request: Request, stream: Stream) -> None:
        message, until = await read_only_frame(request), time_limit(request)
        kept = await self._watch(request, message)
        try:
            await stream.send(_START)
            await self._send_events(stream, kept, keepalive_seconds(request), until)
        finally:
            kept.close()

    async def create(self, request: Request) -> Message:
        if len(self._kept) >= _MOST_WATCHERS:
            raise RpcError("resource_exhausted", f"there are {_MOST_WATCHERS} watchers already: remove some")
        kept = await self._watch(request, await read_message(request))
        self._made += 1
        name = f"w{self._made}"
        self._kept[name] = kept
        return {"watcherId": name}

    async def events(self, request: Request) -> Message:
        events = await self._found(await read_message(request)).fetch()
        return {"events": events} if events else {}

    async def remove(self, request: Request) -> Message:
        message = await read_message(request)
        self._found(message).close()
        del self._kept[fields.text(message, "watcherId")]
        return {}

    def _found(self, message: Message) -> Kept:
        name = fields.text(message, "watcherId")
        if name not in self._kept:
            raise RpcError("not_found", f"there is no watcher {name!r}")
        return self._kept[name]

    async def _watch(self, request: Request, message: Message) -> Kept:
        account = caller(self._sandbox, request)
        path = paths.resolve(fields.text(message, "path"), account, self._sandbox.default_workdir)
        recursive, with_entries = fields.flag(message, "recursive"), fields.flag(message, "includeEntry")
        network = fields.flag(message, "allowNetworkMounts")

        def work() -> Watcher:
            watcher.check(path, network)
            return watcher.Watcher(path, recursive, with_entries)

        return Kept(self._loop, account, await run_as(self._loop, account, work))

    async def _send_events(self, stream: Stream, kept: Kept, keepalive: float, until: float | None) -> None:
        while until is None or now() < until:
            if events := kept.take():
                await stream.send(b"".join(frame(jsontext.dump({"filesystem": event})) for event in events))
                continue
            kept.news = Wait(self._loop)
            pause = now() + keepalive
            if not await stream.park(kept.news, pause if until is None else min(pause, until)):
                await stream.send(_KEEPALIVE)
        await stream.end(RpcError("deadline_exceeded", "the time limit of the watch has passed"))
