"""Observe, decide, and write rows: one scaling group's step. Never talks to a cluster; `drain` acts on the rows.

Inserts hold the team's quota row FOR UPDATE and recount inside, so that two groups cannot overshoot the quota
together; the group's fence is checked in the same transaction, so that a worker which lost its lease adds nothing.
"""

from __future__ import annotations

import time

import structlog
from django.db import transaction

from pools import scaling
from pools.models import Pool, Quota, ScalingGroup

from . import leases, times, transitions, wakes
from .models import Decision, Sandbox
from .tokens import new_sandbox_id

log = structlog.get_logger(__name__)

BUDGET = 5.0
"""Seconds a run keeps following a burst."""
PAUSE = 0.25
STORE_EVERY = 300.0
"""A decision that says the same as the last one is stored again only after this many seconds."""
REWORD_EVERY = 5.0
"""One that changes nothing and is bound by the same, but says it with other numbers, at most this often."""


def plan(group_id: int) -> None:
    """Step until nothing changes. A burst of claims is followed here, because wakes are deduplicated."""
    with leases.leased(ScalingGroup, group_id, due_in=times.RECONCILE_EVERY) as held:
        if held is None:
            return
        with wakes.at_work("sandboxes.plan_group", group_id) as say:
            deadline = time.monotonic() + BUDGET
            say()
            while step(held) and time.monotonic() < deadline:
                time.sleep(PAUSE)
                say()
        step(held)


def step(held: leases.Held) -> int:
    """One observe, decide, act; the number of sandboxes added (or, negative, ended)."""
    group = ScalingGroup.objects.select_related("env").get(pk=held.pk)
    policy = policy_of(group)
    seen = observe(group)
    decision = scaling.decide(policy, seen)
    with transaction.atomic():
        leases.hold(held)
        change = act(group, decision)
        store(group, policy, seen, decision)
    return change


def policy_of(group: ScalingGroup) -> scaling.Policy:
    return scaling.Policy(
        min_replicas=group.min_replicas,
        max_replicas=group.max_replicas,
        min_idle=group.min_idle,
        max_starting=group.max_starting,
        quiet_window=times.QUIET_WINDOW,
    )


def observe(group: ScalingGroup) -> scaling.Observed:
    """Everything `decide` looks at, from one statement."""
    rows = transitions.run(
        f"""WITH live AS (
               SELECT count(*) FILTER (WHERE state = 'claimed') AS claimed,
                      count(*) FILTER (WHERE state = 'idle' AND finding = '') AS idle,
                      count(*) FILTER (WHERE state IN ('pending', 'starting') AND finding = '') AS starting,
                      count(*) FILTER (WHERE state IN ('pending', 'starting', 'idle') AND finding <> '') AS held,
                      count(*) FILTER (WHERE state = 'stopping') AS stopping,
                      coalesce(max(finding_text) FILTER (WHERE state IN ('pending', 'starting', 'idle')), '') AS cause
                 FROM sandboxes_sandbox s
                WHERE s.group_id = %(group)s AND s.state <> 'ended' AND {transitions.LIVE_ONLY}),
        failed AS (
               SELECT count(*) AS failed, coalesce(max(end_message), '') AS why FROM sandboxes_sandbox s
                WHERE s.group_id = %(group)s AND s.state = 'ended' AND s.idle_at IS NULL AND {transitions.LIVE_ONLY}
                  AND s.end_reason IN ('failed', 'evicted', 'start_timeout', 'pod_gone')
                  AND s.ended_at > now() - make_interval(secs => %(window)s))
        SELECT claimed, (SELECT count(*) FROM sandboxes_claim WHERE group_id = %(group)s AND state = 'queued'),
               idle, starting, held, stopping, {QUOTA_FREE},
               coalesce(extract(epoch FROM now() - (SELECT created_at FROM sandboxes_claim
                         WHERE group_id = %(group)s ORDER BY created_at DESC LIMIT 1)), 1e9)::float, failed,
               CASE WHEN cause = '' THEN why ELSE cause END
          FROM live, failed""",
        {"group": group.pk, "team": group.env.team_id, "window": times.FAILED_WINDOW},
    )
    return scaling.Observed(*rows[0])


QUOTA_FREE = f"""coalesce((SELECT max_sandboxes FROM pools_quota WHERE team_id = %(team)s), 0)
    - (SELECT count(*) FROM sandboxes_sandbox s
        WHERE s.team_id = %(team)s AND s.state <> 'ended' AND {transitions.LIVE_ONLY})"""


def act(group: ScalingGroup, decision: scaling.Decision) -> int:
    """Write the rows; fewer than decided when the quota, counted again under its lock, leaves less."""
    if decision.change < 0:
        stopped = transitions.stop_surplus(group.pk, -decision.change)
        for cluster_id in {sandbox.cluster_id for sandbox in stopped}:
            wakes.wake_cluster(cluster_id)
        return -len(stopped)
    pool = next_pool(group) if decision.change > 0 else None
    if pool is None:
        return 0
    count = min(decision.change, free_under_lock(group.env.team_id))
    if count <= 0:
        return 0
    transitions.insert_pending(pool.pk, [new_sandbox_id() for _ in range(count)])
    wakes.wake_cluster(pool.cluster_id)
    return count


def next_pool(group: ScalingGroup) -> Pool | None:
    """The pool that grows next: the first by priority that is not cordoned."""
    open_pools = group.pools.filter(cordoned=False, cluster__cordoned=False)
    return open_pools.order_by("priority", "pk").first()


def free_under_lock(team_id: int) -> int:
    """What the quota leaves, with its row locked until the transaction ends."""
    quota = Quota.objects.select_for_update().filter(team_id=team_id).first()
    if quota is None:
        return 0
    return quota.max_sandboxes - Sandbox.objects.live().filter(team_id=team_id).count()


def store(group: ScalingGroup, policy: scaling.Policy, seen: scaling.Observed, decision: scaling.Decision) -> None:
    """Keep the decision if it changes something, says something new, or the last one is old."""
    if decision.change == 0 and not is_news(group.pk, decision):
        return
    Decision.objects.create(
        group=group,
        generation=group.generation,
        want=decision.want,
        change=decision.change,
        binding=decision.binding.value,
        sentence=decision.sentence,
        inputs=scaling.inputs(policy, seen),
    )


def is_news(group_id: int, decision: scaling.Decision) -> bool:
    rows = transitions.run(
        """SELECT binding, change, sentence, extract(epoch FROM now() - at)::float FROM sandboxes_decision
            WHERE group_id = %s ORDER BY at DESC LIMIT 1""",
        [group_id],
    )
    if not rows:
        return True
    binding, change, sentence, age = rows[0]
    if change or binding != decision.binding.value:
        return True
    return bool(age > (REWORD_EVERY if sentence != decision.sentence else STORE_EVERY))
