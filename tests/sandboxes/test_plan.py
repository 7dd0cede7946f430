from __future__ import annotations

import threading
from typing import Any

import pytest
from django.db import connection

from pools.models import ScalingGroup
from sandboxes import leases, plan
from sandboxes.models import LIVE_SHELF, Decision, Sandbox
from tests.factories import ago, make_claim, make_cluster, make_env, make_group, make_pool, make_sandbox, make_team
from tests.race import side_by_side
from tests.stack import until

pytestmark = pytest.mark.usefixtures("transactional_db")


def states(group: ScalingGroup) -> list[str]:
    return sorted(Sandbox.objects.filter(group=group).values_list("state", flat=True))


def test_a_new_group_gets_its_idle_ones() -> None:
    group = make_pool(make_group(min_idle=3)).group
    plan.plan(group.pk)
    assert states(group) == ["pending"] * 3
    group.refresh_from_db()
    assert group.last_pass_at is not None
    assert group.lease_until is None


def test_planning_again_before_any_pod_exists_adds_nothing() -> None:
    group = make_pool(make_group(min_idle=3)).group
    for _ in range(5):
        plan.plan(group.pk)
    assert states(group) == ["pending"] * 3


def test_waiting_claims_are_followed() -> None:
    group = make_pool(make_group(min_idle=1)).group
    for _ in range(4):
        make_claim(group)
    plan.plan(group.pk)
    assert states(group) == ["pending"] * 5


def test_each_change_is_stored_with_what_bound_it() -> None:
    group = make_pool(make_group(make_team(quota=2), min_idle=5)).group
    plan.plan(group.pk)
    first, last = Decision.objects.order_by("pk").first(), Decision.objects.order_by("pk").last()
    assert first is not None
    assert last is not None
    assert (first.change, first.binding, first.inputs["quota_free"]) == (2, "quota", 2)
    assert (last.change, last.binding) == (0, "quota")
    assert "ask for more quota" in last.sentence


def test_a_decision_that_says_nothing_new_is_stored_once() -> None:
    group = make_pool(make_group()).group
    for _ in range(3):
        plan.plan(group.pk)
    assert Decision.objects.count() == 1


def test_surplus_idle_ends_only_after_a_quiet_minute() -> None:
    pool = make_pool(make_group(min_idle=1))
    for _ in range(3):
        make_sandbox(pool, "idle")
    claim = make_claim(pool.group, "delivered", age=5)
    plan.plan(pool.group_id)
    assert states(pool.group) == ["idle"] * 3
    claim.delete()
    plan.plan(pool.group_id)
    assert states(pool.group) == ["idle", "stopping", "stopping"]


def test_starts_that_fail_stop_growth_for_a_while_instead_of_being_repeated_for_ever() -> None:
    pool = make_pool(make_group(min_idle=8))
    for _ in range(3):
        make_sandbox(
            pool, "ended", idle_at=None, ended_at=ago(2), end_reason="failed", end_message="exit 127", shelf=LIVE_SHELF
        )
    plan.plan(pool.group_id)
    assert states(pool.group) == ["ended"] * 3
    decision = Decision.objects.get()
    assert (decision.binding, decision.change) == ("held", 0)
    assert "exit 127" in decision.sentence
    Sandbox.objects.update(ended_at=ago(60))
    plan.plan(pool.group_id)
    assert states(pool.group) == ["ended"] * 3 + ["pending"] * 8


def test_a_cordoned_pool_or_cluster_does_not_grow() -> None:
    pool = make_pool(make_group(min_idle=2), cordoned=True)
    plan.plan(pool.group_id)
    assert states(pool.group) == []
    other = make_pool(make_group(min_idle=2), make_cluster(cordoned=True))
    plan.plan(other.group_id)
    assert states(other.group) == []


def test_a_team_without_quota_gets_nothing() -> None:
    group = make_pool(make_group(make_team(quota=None), min_idle=2)).group
    plan.plan(group.pk)
    assert states(group) == []


def test_two_groups_cannot_overshoot_the_quota_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Done when 5: a barrier between the read and the insert of both."""
    env = make_env(make_team(quota=10))
    groups = [make_pool(make_group(env=env, name=name, min_idle=8)).group for name in ("a", "b")]
    barrier = threading.Barrier(2)
    act = plan.act

    def act_together(*args: Any) -> int:
        barrier.wait(10)
        return act(*args)

    monkeypatch.setattr(plan, "act", act_together)
    monkeypatch.setattr(plan, "BUDGET", 0)
    side_by_side(*(lambda group=group: plan.plan(group.pk) for group in groups))
    assert Sandbox.objects.live().count() == 10


def test_a_worker_that_lost_its_lease_adds_nothing() -> None:
    group = make_pool(make_group(min_idle=3)).group
    held = leases.take(ScalingGroup, group.pk)
    assert held is not None
    ScalingGroup.objects.filter(pk=group.pk).update(lease_fence=held.fence + 1)
    with pytest.raises(leases.LeaseLost):
        plan.step(held)
    assert states(group) == []


def test_a_held_lease_turns_others_away_and_marks_the_group_due() -> None:
    group = make_pool(make_group(min_idle=3)).group
    held = leases.take(ScalingGroup, group.pk)
    assert held is not None
    due = ScalingGroup.objects.get(pk=group.pk).due_at
    plan.plan(group.pk)
    assert states(group) == []
    assert ScalingGroup.objects.get(pk=group.pk).due_at > due
    leases.release(held, 100)
    group.refresh_from_db()
    assert (group.due_at - held.since).total_seconds() < 50, "asked for meanwhile, so due at once"


def test_the_lease_of_a_killed_worker_is_free_at_once() -> None:
    group = make_pool(make_group(min_idle=1)).group

    def die_with_the_lease() -> None:
        assert leases.take(ScalingGroup, group.pk)
        connection.close()

    side_by_side(die_with_the_lease)
    assert ScalingGroup.objects.get(pk=group.pk).lease_until is not None
    until(lambda: plan.plan(group.pk) or states(group) == ["pending"], 10)


def test_a_failed_pass_says_why_and_lets_go() -> None:
    group = make_group()

    def fail() -> None:
        with leases.leased(ScalingGroup, group.pk, due_in=1):
            raise RuntimeError("disk full")

    with pytest.raises(RuntimeError):
        fail()
    group.refresh_from_db()
    assert (group.failures, group.failure, group.lease_until) == (1, "RuntimeError: disk full", None)
