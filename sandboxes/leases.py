"""One worker at a time serves a row: a lease with a fence, kept on the row itself.

A lease ends when it is released, when LEASE seconds have passed, or at once when the database connection that took it
is gone: a killed worker holds nothing up. Writes of the holder check the fence (`hold`), so that a worker which lost
its lease without knowing changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime

from django.db import connection

from pools.models import Cluster, Lease, ScalingGroup

from . import times


class LeaseLost(Exception):
    """Another worker has taken over; drop what you were about to write."""


@dataclass(frozen=True, slots=True)
class Held:
    """A lease in hand."""

    model: type[Lease]
    pk: int
    fence: int
    since: datetime


@contextmanager
def leased(model: type[ScalingGroup] | type[Cluster], pk: int, *, due_in: float) -> Iterator[Held | None]:
    """The lease, or None when somebody else serves the row (who is then told that it is due again).

    On the way out the row is next due after `due_in` seconds, or at once if somebody asked meanwhile; an exception
    is stored as the row's `failure` and raised.
    """
    held = take(model, pk)
    if held is None:
        mark_due(model, pk)
        yield None
        return
    try:
        yield held
    except Exception as error:
        release(held, due_in, failure=f"{type(error).__name__}: {error}")
        raise
    release(held, due_in)


def take(model: type[ScalingGroup] | type[Cluster], pk: int) -> Held | None:
    with connection.cursor() as cursor:
        cursor.execute(
            f"""UPDATE {model._meta.db_table} SET lease_fence = lease_fence + 1, lease_backend = pg_backend_pid(),
                       lease_until = now() + make_interval(secs => %s)
                 WHERE id = %s AND (lease_until IS NULL OR lease_until < now()
                       OR lease_backend IS NULL OR NOT EXISTS (SELECT 1 FROM pg_stat_get_activity(lease_backend)))
                RETURNING lease_fence, now()""",
            [times.LEASE, pk],
        )
        row = cursor.fetchone()
    return Held(model, pk, *row) if row else None


def hold(held: Held) -> None:
    """Within a transaction: keep the lease until its end, or raise LeaseLost."""
    rows = held.model._default_manager.select_for_update(no_key=True).filter(pk=held.pk, lease_fence=held.fence)
    if not rows.values_list("pk").first():
        raise LeaseLost(f"{held.model.__name__} {held.pk}")


def release(held: Held, due_in: float, failure: str = "") -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            f"""UPDATE {held.model._meta.db_table} SET lease_until = NULL, lease_backend = NULL, failure = %s,
                       failures = CASE WHEN %s = '' THEN 0 ELSE failures + 1 END,
                       last_pass_at = CASE WHEN %s = '' THEN now() ELSE last_pass_at END,
                       due_at = CASE WHEN due_at > %s AND due_at <= now() THEN due_at
                                     ELSE now() + make_interval(secs => %s) END
                 WHERE id = %s AND lease_fence = %s""",
            [failure, failure, failure, held.since, due_in, held.pk, held.fence],
        )


def mark_due(model: type[ScalingGroup] | type[Cluster], pk: int) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"UPDATE {model._meta.db_table} SET due_at = now() WHERE id = %s", [pk])
