"""Objects in memory, each kept as its encoded bytes, with versions, paging and watches as the real API has them.

An object is encoded once per change; lists join those bytes and all watchers share the one encoded event. Versions
start from the clock, so one from before a restart is too old for a watch (410), never mistaken for a present one.
"""

import asyncio
import base64
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

import orjson

from sandboxes.localkube.objects import KINDS, ApiError, Fields, Json, Kind, bad_request, expired

Key = tuple[str, str]  # namespace ("" for cluster-wide kinds), name
RING = 20_000
BEHIND_BYTES = 64 << 20  # a watcher further behind is cut off, as the real one does; it resumes from its version
BOOKMARK_SECONDS = 10.0
LAST_BOOKMARK_SECONDS = 2.0  # before the end of a watch
GAP_SECONDS = 0.02  # between two chunks to one watcher: changes in between travel together
_PAGES_KEPT, _PAGES_SECONDS = 64, 300.0
_CONTINUE_EXPIRED = (
    "The provided continue parameter is too old to display a consistent list result. "
    "You can start a new list without the continue parameter."
)
_LIST_EXPIRED = "The resourceVersion for the provided list is too old."
encode = orjson.dumps


@dataclass(slots=True, frozen=True)
class Entry:
    """One version of one object."""

    key: Key
    uid: str
    version: int
    body: bytes
    labels: Fields
    fields: Fields

    def load(self) -> Json:
        loaded: Json = orjson.loads(self.body)
        return loaded


@dataclass(slots=True, frozen=True)
class Change:
    kind: str
    entry: Entry
    before: Entry | None


@dataclass(frozen=True)
class Wanted:
    """What a list or watch asks for."""

    namespace: str = ""
    labels: Callable[[Fields], bool] | None = None
    fields: Callable[[Fields], bool] | None = None

    def matches(self, entry: Entry) -> bool:
        if self.namespace and entry.key[0] != self.namespace:
            return False
        return (not self.labels or self.labels(entry.labels)) and (not self.fields or self.fields(entry.fields))

    @property
    def selective(self) -> bool:
        return bool(self.labels or self.fields)


@dataclass(frozen=True)
class Page:
    entries: list[Entry]
    version: int
    token: str = ""
    remaining: int = 0
    counted: bool = True  # whether it says how many remain: a real server would have to look through all


class Store:
    def __init__(self) -> None:
        self.version = time.time_ns() // 1000
        self.collections = {plural: Collection(kind, self) for plural, kind in KINDS.items()}

    def compact(self) -> None:
        for collection in self.collections.values():
            collection.compact()

    def close_watches(self) -> None:
        for collection in self.collections.values():
            for watcher in list(collection.watchers):
                watcher.close()


class Collection:
    def __init__(self, kind: Kind, store: Store) -> None:
        self.kind = kind
        self.entries: dict[Key, Entry] = {}
        self.watchers: set[Watcher] = set()
        self._store = store
        self._ring: deque[Change] = deque()
        self._floor = store.version
        self._sorted: list[Key] | None = None
        self._pages: dict[str, tuple[float, Page]] = {}

    def put(self, item: Json) -> Entry:
        """Add or replace; the object gets the next version."""
        entry = self._entry(item)
        before = self.entries.get(entry.key)
        self.entries[entry.key] = entry
        if before is None:
            self._sorted = None
        self._publish(Change("MODIFIED" if before else "ADDED", entry, before))
        return entry

    def remove(self, key: Key) -> Entry | None:
        before = self.entries.pop(key, None)
        if before is None:
            return None
        self._sorted = None
        entry = self._entry(before.load())
        self._publish(Change("DELETED", entry, before))
        return entry

    def _entry(self, item: Json) -> Entry:
        self._store.version += 1
        meta = item["metadata"]
        meta["resourceVersion"] = str(self._store.version)
        key = (meta.get("namespace", ""), meta["name"])
        body = encode({"kind": self.kind.name, "apiVersion": "v1", **item})
        return Entry(key, meta["uid"], self._store.version, body, meta.get("labels") or {}, self.kind.selectable(item))

    def _publish(self, change: Change) -> None:
        self._ring.append(change)
        if len(self._ring) > RING:
            self._floor = self._ring.popleft().entry.version
        if self.watchers:
            line = event_line(change.kind, change.entry.body)
            for watcher in self.watchers:
                watcher.offer(change, line)

    def compact(self) -> None:
        self._ring.clear()
        self._pages.clear()
        self._floor = self._store.version

    def page(self, wanted: Wanted, limit: int, token: str, version: str, *, exact: bool = False) -> Page:
        """A consistent list: pages of one list come from the moment of its first page. `exact`: as it was then."""
        if token:
            return self._next_page(limit, token)
        if version and int(version) > self._store.version:
            raise _from_the_future(version, self._store.version)
        if exact:
            past = self._as_of(int(version))
            entries, number = [past[key] for key in sorted(past)], int(version)
        else:
            self._sorted = self._sorted or sorted(self.entries)
            entries, number = [self.entries[key] for key in self._sorted], self._store.version
        found = [entry for entry in entries if wanted.matches(entry)]
        return self._cut(Page(found, number, counted=not wanted.selective), limit)

    def _as_of(self, version: int) -> dict[Key, Entry]:
        if version < self._floor:
            raise expired(_LIST_EXPIRED)
        past = dict(self.entries)
        for change in reversed(self._since(version)):
            past.pop(change.entry.key, None)
            if change.before:
                past[change.entry.key] = change.before
        return past

    def _cut(self, whole: Page, limit: int) -> Page:
        if not limit or len(whole.entries) <= limit:
            return Page(whole.entries, whole.version)
        rest = Page(whole.entries[limit:], whole.version, counted=whole.counted)
        name = f"{whole.version}-{len(rest.entries)}-{time.monotonic_ns()}"
        self._pages[name] = (time.monotonic(), rest)
        if len(self._pages) > _PAGES_KEPT:
            del self._pages[next(iter(self._pages))]
        token = base64.urlsafe_b64encode(name.encode()).decode()
        return Page(whole.entries[:limit], whole.version, token, len(rest.entries), whole.counted)

    def _next_page(self, limit: int, token: str) -> Page:
        try:
            name = base64.b64decode(token, altchars=b"-_", validate=True).decode()
        except ValueError:
            raise bad_request(f"invalid continue token: continue key is not valid: {token!r}") from None
        since, rest = self._pages.get(name, (0.0, None))
        if rest is None or time.monotonic() - since > _PAGES_SECONDS:
            raise expired(_CONTINUE_EXPIRED)
        return self._cut(rest, limit)

    def watch(self, wanted: Wanted, version: str) -> "Watcher":
        """From `version` on; without one (or "0") the present state first. ApiError 410 when it is too old."""
        watcher = Watcher(self, wanted)
        if version in ("", "0"):
            for entry in self.entries.values():
                watcher.offer_present(entry)
        elif int(version) < self._floor:
            raise expired(f"too old resource version: {version} ({self._floor})")
        else:
            for change in self._since(int(version)):
                watcher.offer(change, event_line(change.kind, change.entry.body))
        self.watchers.add(watcher)
        return watcher

    def _since(self, version: int) -> list[Change]:
        missed = []
        for change in reversed(self._ring):
            if change.entry.version <= version:
                break
            missed.append(change)
        return missed[::-1]

    def bookmark(self) -> bytes:
        meta = {"resourceVersion": str(self._store.version)}
        return event_line("BOOKMARK", encode({"kind": self.kind.name, "apiVersion": "v1", "metadata": meta}))


class Watcher:
    """One open watch: lines wait here until its response takes them."""

    def __init__(self, collection: Collection, wanted: Wanted) -> None:
        self._collection = collection
        self._wanted = wanted
        self._lines: list[bytes] = []
        self._size = 0
        self._wake = asyncio.Event()
        self.closed = False

    def offer_present(self, entry: Entry) -> None:
        if self._wanted.matches(entry):
            self._add(event_line("ADDED", entry.body))

    def offer(self, change: Change, line: bytes) -> None:
        if not self._wanted.selective:
            if self._wanted.namespace in ("", change.entry.key[0]):
                self._add(line)
            return
        now = change.kind != "DELETED" and self._wanted.matches(change.entry)
        was = change.before is not None and self._wanted.matches(change.before)
        if now or was:
            kind = "MODIFIED" if now and was else "ADDED" if now else "DELETED"
            left = kind == "DELETED" and change.kind != kind and change.before
            self._add(event_line(kind, as_it_left(left, change.entry) if left else change.entry.body))

    def _add(self, line: bytes) -> None:
        self._lines.append(line)
        self._size += len(line)
        self._wake.set()
        if self._size > BEHIND_BYTES:
            self.close()

    def close(self) -> None:
        self.closed = True
        self._collection.watchers.discard(self)
        self._wake.set()

    async def stream(self, seconds: float, bookmarks: bool) -> AsyncIterator[bytes]:
        clock = asyncio.get_running_loop().time
        end = clock() + seconds
        bookmark = _next_bookmark(clock(), end)
        try:
            while not self.closed and clock() < end:
                await self._wait(min(end, bookmark) - clock())
                chunk = self._take()
                if clock() >= bookmark:
                    chunk += self._collection.bookmark() if bookmarks else b""
                    bookmark = _next_bookmark(clock(), end)
                if chunk:
                    yield chunk
                    await asyncio.sleep(GAP_SECONDS)
        finally:
            self.close()

    async def _wait(self, seconds: float) -> None:
        try:
            await asyncio.wait_for(self._wake.wait(), max(0.0, seconds))
        except TimeoutError:
            return

    def _take(self) -> bytes:
        chunk = b"".join(self._lines)
        self._lines.clear()
        self._size = 0
        self._wake.clear()
        return chunk


def _next_bookmark(now: float, end: float) -> float:
    last = end - LAST_BOOKMARK_SECONDS
    return last if now < last < now + BOOKMARK_SECONDS else now + BOOKMARK_SECONDS


def _from_the_future(version: str, current: int) -> ApiError:
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    message = f"Timeout: Too large resource version: {version}, current: {current}"
    return ApiError(504, "Timeout", message, causes=[cause], retryAfterSeconds=1)


def as_it_left(before: Entry, after: Entry) -> bytes:
    """What no longer matches a watch, as it last did, with the version of the change that took it away."""
    item = before.load()
    item["metadata"]["resourceVersion"] = str(after.version)
    return encode(item)


def event_line(kind: str, body: bytes) -> bytes:
    return b'{"type":"' + kind.encode() + b'","object":' + body + b"}\n"


def error_line(error: ApiError) -> bytes:
    return event_line("ERROR", encode(error.status))


def list_body(kind: Kind, page: Page) -> bytes:
    meta: dict[str, Any] = {"resourceVersion": str(page.version)}
    if page.token:
        meta |= {"continue": page.token} | ({"remainingItemCount": page.remaining} if page.counted else {})
    head = encode({"kind": f"{kind.name}List", "apiVersion": "v1", "metadata": meta})
    lead = len(encode({"kind": kind.name, "apiVersion": "v1"}))  # items of a list carry neither; drop it with its comma
    items = b",".join(b"{" + entry.body[lead:] for entry in page.entries)
    return head[:-1] + b',"items":[' + items + b"]}"
