"""One open page: which rows it shows, and what it has not been told yet. Bounded: the newest word on a row replaces
an older one, so a slow reader costs no memory (design section 4, Live feed). Knows nothing of sockets or Redis.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from console.sandboxes.listing import PAGE, Filter
from console.shown import Line

WATCHED = 3 * PAGE
"""Rows followed for one page: those it shows and the newest born since."""
LARGEST = 64 * 1024
"""A message longer than this, in bytes of ASCII, is replaced by a resync."""


@dataclass(frozen=True)
class View:
    """What the page shows of its team: a filtered list, one pool, one sandbox."""

    filter: Filter = field(default_factory=Filter)
    pool: int | None = None
    sandbox: str = ""
    listed: bool = True

    @property
    def takes_new(self) -> bool:
        return self.listed and self.filter.takes_new

    def takes(self, line: Line) -> bool:
        """Whether a newborn sandbox belongs on top of this page."""
        return self.takes_new and line.live and self.filter.pool in (None, line.pool_id)


class Viewer:
    """`ids` are on the page. Until `show` says what it was given, nothing counts as newborn."""

    def __init__(self, team_id: int, view: View, ids: Iterable[str], seq: str) -> None:
        self.team_id = team_id
        self.view = view
        self.seq = seq
        self.watched = dict.fromkeys(ids, "")
        self.floor = "~"
        self.wake = asyncio.Event()
        self._rows: dict[str, str] = {}
        self._born: dict[str, str] = {}
        self._now: str | None = None
        self._notes: dict[str, str] = {}
        self._resync: str = ""

    def show(self, lines: Iterable[Line]) -> None:
        """The page has these lines, newest first. Those created later and not among them are newborn from now on."""
        self.watched = {line.id: line.created for line in reversed(list(lines))}
        self.floor = max(self.watched.values(), default="")

    def offer(self, line: Line, text: str) -> None:
        """A row changed; `text` is its JSON."""
        if line.id in self.watched:
            target = self._born if line.id in self._born else self._rows
            target[line.id] = text
        elif line.created > self.floor and self.view.takes(line):
            self._watch(line)
            self._born[line.id] = text
        else:
            return
        self.wake.set()

    def tell_now(self, text: str) -> None:
        """The team's figures changed; `text` is JSON."""
        self._now = text
        self.wake.set()

    def note(self, kind: str, **values: Any) -> None:
        """A message of its own (`beat`, `feed`); a newer one of the same kind replaces it."""
        self._notes[kind] = json.dumps({"t": kind, **values}, separators=(",", ":"))
        self.wake.set()

    def resync(self, reason: str) -> None:
        """The page has to read everything anew; deltas in between are worthless."""
        self._resync = reason
        self.wake.set()

    def take(self, upto: str) -> list[str]:
        """Everything untold, as messages, and forget it."""
        self.wake.clear()
        messages = [self._changes(upto), *self._notes.values()]
        self._notes = {}
        return [message for message in messages if message]

    def _changes(self, upto: str) -> str:
        rows, born, now = list(self._rows.values()), list(self._born.values()), self._now
        self._rows, self._born, self._now = {}, {}, None
        start, self.seq = self.seq, upto
        if self._resync:
            reason, self._resync = self._resync, ""
            return json.dumps({"t": "resync", "reason": reason})
        if not (rows or born or now):
            self.seq = start
            return ""
        text = (
            f'{{"t":"delta","from":"{start}","to":"{upto}","rows":[{",".join(rows)}],'
            f'"born":[{",".join(born)}],"now":{now or "null"}}}'
        )
        return text if len(text) <= LARGEST else '{"t":"resync","reason":"too much changed at once"}'

    def _watch(self, line: Line) -> None:
        self.watched[line.id] = line.created
        while len(self.watched) > WATCHED:
            oldest = next(iter(self.watched))
            self.floor = max(self.floor, self.watched.pop(oldest))
            self._born.pop(oldest, None)
            self._rows.pop(oldest, None)
