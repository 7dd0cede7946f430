"""Bind waiting claims to idle sandboxes, first come first served.

The queue belongs to the scaling group. Only `match` binds, one statement under an advisory lock, and it always takes
the queue's head: a request never binds for itself, so nobody barges (design, Claims). Called by create, by the
observer and by the one-second sweep.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import transaction

from . import live, times, transitions, wakes

LOCK = 0x41425821
"""The class of our advisory locks; the object is the group."""
BATCH = 1000


@dataclass(frozen=True, slots=True)
class Bound:
    """A claim with its sandbox, not yet armed. `end_at` is provisional: nobody may hold it undelivered for longer."""

    claim_id: int
    sandbox_id: str
    pod_ip: str
    end_at: datetime


def match(group_id: int, *, own: Sequence[int] = ()) -> dict[int, Bound]:
    """Bind what can be bound; returns the new bindings by claim id. Nobody is told of the caller's `own` claims."""
    _, rows = transitions.run_together(*statements(group_id))
    return settle(group_id, rows, own)


def statements(group_id: int) -> tuple[transitions.Statement, transitions.Statement]:
    """Lock and bind. Two, because what the lock waits for must be seen: each statement has a snapshot of its own."""
    lock = ("SELECT pg_advisory_xact_lock(%s, %s)", [LOCK, group_id])
    return lock, transitions.bind_statement(group_id, BATCH, times.ARM_LIMIT)


def settle(group_id: int, rows: Iterable[tuple[Any, ...]], own: Sequence[int]) -> dict[int, Bound]:
    """After the statements: tell the edges whose claims are bound, and the autoscaler."""
    pairs = transitions.bound(rows)
    if not pairs:
        return {}
    known = set(own)
    notices = [(edge, sandbox.claim_id or 0) for sandbox, edge in pairs if sandbox.claim_id not in known]
    if notices:
        transaction.on_commit(lambda: live.publish_bound(notices))
    wakes.wake_group(group_id)
    return {bound.claim_id: bound for bound in (as_bound(sandbox) for sandbox, _ in pairs)}


def as_bound(sandbox: transitions.Moved) -> Bound:
    if sandbox.claim_id is None or sandbox.end_at is None:
        raise AssertionError("the table's constraint forbids a claimed sandbox without claim or deadline")
    return Bound(sandbox.claim_id, sandbox.id, sandbox.pod_ip, sandbox.end_at)
