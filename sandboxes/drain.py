"""Carry out what the rows say: post the Pods of pending rows, delete the Pods of stopping ones.

One leased task a cluster. Creates go under the row's own name, so a repeat is idempotent and a stale view cannot
create twice; they are paced by the cluster's token bucket and dealt out fairly across groups. Killed at any step, the
next run finds the same rows: a Pod that was posted but not acknowledged answers 409 and is acknowledged then.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import structlog
from django.conf import settings
from django.db import transaction

from pools.models import Cluster

from . import leases, transitions, wakes
from .bucket import Bucket
from .cluster import client
from .cluster.errors import AlreadyExists, ClusterError, Gone, OverQuota, PreconditionFailed, Rejected, Throttled
from .cluster.manifest import PodSpec, manifest
from .lifecycle import EndReason
from .models import pod_name
from .tokens import bootstrap_digest

log = structlog.get_logger(__name__)

BATCH = 64
WORKERS = 16
"""Calls at once: each waits some ten to a hundred milliseconds for a busy API server, and takes two of ours."""
BUDGET = 12.0
"""Seconds a run may take, below the soft time limit."""
LINGER = 0.5
"""A run stays this long after its last work, so that a burst needs no further message."""
PAUSE = 0.15
"""Seconds between two batches, so that single rows gather to some; none after a full one, for more will be waiting."""
DELETE_AGAIN = 10.0
"""Seconds until an accepted delete that has not ended its Pod is repeated."""
QUOTA_AGAIN = 10.0
REJECTED_AGAIN = 30.0
"""The same create would fail again; the row waits, holds growth, and the start timeout ends it."""
DUE_IN = 1.0

type Attempt = tuple[str, ClusterError | str]
"""A sandbox id and the Pod's uid, or why not."""


@dataclass(frozen=True, slots=True)
class Calls:
    """Made by these threads, and none begun after `until` (monotonic): a slow API server must not carry a run beyond
    its task's time limit, which would lose what it answered."""

    threads: ThreadPoolExecutor
    until: float


@dataclass(slots=True)
class Sorted:
    """The outcome of a batch of creates, by what to do with the rows."""

    made: list[tuple[str, str]] = field(default_factory=list)
    later: list[tuple[str, str, str, float]] = field(default_factory=list)
    throttled: bool = False


def drain(cluster_id: int) -> int:
    """Work until nothing is left, or BUDGET is spent; the number of Pods created and deletes asked for."""
    with leases.leased(Cluster, cluster_id, due_in=DUE_IN) as held:
        if held is None:
            return 0
        cluster = Cluster.objects.get(pk=cluster_id)
        api = client.connect(cluster.kubeconfig, cluster.namespace)
        started = worked = time.monotonic()
        creates, deletes = buckets(cluster, started)
        done = 0
        with ThreadPoolExecutor(WORKERS) as threads:
            calls = Calls(threads, until=started + BUDGET)

            def step() -> int:
                steps = create_some(cluster, api, creates, calls) + delete_some(cluster, api, deletes, calls)
                if steps:
                    save(held, creates)
                return steps

            with wakes.at_work("sandboxes.drain_cluster", cluster_id) as say:
                while (now := time.monotonic()) - started < BUDGET and now - worked < LINGER:
                    steps = step()
                    done += steps
                    worked = time.monotonic() if steps else worked
                    say()
                    if steps < BATCH:
                        time.sleep(PAUSE)
            return done + step()


def buckets(cluster: Cluster, now: float) -> tuple[Bucket, Bucket]:
    """The create bucket continues where the last run left it; deletes may go twice as fast."""
    rate = min(cluster.current_rate or cluster.create_rate, cluster.create_rate)
    creates = Bucket(cluster.create_rate, rate, cluster.tokens, now)
    creates.refill(now + max(0.0, time.time() - cluster.tokens_at.timestamp()))
    creates.at = now
    return creates, Bucket(2 * cluster.create_rate, 2 * rate, rate, now)


def save(held: leases.Held, bucket: Bucket) -> None:
    """Keep the bucket on the cluster's row, unless somebody else has taken over."""
    with transaction.atomic():
        leases.hold(held)
        transitions.run(
            "UPDATE pools_cluster SET tokens = %s, tokens_at = now(), current_rate = %s WHERE id = %s RETURNING id",
            [bucket.tokens, bucket.rate, held.pk],
        )


def create_some(cluster: Cluster, api: client.ClusterClient, bucket: Bucket, calls: Calls) -> int:
    """One batch of creates; 0 when nothing waits or nothing may go now."""
    waiting = pending(cluster.pk)
    granted = bucket.take(len(waiting), time.monotonic())
    attempts = attempt(calls, lambda pod: api.create(manifest(pod)), waiting[:granted])
    outcome = sort_creates(attempts)
    if outcome.throttled:
        bucket.halve()
    with transaction.atomic():
        transitions.acknowledge(outcome.made)
        transitions.note(transitions.refuse(outcome.later), "create_refused")
    return len(attempts)


def pending(cluster_id: int) -> list[PodSpec]:
    """The next Pods to create, one group after the other so that none waits behind another's burst."""
    rows = transitions.run(
        f"""SELECT s.id, t.name, e.name, p.name, s.image, i.cpu_millis, i.memory_mib, i.disk_mib,
               coalesce(i.cpu_request_millis, i.cpu_millis), coalesce(i.memory_request_mib, i.memory_mib),
               p.node_selector, e.pod_template
          FROM (SELECT s.*, row_number() OVER (PARTITION BY s.group_id ORDER BY s.created_at, s.id) AS turn
                  FROM sandboxes_sandbox s
                 WHERE s.cluster_id = %s AND s.state = 'pending' AND coalesce(s.retry_at, now()) <= now()
                   AND {transitions.LIVE_ONLY}) s
          JOIN pools_pool p ON p.id = s.pool_id JOIN pools_scalinggroup g ON g.id = s.group_id
          JOIN pools_env e ON e.id = g.env_id JOIN pools_team t ON t.id = s.team_id
          JOIN pools_instancetype i ON i.id = g.instance_type_id
         ORDER BY s.turn, s.group_id LIMIT %s""",
        [cluster_id, BATCH],
    )
    return [as_spec(*row) for row in rows]


def as_spec(sandbox_id: str, team: str, env: str, pool: str, image: str, *shape_and_documents: Any) -> PodSpec:
    """`documents`: the pool's node selector and the env's template, as PostgreSQL writes JSON."""
    *shape, node_selector, template = shape_and_documents
    cpu, memory, disk, cpu_request, memory_request = shape
    return PodSpec(
        name=pod_name(sandbox_id),
        sandbox_id=sandbox_id,
        team=team,
        env=env,
        pool=pool,
        image=image,
        cpu_millis=cpu,
        memory_mib=memory,
        disk_mib=disk,
        cpu_request_millis=cpu_request,
        memory_request_mib=memory_request,
        bootstrap_digest=bootstrap_digest(sandbox_id),
        command=settings.ENVD_COMMAND,
        envd_port=settings.ENVD_PORT,
        envd_image=settings.ENVD_IMAGE,
        envd_install=settings.ENVD_INSTALL_COMMAND,
        runtime_class=settings.RUNTIME_CLASS,
        node_selector=json.loads(node_selector),
        template=json.loads(template),
    )


def attempt[T: PodSpec | tuple[str, str]](
    calls: Calls, call: Callable[[T], str | None], items: Sequence[T]
) -> list[Attempt]:
    """Call for each item side by side; what the cluster said of each that was asked in time."""

    def one(item: T) -> Attempt | None:
        if time.monotonic() > calls.until:
            return None
        sandbox_id = item.sandbox_id if isinstance(item, PodSpec) else item[0]
        try:
            return sandbox_id, call(item) or ""
        except ClusterError as error:
            return sandbox_id, error

    return [answer for answer in calls.threads.map(one, items) if answer]


def sort_creates(attempts: Sequence[Attempt]) -> Sorted:
    outcome = Sorted()
    for sandbox_id, answer in attempts:
        if isinstance(answer, str):
            outcome.made.append((sandbox_id, answer))
        elif isinstance(answer, AlreadyExists):
            outcome.made.append((sandbox_id, ""))
        elif isinstance(answer, Rejected | Gone):
            outcome.later.append((sandbox_id, "rejected", answer.message, REJECTED_AGAIN))
        elif isinstance(answer, OverQuota):
            outcome.later.append((sandbox_id, "cluster_quota", answer.message, QUOTA_AGAIN))
        else:
            outcome.throttled |= isinstance(answer, Throttled)
            wait = getattr(answer, "retry_after", 0.0) or 1.0
            outcome.later.append((sandbox_id, "cluster_api", answer.message, wait))
    if outcome.later:
        log.warning("creates refused", count=len(outcome.later), why=outcome.later[0][2])
    return outcome


def delete_some(cluster: Cluster, api: client.ClusterClient, bucket: Bucket, calls: Calls) -> int:
    """One batch of deletes. An accepted delete stays stopping until the watch says that the Pod is gone."""
    rows = transitions.run(
        f"""SELECT s.id, s.pod_uid FROM sandboxes_sandbox s
             WHERE s.cluster_id = %s AND s.state = 'stopping' AND {transitions.LIVE_ONLY}
               AND (s.delete_at IS NULL OR s.delete_at <= now())
             ORDER BY s.stopping_at LIMIT %s""",
        [cluster.pk, BATCH],
    )
    granted = bucket.take(len(rows), time.monotonic())
    attempts = attempt(calls, lambda row: api.delete(pod_name(row[0]), row[1]), rows[:granted])
    gone = [id_ for id_, answer in attempts if isinstance(answer, Gone | PreconditionFailed)]
    if any(isinstance(answer, Throttled) for _, answer in attempts):
        bucket.halve()
    with transaction.atomic():
        transitions.end([(id_, EndReason.POD_GONE, "") for id_ in gone])
        transitions.ask_again([id_ for id_, _ in attempts if id_ not in gone], DELETE_AGAIN)
    return len(attempts)
