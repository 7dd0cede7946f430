"""What is true of a team now: one statement, read by the pages and by the live hub, so that both say the same.

Figures are counts of sandboxes unless said otherwise; waits are seconds.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from django.db import connection

from pools.scaling import Binding
from sandboxes.lifecycle import State

WAITS_WINDOW = "15 minutes"

NOW = """
SELECT json_build_object(
  'counts', (SELECT json_agg(c) FROM (
      SELECT pool_id, state, finding, count(*) AS n FROM sandboxes_sandbox
       WHERE team_id = %(team)s AND shelf = '9999-12-31 00:00:00+00' AND state <> 'ended' GROUP BY 1, 2, 3) c),
  'queues', (SELECT json_agg(q) FROM (
      SELECT group_id, count(*) AS n, min(created_at) AS oldest FROM sandboxes_claim
       WHERE state = 'queued' AND group_id IN
             (SELECT g.id FROM pools_scalinggroup g JOIN pools_env e ON e.id = g.env_id WHERE e.team_id = %(team)s)
       GROUP BY 1) q),
  'pools', (SELECT json_agg(p ORDER BY p.name, p.cluster) FROM (
      SELECT p.id, p.name, c.name AS cluster, g.id AS group_id, t.cpu_millis, t.memory_mib, g.min_replicas AS floor,
             g.max_replicas AS ceiling, g.min_idle, g.last_pass_at AS passed, g.failure, c.synced_at AS synced, d.*
        FROM pools_env e JOIN pools_scalinggroup g ON g.env_id = e.id JOIN pools_pool p ON p.group_id = g.id
        JOIN pools_cluster c ON c.id = p.cluster_id JOIN pools_instancetype t ON t.id = g.instance_type_id
        LEFT JOIN LATERAL (SELECT id AS decision, at, want, binding, sentence FROM sandboxes_decision
                            WHERE group_id = g.id ORDER BY at DESC LIMIT 1) d ON true
       WHERE e.team_id = %(team)s) p),
  'quota', (SELECT max_sandboxes FROM pools_quota WHERE team_id = %(team)s),
  'waits', CASE WHEN %(waits)s THEN (SELECT json_agg(w) FROM (
      SELECT group_id, count(*) AS n,
             percentile_cont(ARRAY[0.5, 0.99]) WITHIN GROUP (ORDER BY extract(epoch FROM bound_at - created_at)) AS p
        FROM sandboxes_claim WHERE team_id = %(team)s AND bound_at > now() - %(window)s::interval
       GROUP BY GROUPING SETS ((group_id), ())) w) END)
"""


@dataclass(frozen=True, slots=True)
class Waits:
    """How long claims of the last 15 minutes waited to be bound."""

    count: int = 0
    p50: float | None = None
    p99: float | None = None


@dataclass
class Counts:
    """Sandboxes by what they are to a claim; a stuck one is nothing but stuck."""

    claimed: int = 0
    idle: int = 0
    starting: int = 0
    stuck: int = 0
    stopping: int = 0
    causes: Counter[str] = field(default_factory=Counter)

    @property
    def live(self) -> int:
        return self.claimed + self.idle + self.starting + self.stuck + self.stopping

    def add(self, state: str, finding: str, count: int) -> None:
        if finding:
            self.causes[finding] += count
            self.stuck += count
            return
        name = "starting" if state == State.PENDING else state
        setattr(self, name, getattr(self, name) + count)

    def __add__(self, other: Counts) -> Counts:
        names = ("claimed", "idle", "starting", "stuck", "stopping")
        sums = {name: getattr(self, name) + getattr(other, name) for name in names}
        return Counts(**sums, causes=self.causes + other.causes)


@dataclass
class PoolNow:
    """A pool, its counts, its group's bounds and queue, and the group's newest decision."""

    id: int
    name: str
    cluster: str
    group_id: int
    cpu_millis: int
    memory_mib: int
    floor: int
    ceiling: int
    min_idle: int
    passed: str | None
    failure: str
    synced: str | None
    decision: int | None
    at: str | None
    want: int | None
    binding: str | None
    sentence: str | None
    counts: Counts = field(default_factory=Counts)
    queued: int = 0
    oldest: datetime | None = None

    @property
    def asked(self) -> int:
        """Decided but not yet written as rows."""
        return max(0, (self.want or 0) - self.counts.live)

    @property
    def bound(self) -> Binding:
        return Binding(self.binding) if self.binding in list(Binding) else Binding.NONE


type GroupWaits = dict[int | None, Waits]
"""Waits by group; those of the whole team under None."""


@dataclass
class Truth:
    pools: list[PoolNow]
    quota: int | None
    group_waits: GroupWaits

    @cached_property
    def counts(self) -> Counts:
        return sum((pool.counts for pool in self.pools), Counts())

    @property
    def waits(self) -> Waits:
        return self.group_waits.get(None, Waits())

    @property
    def quota_left(self) -> int | None:
        return None if self.quota is None else max(0, self.quota - self.counts.live)

    @cached_property
    def queues(self) -> dict[int, int]:
        """Waiting claims by group; the pools of one group share its queue."""
        return {pool.group_id: pool.queued for pool in self.pools}

    @property
    def queued(self) -> int:
        return sum(self.queues.values())

    @property
    def oldest(self) -> datetime | None:
        """When the claim that waits longest arrived."""
        return min((pool.oldest for pool in self.pools if pool.oldest), default=None)

    def pool(self, pool_id: int) -> PoolNow:
        return next(pool for pool in self.pools if pool.id == pool_id)

    def causes(self) -> list[tuple[str, int, list[PoolNow]]]:
        """Findings, most frequent first, with the pools they are in."""
        return [
            (cause, count, [pool for pool in self.pools if pool.counts.causes[cause]])
            for cause, count in self.counts.causes.most_common()
        ]


def read(team_id: int, waits: GroupWaits | None = None) -> Truth:
    """One query. With `waits` given, those are believed and the claims of the last 15 minutes are not read."""
    with connection.cursor() as cursor:
        cursor.execute(NOW, {"team": team_id, "waits": waits is None, "window": WAITS_WINDOW})
        (answer,) = cursor.fetchone()
    return _truth(answer if isinstance(answer, dict) else json.loads(answer), waits)


def _truth(answer: dict[str, Any], waits: GroupWaits | None) -> Truth:
    pools = [PoolNow(**row) for row in answer["pools"] or []]
    by_id = {pool.id: pool for pool in pools}
    for row in answer["counts"] or []:
        by_id[row["pool_id"]].counts.add(row["state"], row["finding"], row["n"])
    queues = {row["group_id"]: row for row in answer["queues"] or []}
    for pool in pools:
        if queue := queues.get(pool.group_id):
            pool.queued, pool.oldest = queue["n"], datetime.fromisoformat(queue["oldest"]).astimezone(UTC)
    if waits is None:
        waits = {row["group_id"]: Waits(row["n"], *(row["p"] or ())) for row in answer["waits"] or []}
    return Truth(pools, answer["quota"], waits)
