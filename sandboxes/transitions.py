"""All state SQL of sandboxes and claims: one statement a batch, compare-and-set, `rev` bumped, hints sent after commit.

Every function changes only rows that are still in a state from which the target may be entered (lifecycle.NEXT), so
two writers, a replayed event or a late answer do no harm. Each returns the rows it really changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import connection, transaction

from . import live
from .lifecycle import EndReason, State, shown_group, sources

LIVE_ONLY = "s.shelf = '9999-12-31 00:00:00+00'"
"""Keeps every statement within the live partition."""

MOVED = """s.id, s.rev, s.state, s.team_id, s.group_id, s.pool_id, s.cluster_id,
    (SELECT p.name FROM pools_pool p WHERE p.id = s.pool_id), s.node, s.pod_ip, s.created_at, s.idle_at, s.claimed_at,
    s.end_at, s.stopping_at, s.ended_at, s.end_reason, s.finding, s.finding_text, s.claim_id"""


@dataclass(frozen=True, slots=True)
class Moved:
    """A sandbox as a transition left it."""

    id: str
    rev: int
    state: str
    team_id: int
    group_id: int
    pool_id: int
    cluster_id: int
    pool: str
    node: str
    pod_ip: str
    created_at: datetime
    idle_at: datetime | None
    claimed_at: datetime | None
    end_at: datetime | None
    stopping_at: datetime | None
    ended_at: datetime | None
    end_reason: str
    finding: str
    finding_text: str
    claim_id: int | None

    def left_service(self) -> bool:
        """With this transition, not with an earlier one."""
        return self.state == State.STOPPING or (self.state == State.ENDED and self.stopping_at is None)

    def row(self) -> dict[str, Any]:
        """The live row of the browser's table."""
        hidden = ("team_id", "cluster_id", "pod_ip", "stopping_at", "claim_id")
        row = {name: getattr(self, name) for name in self.__slots__ if name not in hidden}
        return row | {"shown": shown_group(self.state, self.finding).value}


def run(sql: str, params: Sequence[Any] | dict[str, Any]) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql, params)
        return list(cursor.fetchall())


type Statement = tuple[str, Sequence[Any] | dict[str, Any]]


def run_together(*statements: Statement) -> list[list[tuple[Any, ...]]]:
    """What each statement returns. They cost one round trip, and make one transaction if none is open.

    So a lock that the first one takes is held for as long as PostgreSQL works, not while this process waits for CPU.
    """
    connection.ensure_connection()
    with ExitStack() as stack:
        cursors = [stack.enter_context(connection.cursor()) for _ in statements]
        with connection.wrap_database_errors, connection.connection.pipeline():
            for cursor, statement in zip(cursors, statements, strict=True):
                cursor.execute(*statement)
        return [list(cursor.fetchall()) for cursor in cursors]


def move(sql: str, params: Sequence[Any]) -> list[Moved]:
    """Run a statement that returns MOVED rows, and tell the world after commit."""
    moved = [Moved(*row) for row in run(sql, params)]
    announce(moved)
    return moved


def move_each(sql: str, rows: Sequence[tuple[Any, ...]]) -> list[Moved]:
    """`move` for a statement whose parameters are the rows' columns as arrays; none, no statement."""
    return move(sql, columns(rows)) if rows else []


def announce(moved: Sequence[Moved]) -> None:
    if not moved:
        return
    by_team: dict[int, list[dict[str, Any]]] = {}
    for sandbox in moved:
        by_team.setdefault(sandbox.team_id, []).append(sandbox.row())
    gone = [sandbox.id for sandbox in moved if sandbox.claim_id and sandbox.left_service()]
    messages = [(team_id, {"rows": rows}) for team_id, rows in by_team.items()]
    transaction.on_commit(lambda: live.publish(messages, gone))


def note(sandboxes: Iterable[Moved], kind: str, text: str = "") -> None:
    """Store an event for each: something that is not the normal course. `text` defaults to the finding's."""
    note_each([(s.team_id, s.id, kind, text or s.finding_text) for s in sandboxes])


def note_each(rows: Sequence[tuple[int, str, str, str]]) -> None:
    """Each is (team id, sandbox id, kind, text)."""
    if rows:
        run(
            "INSERT INTO sandboxes_event (team_id, sandbox_id, kind, text) "
            "SELECT * FROM unnest(%s::bigint[], %s::text[], %s::text[], %s::text[]) RETURNING id",
            columns(rows),
        )


def insert_pending(pool_id: int, ids: Sequence[str]) -> list[Moved]:
    """Rows before Pods: the row is the promise that `drain` keeps under the row's own name."""
    return move(
        f"""INSERT INTO sandboxes_sandbox AS s (id, team_id, group_id, pool_id, cluster_id, image, state, created_at)
        SELECT v.id, e.team_id, g.id, p.id, p.cluster_id, e.image, 'pending', now()
          FROM unnest(%s::text[]) AS v(id), pools_pool p
          JOIN pools_scalinggroup g ON g.id = p.group_id JOIN pools_env e ON e.id = g.env_id
         WHERE p.id = %s RETURNING {MOVED}""",
        [list(ids), pool_id],
    )


def acknowledge(pods: Sequence[tuple[str, str]]) -> list[Moved]:
    """pending -> starting: the cluster has taken the Pod. Each is (sandbox id, Pod uid)."""
    return move_each(
        f"""UPDATE sandboxes_sandbox s SET state = 'starting', rev = s.rev + 1, starting_at = now(), pod_uid = v.uid,
               failures = 0, retry_at = NULL, finding = '', finding_text = '', finding_at = NULL
          FROM unnest(%s::text[], %s::text[]) AS v(id, uid)
         WHERE s.id = v.id AND s.state = 'pending' AND {LIVE_ONLY} RETURNING {MOVED}""",
        pods,
    )


def make_idle(pods: Sequence[tuple[str, str, str, str]]) -> list[Moved]:
    """pending or starting -> idle: the Pod is ready. Each is (sandbox id, Pod uid, Pod IP, node)."""
    return move_each(
        f"""UPDATE sandboxes_sandbox s SET state = 'idle', rev = s.rev + 1, idle_at = now(), pod_uid = v.uid,
               starting_at = coalesce(s.starting_at, now()), pod_ip = v.ip, node = v.node,
               finding = '', finding_text = '', finding_at = NULL
          FROM unnest(%s::text[], %s::text[], %s::text[], %s::text[]) AS v(id, uid, ip, node)
         WHERE s.id = v.id AND s.state IN ('pending', 'starting') AND {LIVE_ONLY} RETURNING {MOVED}""",
        pods,
    )


def find(findings: Sequence[tuple[str, str, str]]) -> list[Moved]:
    """Set or clear findings of live sandboxes: (sandbox id, code or "", text). No change of state."""
    return move_each(
        f"""UPDATE sandboxes_sandbox s SET rev = s.rev + 1, finding = v.code, finding_text = v.text,
               finding_at = CASE WHEN v.code = '' THEN NULL WHEN s.finding = v.code THEN s.finding_at ELSE now() END
          FROM unnest(%s::text[], %s::text[], %s::text[]) AS v(id, code, text)
         WHERE s.id = v.id AND s.state <> 'ended' AND (s.finding, s.finding_text) <> (v.code, v.text) AND {LIVE_ONLY}
        RETURNING {MOVED}""",
        findings,
    )


def find_unready(ids: Sequence[str]) -> list[Moved]:
    """Idle sandboxes whose Pod stopped being ready: they are not claimable."""
    if not ids:
        return []
    return move(
        f"""UPDATE sandboxes_sandbox s SET rev = s.rev + 1, finding = 'not_ready', finding_at = now(),
               finding_text = 'The Pod was ready and no longer is; its runtime does not answer.'
         WHERE s.id = ANY(%s) AND s.state = 'idle' AND s.finding = '' AND {LIVE_ONLY} RETURNING {MOVED}""",
        [list(ids)],
    )


def refuse(refusals: Sequence[tuple[str, str, str, float]]) -> list[Moved]:
    """A create that may work later: (sandbox id, finding code, text, seconds until the next try). Stays pending."""
    return move_each(
        f"""UPDATE sandboxes_sandbox s SET rev = s.rev + 1, failures = s.failures + 1, finding = v.code,
               finding_text = v.text, finding_at = coalesce(s.finding_at, now()),
               retry_at = now() + make_interval(secs => v.wait)
          FROM unnest(%s::text[], %s::text[], %s::text[], %s::float[]) AS v(id, code, text, wait)
         WHERE s.id = v.id AND s.state = 'pending' AND {LIVE_ONLY} RETURNING {MOVED}""",
        refusals,
    )


def stop(
    ids: Sequence[str], reason: EndReason, actor: str, message: str = "", *, only: Sequence[State] = ()
) -> list[Moved]:
    """-> stopping, by `actor`, from any live state or from those in `only`; `drain` deletes the Pod."""
    if not ids:
        return []
    allowed = [state.value for state in only] or sources(State.STOPPING)
    return move(
        f"""UPDATE sandboxes_sandbox s SET state = 'stopping', rev = s.rev + 1, stopping_at = now(),
               end_reason = %s, end_actor = %s, end_message = %s
         WHERE s.id = ANY(%s) AND s.state = ANY(%s) AND {LIVE_ONLY} RETURNING {MOVED}""",
        [reason.value, actor, message, list(ids), allowed],
    )


def kill(kills: Sequence[tuple[int, str, str]]) -> list[Moved]:
    """claimed -> stopping where the sandbox is the team's and usable. Each is (team id, sandbox id, actor)."""
    return move_each(
        f"""WITH asked AS MATERIALIZED (
               SELECT s.id, v.actor FROM unnest(%s::bigint[], %s::text[], %s::text[]) AS v(team, id, actor)
                 JOIN sandboxes_sandbox s ON s.id = v.id AND s.team_id = v.team
                WHERE s.state = 'claimed' AND s.delivered_at IS NOT NULL AND s.end_at > now() AND {LIVE_ONLY}
                ORDER BY s.id FOR UPDATE OF s)
        UPDATE sandboxes_sandbox s SET state = 'stopping', rev = s.rev + 1, stopping_at = now(),
               end_reason = 'killed', end_actor = asked.actor
          FROM asked WHERE s.id = asked.id AND s.state = 'claimed' AND {LIVE_ONLY} RETURNING {MOVED}""",
        kills,
    )


def ask_again(ids: Sequence[str], seconds: float) -> None:
    """A delete was asked for; drain repeats it after so long. No change of state."""
    if ids:
        run(
            f"""UPDATE sandboxes_sandbox s SET delete_at = now() + make_interval(secs => %s)
             WHERE s.id = ANY(%s) AND s.state = 'stopping' AND {LIVE_ONLY} RETURNING s.id""",
            [seconds, list(ids)],
        )


def stop_surplus(group_id: int, count: int) -> list[Moved]:
    """idle -> stopping for up to `count` of a group, newest first; a row that a claim is binding is passed over."""
    return move(
        f"""WITH surplus AS (
               SELECT id FROM sandboxes_sandbox s WHERE s.group_id = %s AND s.state = 'idle' AND {LIVE_ONLY}
                ORDER BY s.idle_at DESC, s.id DESC LIMIT %s FOR UPDATE SKIP LOCKED)
        UPDATE sandboxes_sandbox s SET state = 'stopping', rev = s.rev + 1, stopping_at = now(),
               end_reason = 'surplus', end_actor = 'autoscaler'
          FROM surplus WHERE s.id = surplus.id AND s.state = 'idle' AND {LIVE_ONLY} RETURNING {MOVED}""",
        [group_id, count],
    )


def stop_overdue(limit: int) -> list[Moved]:
    """claimed -> stopping where the deadline has passed."""
    return move(
        f"""WITH overdue AS (
               SELECT id FROM sandboxes_sandbox s WHERE s.state = 'claimed' AND s.end_at <= now() AND {LIVE_ONLY}
                ORDER BY s.end_at LIMIT %s FOR UPDATE SKIP LOCKED)
        UPDATE sandboxes_sandbox s SET state = 'stopping', rev = s.rev + 1, stopping_at = now(), end_actor = 'deadline',
               end_reason = CASE WHEN s.delivered_at IS NULL THEN 'not_delivered' ELSE 'timeout' END
          FROM overdue WHERE s.id = overdue.id AND s.state = 'claimed' AND {LIVE_ONLY} RETURNING {MOVED}""",
        [limit],
    )


def end(pods: Sequence[tuple[str, EndReason, str]]) -> list[Moved]:
    """-> ended: the Pod is gone. (sandbox id, reason, message) count only where nothing was said at stopping."""
    return move_each(
        f"""UPDATE sandboxes_sandbox s SET state = 'ended', rev = s.rev + 1, ended_at = now(),
               end_reason = CASE WHEN s.end_reason = '' THEN v.reason ELSE s.end_reason END,
               end_actor = CASE WHEN s.end_reason = '' THEN 'cluster' ELSE s.end_actor END,
               end_message = CASE WHEN s.end_message = '' THEN v.message ELSE s.end_message END
          FROM unnest(%s::text[], %s::text[], %s::text[]) AS v(id, reason, message)
         WHERE s.id = v.id AND s.state <> 'ended' AND {LIVE_ONLY} RETURNING {MOVED}""",
        [(id_, reason.value, message) for id_, reason, message in pods],
    )


def change_image(sandbox_id: str, claim_id: int, image: str, seconds: float) -> tuple[Moved, str] | None:
    """A bound sandbox is to run `image`, and may take so many seconds until it is delivered; with what it ran before.

    Its state stays claimed. None when it is no longer this claim's, or delivered.
    """
    rows = run(
        f"""WITH before AS MATERIALIZED (
               SELECT s.id, s.image FROM sandboxes_sandbox s WHERE s.id = %s AND s.claim_id = %s
                  AND s.state = 'claimed' AND s.delivered_at IS NULL AND {LIVE_ONLY} FOR UPDATE)
        UPDATE sandboxes_sandbox s SET rev = s.rev + 1, image = %s, end_at = now() + make_interval(secs => %s)
          FROM before WHERE s.id = before.id AND {LIVE_ONLY} RETURNING {MOVED}, before.image""",
        [sandbox_id, claim_id, image, seconds],
    )
    if not rows:
        return None
    sandbox = Moved(*rows[0][:-1])
    announce([sandbox])
    return sandbox, rows[0][-1]


def set_deadline(sandbox_id: str, end_at: datetime, *, only_extend: bool) -> Moved | None:
    """A claimed sandbox's deadline; with `only_extend` it never moves nearer (E2B's connect)."""
    moved = move(
        f"""UPDATE sandboxes_sandbox s SET rev = s.rev + 1,
               end_at = CASE WHEN %s THEN greatest(s.end_at, %s) ELSE %s END
         WHERE s.id = %s AND s.state = 'claimed' AND s.delivered_at IS NOT NULL AND s.end_at > now() AND {LIVE_ONLY}
        RETURNING {MOVED}""",
        [only_extend, end_at, end_at, sandbox_id],
    )
    if not moved:
        return None
    transaction.on_commit(lambda: live.publish_deadline(sandbox_id, moved[0].end_at or end_at))
    return moved[0]


def bind_statement(group_id: int, limit: int, arm_limit: float) -> Statement:
    """Bind the first k queued claims to k idle sandboxes; for `bound`. The transaction holds the group's lock.

    No more claims are locked than there are idle sandboxes: with thousands waiting for none this writes nothing.
    """
    return (
        f"""WITH waiting AS (
               SELECT count(*) FROM (SELECT 1 FROM sandboxes_claim WHERE group_id = %(group)s AND state = 'queued'
                                        AND deadline_at > now() LIMIT %(limit)s) q),
        idle AS (
               SELECT count(*) FROM (SELECT 1 FROM sandboxes_sandbox s WHERE s.group_id = %(group)s AND s.state = 'idle'
                                        AND s.finding = '' AND {LIVE_ONLY} LIMIT (SELECT count FROM waiting)) i),
        queued AS MATERIALIZED (
               SELECT id, edge, metadata, row_number() OVER (ORDER BY id) AS place FROM (
                 SELECT id, edge, metadata FROM sandboxes_claim WHERE group_id = %(group)s AND state = 'queued'
                    AND deadline_at > now() ORDER BY id LIMIT (SELECT count FROM idle) FOR UPDATE) q),
        free AS MATERIALIZED (
               SELECT id, row_number() OVER (ORDER BY idle_at, id) AS place FROM (
                 SELECT s.id, s.idle_at FROM sandboxes_sandbox s WHERE s.group_id = %(group)s AND s.state = 'idle'
                    AND s.finding = '' AND {LIVE_ONLY}
                  ORDER BY s.idle_at, s.id LIMIT (SELECT count(*) FROM queued) FOR UPDATE SKIP LOCKED) i),
        pairs AS (SELECT q.id AS claim, q.edge, q.metadata, f.id AS sandbox FROM queued q JOIN free f USING (place)),
        claims AS (UPDATE sandboxes_claim c
                      SET state = 'bound', bound_at = clock_timestamp(), sandbox_id = pairs.sandbox
                     FROM pairs WHERE c.id = pairs.claim)
        UPDATE sandboxes_sandbox s SET state = 'claimed', rev = s.rev + 1, claimed_at = now(), claim_id = pairs.claim,
               end_at = now() + make_interval(secs => %(arm)s), metadata = pairs.metadata
          FROM pairs WHERE s.id = pairs.sandbox AND {LIVE_ONLY} RETURNING {MOVED}, pairs.edge""",
        {"group": group_id, "limit": limit, "arm": arm_limit},
    )


def bound(rows: Iterable[tuple[Any, ...]]) -> list[tuple[Moved, str]]:
    """What `bind_statement` returned, announced: (sandbox, the claim's edge)."""
    pairs = [(Moved(*row[:-1]), row[-1]) for row in rows]
    announce([sandbox for sandbox, _ in pairs])
    return pairs


def columns(rows: Sequence[tuple[Any, ...]]) -> list[list[Any]]:
    """Rows as the arrays that unnest takes."""
    return [list(column) for column in zip(*rows, strict=True)]
