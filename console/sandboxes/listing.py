"""A team's sandboxes, newest first: filtered, then cut, all in SQL, by keyset (design section 4, Pages).

The filter lives in the URL: `state`, `pool`, `text` and `after` (an opaque place in the list).
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from urllib.parse import urlencode

from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from pools.errors import Invalid
from sandboxes.models import LIVE_SHELF, Sandbox, SandboxQuerySet

PAGE = 50

LIVE = Q(shelf=LIVE_SHELF) & ~Q(state="ended")
CLEAR = LIVE & Q(finding="")
STATES = {
    "live": (_("Live"), LIVE),
    "claimed": (_("Claimed"), CLEAR & Q(state="claimed")),
    "idle": (_("Idle"), CLEAR & Q(state="idle")),
    "starting": (_("Starting"), CLEAR & Q(state__in=["pending", "starting"])),
    "stuck": (_("Stuck"), LIVE & ~Q(finding="")),
    "stopping": (_("Stopping"), CLEAR & Q(state="stopping")),
    "ended": (_("Ended"), Q(state="ended")),
}
SANDBOX_ID = re.compile(r"i[0-9a-z]{20}")
LONGEST_TEXT = 120


@dataclass(frozen=True)
class Cursor:
    """The last line of a page: the next page begins after it."""

    created_at: datetime
    id: str

    def __str__(self) -> str:
        plain = f"{self.created_at.astimezone(UTC).isoformat()} {self.id}"
        return base64.urlsafe_b64encode(plain.encode()).decode().rstrip("=")

    @classmethod
    def parse(cls, text: str) -> Cursor:
        try:
            created, _, id_ = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode().partition(" ")
            moment = datetime.fromisoformat(created)
            return cls(moment.astimezone(UTC), SANDBOX_ID.fullmatch(id_)[0])  # type: ignore[index]
        except (ValueError, TypeError) as error:
            raise Invalid("This page of the list does not exist. Start from its first page.", field="after") from error


@dataclass(frozen=True)
class Filter:
    state: str = "live"
    pool: int | None = None
    text: str = ""
    after: Cursor | None = None

    @property
    def first_page(self) -> bool:
        return self.after is None

    @property
    def takes_new(self) -> bool:
        """Whether a sandbox that is born now belongs on top of this page."""
        return self.first_page and self.state == "live" and not self.text

    def query(self, **changes: object) -> str:
        """The query string of this filter with some of it changed; a change of filter starts at the first page."""
        new = replace(self, **({"after": None} | changes))  # type: ignore[arg-type]
        named = {"state": new.state, "pool": new.pool, "text": new.text, "after": new.after}
        return urlencode({name: value for name, value in named.items() if value and (name, value) != ("state", "live")})

    def where(self) -> Q:
        wanted = STATES[self.state][1]
        if self.pool is not None:
            wanted &= Q(pool_id=self.pool)
        if self.text:
            wanted &= matching(self.text)
        if self.after is not None:
            at, id_ = self.after.created_at, self.after.id
            wanted &= Q(created_at__lte=at) & (Q(created_at__lt=at) | Q(id__lt=id_))
        return wanted


def matching(text: str) -> Q:
    """A sandbox's id or its beginning, a node, or `key=value` of the metadata."""
    if SANDBOX_ID.fullmatch(text):
        return Q(id=text)
    key, equals, value = text.partition("=")
    if equals:
        return Q(metadata__contains={key.strip(): value.strip()})
    return Q(id__startswith=text) | Q(node=text)


def parse(query: Mapping[str, str], pool: int | None = None) -> Filter:
    """The filter in a query string. `pool` fixes the pool of a pool's own page. Raises Invalid naming the field."""
    state, text, after = query.get("state") or "live", query.get("text", "").strip(), query.get("after", "")
    if state not in STATES:
        raise Invalid(f"There is no state {state!r}; use one of {', '.join(STATES)}.", field="state")
    if len(text) > LONGEST_TEXT or "\x00" in text:
        raise Invalid(f"Search for at most {LONGEST_TEXT} plain characters.", field="text")
    return Filter(state, pool if pool is not None else _pool(query), text, Cursor.parse(after) if after else None)


def _pool(query: Mapping[str, str]) -> int | None:
    text = query.get("pool", "")
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise Invalid(f"{text!r} is not the number of a pool.", field="pool")
    return int(text)


def page(team_id: int, wanted: Filter, size: int = PAGE, *also: str) -> tuple[list[Sandbox], Cursor | None]:
    """One page with its pools (and `also`) loaded, and where the next one begins, None at the end. One query."""
    rows = list(_rows(team_id, wanted).select_related("pool", *also)[: size + 1])
    if len(rows) <= size:
        return rows, None
    return rows[:size], Cursor(rows[size - 1].created_at, rows[size - 1].id)


def revs(team_id: int, wanted: Filter, size: int = PAGE) -> list[tuple[str, int]]:
    """(id, rev) of one page: what a browser that shows it should have."""
    return list(_rows(team_id, wanted).values_list("id", "rev")[:size])


def _rows(team_id: int, wanted: Filter) -> SandboxQuerySet:
    return Sandbox.objects.filter(wanted.where(), team_id=team_id).order_by("-created_at", "-id")
