"""The query of a list: filters, order and cursor, checked. A filter is never ignored. Pure."""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import unquote

from .answers import Refusal, invalid
from .parse import check_storable

LARGEST_PAGE = 100
STATES = {"running", "paused"}
CURSOR = re.compile(r"(?P<moment>[^_]+)__(?P<id>[a-z0-9]{1,21})(?P<ascending>__asc)?")


@dataclass(frozen=True, slots=True)
class ListQuery:
    """`cursor` is the last row seen: (started at, id)."""

    metadata: tuple[tuple[str, str], ...] = ()
    wants_running: bool = True
    ascending: bool = False
    started_after: datetime | None = None
    template: str = ""
    limit: int = LARGEST_PAGE
    cursor: tuple[datetime, str] | None = None

    def cursor_after(self, moment: datetime, sandbox_id: str) -> str:
        stamp = moment.astimezone(UTC).isoformat(timespec="microseconds")
        text = f"{stamp}__{sandbox_id}{'__asc' if self.ascending else ''}"
        return base64.urlsafe_b64encode(text.encode()).decode()


def parse_list(query: dict[str, str]) -> ListQuery:
    """`query` is decoded once, as frameworks do. Raises Refusal 400 naming the parameter."""
    ascending = parse_order(query.get("order", ""))
    return ListQuery(
        metadata=parse_metadata(query.get("metadata", "")),
        wants_running="running" in parse_states(query.get("state", "")),
        ascending=ascending,
        started_after=parse_moment("startedAfter", query.get("startedAfter", "")),
        template=parse_template(query.get("template", "")),
        limit=parse_limit(query.get("limit", "")),
        cursor=parse_cursor(query.get("nextToken", ""), ascending),
    )


def parse_metadata(value: str) -> tuple[tuple[str, str], ...]:
    """SDKs encode keys and values, then the pairs, then the parameter: two decodings are left (e2b-protocol 2.3)."""
    if not value:
        return ()
    return tuple(parse_pair(pair) for pair in unquote(value).split("&"))


def parse_pair(pair: str) -> tuple[str, str]:
    if pair.count("=") != 1:
        raise invalid("metadata", f"each pair must be key=value, not {pair[:40]!r}.")
    name, value = (unquote(part) for part in pair.split("="))
    check_storable("metadata", name + value)
    return name, value


def parse_states(value: str) -> set[str]:
    """None named means all. One comma-joined value; Python encodes the comma."""
    if not value:
        return STATES
    states = {state.strip() for state in unquote(value).split(",")}
    if unknown := states - STATES:
        raise invalid("state", f"must be running, paused or both, not {sorted(unknown)[0][:40]!r}.")
    return states


def parse_order(value: str) -> bool:
    if value not in ("", "asc", "desc"):
        raise invalid("order", f"must be asc or desc, not {value[:40]!r}.")
    return value == "asc"


def parse_moment(name: str, value: str) -> datetime | None:
    """ISO 8601; without an offset it is UTC. A plus that became a space is put back."""
    if not value:
        return None
    try:
        moment = datetime.fromisoformat(value.replace(" ", "+", 1) if "T" in value else value)
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (ValueError, OverflowError) as error:
        raise invalid(name, f"must be an ISO 8601 time such as 2026-01-31T12:00:00Z, not {value[:40]!r}.") from error


def parse_template(value: str) -> str:
    """An env's name; a tagged one cannot match and says so."""
    if ":" in value:
        raise invalid("template", "must be the name of an env, without a tag.")
    check_storable("template", value)
    return value


def parse_limit(value: str) -> int:
    if not value:
        return LARGEST_PAGE
    if not (value.isascii() and value.isdigit() and 1 <= int(value[:6]) <= LARGEST_PAGE):
        raise invalid("limit", f"must be a whole number from 1 to {LARGEST_PAGE}, not {value[:40]!r}.")
    return int(value)


def parse_cursor(value: str, ascending: bool) -> tuple[datetime, str] | None:
    if not value:
        return None
    try:
        match = CURSOR.fullmatch(base64.urlsafe_b64decode(value.encode()).decode())
        moment = match and datetime.fromisoformat(match["moment"])
    except ValueError as error:
        raise bad_cursor() from error
    if not match or not moment or not moment.tzinfo:
        raise bad_cursor()
    if bool(match["ascending"]) != ascending:
        raise invalid("nextToken", "belongs to a list in the other order; start again without it.")
    return moment, match["id"]


def bad_cursor() -> Refusal:
    return invalid("nextToken", "is not one that a list has given; start again without it.")
