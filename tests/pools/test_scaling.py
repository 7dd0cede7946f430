from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pools.scaling import Binding, Decision, Observed, Policy, decide, inputs, starting_limit


def policy(**changed: float) -> Policy:
    values = {"min_replicas": 0, "max_replicas": 64, "min_idle": 8, "max_starting": 64, "quiet_window": 60} | changed
    return Policy(**values)  # type: ignore[arg-type]


def seen(**changed: float) -> Observed:
    values = {"claimed": 0, "queued": 0, "idle": 0, "starting": 0, "held": 0, "stopping": 0, "quota_free": 1000}
    return Observed(**(values | {"quiet_for": 1e9} | changed))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("bounds", "now", "change", "binding"),
    [
        ({}, {}, 8, Binding.DEMAND),
        ({}, {"idle": 8}, 0, Binding.NONE),
        ({"min_replicas": 20}, {"idle": 8}, 12, Binding.FLOOR),
        ({}, {"queued": 10, "idle": 0}, 18, Binding.DEMAND),
        ({}, {"claimed": 60, "queued": 30}, 4, Binding.DEMAND),
        ({}, {"claimed": 60, "queued": 30, "stopping": 4}, 0, Binding.CEILING),
        ({}, {"claimed": 64, "queued": 30}, 0, Binding.CEILING),
        ({}, {"queued": 10, "quota_free": 3}, 3, Binding.QUOTA),
        ({}, {"queued": 10, "quota_free": -2}, 0, Binding.QUOTA),
        ({"max_starting": 5}, {"queued": 10, "starting": 4}, 1, Binding.STARTING),
        ({"max_starting": 5, "max_replicas": 900}, {"queued": 400, "starting": 4}, 96, Binding.STARTING),
        ({}, {"queued": 10, "held": 3, "cause": "image missing"}, 0, Binding.HELD),
        ({}, {"queued": 10, "held": 2}, 18, Binding.DEMAND),
        ({}, {"queued": 10, "held": 1, "failed": 2}, 0, Binding.HELD),
        ({}, {"idle": 20}, -12, Binding.NONE),
        ({}, {"idle": 20, "quiet_for": 15}, 0, Binding.QUIET),
        ({"min_replicas": 18}, {"idle": 20}, -2, Binding.NONE),
        ({}, {"idle": 4, "starting": 10}, -4, Binding.NONE),
        ({}, {"starting": 10}, 0, Binding.NONE),
        ({}, {"claimed": 70, "idle": 0}, 0, Binding.CEILING),
    ],
)
def test_a_step_is_bound_by_the_tightest_constraint(
    bounds: dict[str, float], now: dict[str, float], change: int, binding: Binding
) -> None:
    decision = decide(policy(**bounds), seen(**now))
    assert (decision.change, decision.binding) == (change, binding)
    assert decision.sentence.endswith(".")


def test_the_sentence_names_the_limit_and_the_way_out() -> None:
    assert "raise it to the run's peak" in decide(policy(), seen(claimed=64, queued=3)).sentence
    assert "ask for more quota" in decide(policy(), seen(queued=9, quota_free=0)).sentence
    assert "image missing" in decide(policy(), seen(held=3, cause="image missing")).sentence
    assert decide(policy(), seen(idle=8)).sentence == "At target. 8 claimable, ceiling 64, quota leaves 1000."


def test_only_changes_and_obstacles_matter() -> None:
    assert not decide(policy(), seen(idle=8)).matters
    assert not decide(policy(), seen(idle=20, quiet_for=1)).matters
    assert decide(policy(), seen()).matters
    assert decide(policy(), seen(claimed=64, queued=3)).matters


def test_a_decision_is_stored_with_what_it_looked_at() -> None:
    stored = inputs(policy(), seen(queued=3))
    assert stored["queued"] == 3
    assert stored["max_replicas"] == 64


counts = st.integers(0, 300)
policies = st.builds(
    lambda floor, span, idle, starting: Policy(floor, floor + span, min(idle, floor + span), starting, 60.0),
    counts,
    counts,
    counts,
    st.integers(1, 100),
)
situations = st.builds(
    Observed,
    counts,
    counts,
    counts,
    counts,
    st.integers(0, 5),
    counts,
    st.integers(-50, 500),
    st.sampled_from([0.0, 99.0]),
)


def after(now: Observed, decision: Decision) -> Observed:
    """The group once the decision's rows are written."""
    up, down = max(decision.change, 0), max(-decision.change, 0)
    values = {**{name: getattr(now, name) for name in Observed.__dataclass_fields__}}
    values |= {"starting": now.starting + up, "idle": now.idle - down, "stopping": now.stopping + down}
    return Observed(**(values | {"quota_free": now.quota_free - up}))


@given(policies, situations)
def test_growth_never_passes_ceiling_quota_or_outstanding_creates(bounds: Policy, now: Observed) -> None:
    change = decide(bounds, now).change
    assert change <= max(0, bounds.max_replicas - now.live)
    assert change <= max(0, now.quota_free)
    assert change <= max(0, starting_limit(bounds, now) - now.starting)


@given(policies, situations)
def test_it_grows_no_further_than_demand_or_floor(bounds: Policy, now: Observed) -> None:
    decision = decide(bounds, now)
    if decision.change > 0:
        assert now.supply + decision.change <= max(now.claimed + now.queued + bounds.min_idle, bounds.min_replicas)


@given(policies, situations)
def test_only_idle_ones_are_ended_and_never_while_somebody_waits(bounds: Policy, now: Observed) -> None:
    change = decide(bounds, now).change
    assert -change <= now.idle
    if now.queued:
        assert change >= 0


@given(policies, situations)
def test_deciding_again_on_the_result_changes_nothing_more(bounds: Policy, now: Observed) -> None:
    first = decide(bounds, now)
    assert decide(bounds, after(now, first)).change == 0


@given(policies, situations, counts)
def test_raising_the_ceiling_never_lowers_growth(bounds: Policy, now: Observed, more: int) -> None:
    wider = Policy(bounds.min_replicas, bounds.max_replicas + more, bounds.min_idle, bounds.max_starting, 60.0)
    assert decide(wider, now).change >= decide(bounds, now).change


@given(policies, situations)
def test_waiting_claims_with_room_always_get_a_sandbox_on_its_way(bounds: Policy, now: Observed) -> None:
    free = now.held + now.failed < 3 and now.quota_free > 0 and now.starting < bounds.max_starting
    if now.queued and free and now.live < bounds.max_replicas:
        assert decide(bounds, now).change > 0 or now.idle + now.starting >= now.queued
