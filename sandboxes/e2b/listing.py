"""GET /v2/sandboxes and /sandboxes: filtered, sorted and paged in SQL by keyset (e2b-protocol 2.3)."""

from __future__ import annotations

from dataclasses import replace

from django.db.models import Q, QuerySet

from sandboxes.models import Sandbox

from .answers import Answer
from .call import Call
from .details import Row, listed, rows, running
from .query import ListQuery, parse_list


async def list_page(call: Call) -> Answer:
    """Header x-next-token only if more exist: a client that always got one would loop for ever."""
    query = parse_list(call.query())
    page, total = await call.control.database.run(read_page, call.key.team_id, query)
    headers = [(b"x-total-running", str(total).encode())]
    if len(page) > query.limit:
        page = page[: query.limit]
        headers.append((b"x-next-token", query.cursor_after(page[-1].started_at, page[-1].id).encode()))
    return Answer(200, [listed(row) for row in page], headers)


async def list_all(call: Call) -> Answer:
    """The first generation's list: everything running, no pages."""
    query = parse_list(call.query())
    page, _ = await call.control.database.run(read_page, call.key.team_id, replace(query, limit=100_000))
    return Answer(200, [listed(row) for row in page])


def read_page(team_id: int, query: ListQuery) -> tuple[list[Row], int]:
    """One row more than asked for, so that the end is known; and how many the team has running."""
    everything = running(team_id)
    page = narrowed(everything, query) if query.wants_running else everything.none()
    order = ("claimed_at", "id") if query.ascending else ("-claimed_at", "-id")
    return rows(page.order_by(*order)[: query.limit + 1]), everything.count()


def narrowed(sandboxes: QuerySet[Sandbox], query: ListQuery) -> QuerySet[Sandbox]:
    for name, value in query.metadata:
        sandboxes = sandboxes.filter(metadata__contains={name: value})
    if query.template:
        sandboxes = sandboxes.filter(group__env__name=query.template)
    if query.started_after:
        sandboxes = sandboxes.filter(claimed_at__gte=query.started_after)
    return sandboxes.filter(beyond(query)) if query.cursor else sandboxes


def beyond(query: ListQuery) -> Q:
    """Rows after the cursor; the first condition alone lets the index start at the right place."""
    if query.cursor is None:
        return Q()
    moment, sandbox_id = query.cursor
    if query.ascending:
        return Q(claimed_at__gte=moment) & ~Q(claimed_at=moment, id__lte=sandbox_id)
    return Q(claimed_at__lte=moment) & ~Q(claimed_at=moment, id__gte=sandbox_id)
