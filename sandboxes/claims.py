"""The verbs of a claim: request, deliver, give back, cancel, expire. Each is one short transaction.

Synchronous on purpose: the edge calls them from its fixed executor (design, Claims). States are compare-and-set here
as in `transitions`; the claim's row is always locked before its sandbox's, so that no two verbs deadlock.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from django.db import transaction

from pools.errors import Conflict, QuotaExceeded
from pools.models import Cluster

from . import live, matcher, times, transitions, wakes
from .lifecycle import EndReason, State
from .matcher import Bound, match
from .models import pod_name
from .transitions import LIVE_ONLY, MOVED, run

ITS_SANDBOX = f"LEFT JOIN sandboxes_sandbox s ON s.id = c.sandbox_id AND s.state = 'claimed' AND {LIVE_ONLY}"
IN_PROGRESS = "idempotency_in_progress"
MISMATCH = "idempotency_request_mismatch"
TOO_LATE = "no sandbox in time"


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a caller asks for. `timeout` and `wait` in seconds; `wait` is how long the claim may queue."""

    team_id: int
    group_id: int
    timeout: int
    metadata: dict[str, str] = field(default_factory=dict)
    wait: float = times.CLAIM_DEADLINE
    idempotency_key: str | None = None
    request_digest: str = ""
    image: str = ""
    """Another image than the env's, "" = the env's."""


@dataclass(frozen=True, slots=True)
class Ticket:
    """A claim in the queue, or bound at once; `replayed` when the same request was answered before."""

    claim_id: int
    bound: Bound | None
    replayed: bool = False


@dataclass(frozen=True, slots=True)
class Place:
    """Where a bound sandbox's Pod is, and the image that it ran until now."""

    kubeconfig: str
    namespace: str
    pod: str
    image: str


@dataclass(frozen=True, slots=True)
class Lost:
    """The claim will never be bound: it was cancelled or expired, or its sandbox ended."""

    reason: str


def request(wanted: Wanted, edge: str) -> Ticket:
    """Queue a claim for a caller that waits in the process `edge`, and bind what can be bound.

    Raises Conflict when the idempotency key was used for another body or its first use is still under way, and
    QuotaExceeded when the team has all its quota claimed, so that waiting cannot help.
    """
    with transaction.atomic():
        claim_id = insert(wanted, edge)
        if claim_id is None:
            return replay(wanted)
        bound = match(wanted.group_id, own=[claim_id])
        (outcome,) = outcomes([claim_id], bound, wanted.team_id, wanted.group_id)
    if isinstance(outcome, QuotaExceeded):
        raise outcome
    return outcome


def request_many(wanted: Sequence[Wanted], edge: str) -> list[Ticket | QuotaExceeded]:
    """The same for claims of one group without idempotency keys, in order: a burst costs one round trip."""
    team_id, group_id = wanted[0].team_id, wanted[0].group_id
    inserted, _, rows = transitions.run_together(insert_statement(wanted, edge), *matcher.statements(group_id))
    claim_ids = sorted(row[0] for row in inserted)
    return outcomes(claim_ids, matcher.settle(group_id, rows, claim_ids), team_id, group_id)


def outcomes(
    claim_ids: Sequence[int], bound: Mapping[int, Bound], team_id: int, group_id: int
) -> list[Ticket | QuotaExceeded]:
    """What becomes of new claims of one group: bound, queued, or refused and forgotten."""
    waiting = [claim_id for claim_id in claim_ids if claim_id not in bound]
    refusal = quota_refusal(team_id) if waiting else None
    refused = forget(waiting) if refusal else set()
    if len(waiting) > len(refused):
        tell_queue_changed([(team_id, group_id)])
        wakes.wake_group(group_id)
    return [
        refusal if refusal and claim_id in refused else Ticket(claim_id, bound.get(claim_id)) for claim_id in claim_ids
    ]


def forget(claim_ids: Sequence[int]) -> set[int]:
    """Those that nobody has bound meanwhile, removed."""
    rows = run("DELETE FROM sandboxes_claim WHERE id = ANY(%s) AND state = 'queued' RETURNING id", [list(claim_ids)])
    return {row[0] for row in rows}


def insert(wanted: Wanted, edge: str) -> int | None:
    """The new claim's id, or None when its idempotency key is taken."""
    rows = run(
        """INSERT INTO sandboxes_claim (team_id, group_id, edge, timeout, metadata, idempotency_key, request_digest,
                                        deadline_at, created_at)
        VALUES (%s, %s, %s, %s, %s, %s, %s, now() + make_interval(secs => %s), now())
        ON CONFLICT (team_id, idempotency_key) WHERE state IN ('queued', 'bound', 'delivered') DO NOTHING
        RETURNING id""",
        [
            wanted.team_id,
            wanted.group_id,
            edge,
            wanted.timeout,
            json.dumps(wanted.metadata),
            wanted.idempotency_key,
            wanted.request_digest,
            wanted.wait,
        ],
    )
    return int(rows[0][0]) if rows else None


def insert_statement(wanted: Sequence[Wanted], edge: str) -> transitions.Statement:
    """Returns the new claims' ids, which grow in the order asked: PostgreSQL numbers a sorted SELECT in its order."""
    columns = ([w.timeout for w in wanted], [json.dumps(w.metadata) for w in wanted], [w.wait for w in wanted])
    return (
        """INSERT INTO sandboxes_claim (team_id, group_id, edge, timeout, metadata, deadline_at)
        SELECT %s, %s, %s, v.timeout, v.metadata::jsonb, now() + make_interval(secs => v.wait)
          FROM unnest(%s::int[], %s::text[], %s::float[]) WITH ORDINALITY AS v(timeout, metadata, wait, place)
         ORDER BY v.place RETURNING id""",
        [wanted[0].team_id, wanted[0].group_id, edge, *columns],
    )


def replay(wanted: Wanted) -> Ticket:
    """The answer that the same idempotency key got before."""
    rows = run(
        f"""SELECT c.id, c.state, c.request_digest, s.id, s.pod_ip, s.end_at
          FROM sandboxes_claim c {ITS_SANDBOX}
         WHERE c.team_id = %s AND c.idempotency_key = %s AND c.state IN ('queued', 'bound', 'delivered')""",
        [wanted.team_id, wanted.idempotency_key],
    )
    if not rows:
        raise Conflict("The first request with this Idempotency-Key has just failed; use a new key.", code=IN_PROGRESS)
    claim_id, state, digest, sandbox_id, pod_ip, end_at = rows[0]
    if digest != wanted.request_digest:
        raise Conflict("This Idempotency-Key was used with another body; use a new key.", code=MISMATCH)
    if state != "delivered":
        raise Conflict("The first request with this Idempotency-Key is still under way; wait for it.", code=IN_PROGRESS)
    if sandbox_id is None:
        raise Conflict("The sandbox of this Idempotency-Key has ended; use a new key.", code=MISMATCH)
    return Ticket(claim_id, Bound(claim_id, sandbox_id, pod_ip, end_at), replayed=True)


def quota_refusal(team_id: int) -> QuotaExceeded | None:
    """Why waiting cannot help: the team has all its quota claimed."""
    rows = run(
        f"""SELECT q.max_sandboxes, (SELECT count(*) FROM (SELECT 1 FROM sandboxes_sandbox s
                WHERE s.team_id = q.team_id AND s.state = 'claimed' AND {LIVE_ONLY} LIMIT q.max_sandboxes) c)
          FROM pools_quota q WHERE q.team_id = %s""",
        [team_id],
    )
    limit, claimed = rows[0] if rows else (0, 0)
    if claimed < limit:
        return None
    text = f"All {limit} sandboxes of your team's quota are claimed. Kill some or ask for more quota."
    return QuotaExceeded(text, field="quota")


def bound(claim_ids: Sequence[int]) -> dict[int, Bound | Lost]:
    """What became of waiting claims; those still queued are not in the answer. One query for a whole process."""
    rows = run(
        f"""SELECT c.id, c.state, c.reason, s.id, s.pod_ip, s.end_at
          FROM sandboxes_claim c {ITS_SANDBOX}
         WHERE c.id = ANY(%s) AND c.state <> 'queued'""",
        [list(claim_ids)],
    )
    return {row[0]: outcome(*row) for row in rows}


def outcome(
    claim_id: int, state: str, reason: str, sandbox_id: str | None, pod_ip: str, end_at: datetime
) -> Bound | Lost:
    if state in ("bound", "delivered") and sandbox_id:
        return Bound(claim_id, sandbox_id, pod_ip, end_at)
    return Lost(reason or f"claim {state}")


def change_image(bound: Bound, image: str, seconds: float) -> Place | None:
    """Note that the sandbox is to run `image` and has so many seconds until delivery. None = lost meanwhile."""
    changed = transitions.change_image(bound.sandbox_id, bound.claim_id, image, seconds)
    if changed is None:
        return None
    sandbox, before = changed
    cluster = Cluster.objects.get(pk=sandbox.cluster_id)
    return Place(cluster.kubeconfig, cluster.namespace, pod_name(sandbox.id), before)


def deliver(claim_id: int) -> datetime | None:
    """bound -> delivered, just before the 201: the sandbox lives `timeout` from now. None = lost meanwhile."""
    return deliver_many([claim_id]).get(claim_id)


def deliver_many(claim_ids: Sequence[int]) -> dict[int, datetime]:
    """The same for many at once; those that were lost are not in the answer."""
    moved = transitions.move(
        f"""WITH claim AS MATERIALIZED (
               SELECT id, sandbox_id, timeout FROM sandboxes_claim WHERE id = ANY(%s) AND state = 'bound'
                ORDER BY id FOR UPDATE),
        moved AS (
               UPDATE sandboxes_sandbox s SET rev = s.rev + 1, delivered_at = now(),
                      end_at = now() + make_interval(secs => claim.timeout)
                 FROM claim
                WHERE s.id = claim.sandbox_id AND s.state = 'claimed' AND s.claim_id = claim.id AND {LIVE_ONLY}
               RETURNING {MOVED}),
        done AS (UPDATE sandboxes_claim c SET state = 'delivered', delivered_at = now(), finished_at = now()
                   FROM moved WHERE c.id = moved.claim_id)
        SELECT * FROM moved""",
        [list(claim_ids)],
    )
    return {sandbox.claim_id: sandbox.end_at for sandbox in moved if sandbox.claim_id and sandbox.end_at}


def give_back(claim_id: int, reason: str, *, replace: bool) -> Bound | None:
    """Arming failed: the sandbox is dirty and ends. With `replace` the claim takes its old place in the queue."""
    with transaction.atomic():
        rows = run(
            """WITH claim AS MATERIALIZED (
                   SELECT id, sandbox_id FROM sandboxes_claim WHERE id = %s AND state = 'bound' FOR UPDATE)
            UPDATE sandboxes_claim c SET sandbox_id = NULL, bound_at = NULL, state = %s, reason = %s,
                   finished_at = CASE WHEN %s THEN NULL ELSE now() END
              FROM claim WHERE c.id = claim.id RETURNING claim.sandbox_id, c.group_id, c.team_id""",
            [claim_id, "queued" if replace else "cancelled", reason, replace],
        )
        if not rows:
            return None
        sandbox_id, group_id, team_id = rows[0]
        transitions.stop([sandbox_id], EndReason.NOT_ARMED, "edge", reason, only=[State.CLAIMED])
        transitions.note_each([(team_id, sandbox_id, "not_armed", reason)])  # also if the cluster ended it first
        wakes.wake_group(group_id)
        return match(group_id, own=[claim_id]).get(claim_id) if replace else None


def cancel(claim_ids: Sequence[int], reason: str) -> None:
    """The callers are gone. What they had been bound to is dirty and ends, never idle again."""
    close(claim_ids, "cancelled", reason, EndReason.CALLER_GONE)


def expire(claim_ids: Sequence[int]) -> None:
    """The claims' deadlines have come: nothing is kept. Many at once, because a burst's claims expire together."""
    close(claim_ids, "expired", TOO_LATE, EndReason.NOT_DELIVERED)


def close(claim_ids: Sequence[int], state: str, reason: str, end_reason: EndReason) -> None:
    with transaction.atomic():
        rows = run(
            """WITH claim AS MATERIALIZED (
                   SELECT id FROM sandboxes_claim WHERE id = ANY(%s) AND state IN ('queued', 'bound', 'delivered')
                    ORDER BY id FOR UPDATE)
            UPDATE sandboxes_claim c SET state = %s, reason = %s, finished_at = now()
              FROM claim WHERE c.id = claim.id RETURNING c.sandbox_id, c.team_id, c.group_id""",
            [list(claim_ids), state, reason],
        )
        sandboxes = [sandbox_id for sandbox_id, _, _ in rows if sandbox_id]
        stopped = transitions.stop(sandboxes, end_reason, "edge", reason, only=[State.CLAIMED])
        for cluster_id in {sandbox.cluster_id for sandbox in stopped}:
            wakes.wake_cluster(cluster_id)
        tell_queue_changed([(team_id, group_id) for _, team_id, group_id in rows])


def close_overdue(limit: int) -> int:
    """Collector: queued claims past their deadline, which their edge should have expired, and how many there were."""
    rows = run(
        "SELECT id FROM sandboxes_claim WHERE state = 'queued' AND deadline_at < now() - interval '2 seconds' LIMIT %s",
        [limit],
    )
    close([row[0] for row in rows], "expired", TOO_LATE, EndReason.NOT_DELIVERED)
    return len(rows)


def close_abandoned(limit: int) -> int:
    """Collector: open claims whose edge process has stopped beating, and how many there were."""
    rows = run(
        """SELECT c.id FROM sandboxes_claim c LEFT JOIN sandboxes_heartbeat h ON h.name = c.edge
            WHERE c.state IN ('queued', 'bound') AND coalesce(h.at, c.created_at) < now() - make_interval(secs => %s)
            LIMIT %s""",
        [times.EDGE_GONE, limit],
    )
    close([row[0] for row in rows], "cancelled", "the edge process of the caller is gone", EndReason.CALLER_GONE)
    return len(rows)


def beat(edge: str) -> None:
    """The edge process lives; claims of a silent one are closed."""
    with transaction.atomic():
        run(
            """INSERT INTO sandboxes_heartbeat (name, at) VALUES (%s, now())
            ON CONFLICT (name) DO UPDATE SET at = excluded.at RETURNING name""",
            [edge],
        )


def tell_queue_changed(queues: Sequence[tuple[int, int]]) -> None:
    messages = [(team_id, {"queue": group_id}) for team_id, group_id in set(queues)]
    if messages:
        transaction.on_commit(lambda: live.publish(messages))
