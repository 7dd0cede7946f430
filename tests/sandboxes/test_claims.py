from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from pools.errors import Conflict, QuotaExceeded
from pools.models import ScalingGroup
from sandboxes import claims, matcher
from sandboxes.claims import Bound, Lost, Wanted
from sandboxes.models import Claim, Heartbeat, Sandbox
from tests.factories import ago, make_claim, make_group, make_pool, make_sandbox, make_team, sandbox_row
from tests.race import side_by_side

pytestmark = pytest.mark.usefixtures("transactional_db")


def wanted(group: ScalingGroup, **changed: object) -> Wanted:
    return Wanted(**({"team_id": group.env.team_id, "group_id": group.pk, "timeout": 300} | changed))  # type: ignore[arg-type]


def test_an_idle_sandbox_is_bound_at_once() -> None:
    pool = make_pool()
    idle = make_sandbox(pool, "idle", pod_ip="127.64.0.7")
    ticket = claims.request(wanted(pool.group, metadata={"run": "7"}), "edge-1")
    assert ticket.bound is not None
    assert (ticket.bound.sandbox_id, ticket.bound.pod_ip) == (idle.pk, "127.64.0.7")
    row = Sandbox.objects.get(pk=idle.pk)
    assert (row.state, row.metadata, row.claim_id) == ("claimed", {"run": "7"}, ticket.claim_id)


def test_a_stuck_idle_sandbox_is_not_claimable() -> None:
    pool = make_pool()
    make_sandbox(pool, "idle", finding="not_ready", finding_text="x")
    assert claims.request(wanted(pool.group), "edge-1").bound is None


def test_delivery_starts_the_life_that_was_asked_for() -> None:
    pool = make_pool()
    idle = make_sandbox(pool, "idle")
    ticket = claims.request(wanted(pool.group, timeout=120), "edge-1")
    end_at = claims.deliver(ticket.claim_id)
    assert end_at is not None
    assert abs((end_at - timezone.now()).total_seconds() - 120) < 5
    assert Sandbox.objects.get(pk=idle.pk).end_at == end_at
    assert claims.deliver(ticket.claim_id) is None, "delivered once"


def test_a_claim_whose_sandbox_went_meanwhile_is_not_delivered() -> None:
    pool = make_pool()
    idle = make_sandbox(pool, "idle")
    ticket = claims.request(wanted(pool.group), "edge-1")
    Sandbox.objects.filter(pk=idle.pk).update(state="stopping", end_reason="killed")
    assert claims.deliver(ticket.claim_id) is None
    assert Claim.objects.get().state == "bound"
    assert isinstance(claims.bound([ticket.claim_id])[ticket.claim_id], Lost)


def test_a_caller_gone_while_queued_leaves_nothing() -> None:
    group = make_pool().group
    ticket = claims.request(wanted(group), "edge-1")
    claims.cancel([ticket.claim_id], "caller gone")
    make_sandbox(group.pools.get(), "idle")
    assert matcher.match(group.pk) == {}
    assert Claim.objects.get().state == "cancelled"


def test_a_caller_gone_after_bind_ends_the_dirty_sandbox() -> None:
    pool = make_pool()
    idle = make_sandbox(pool, "idle")
    ticket = claims.request(wanted(pool.group), "edge-1")
    claims.cancel([ticket.claim_id], "caller gone")
    row = Sandbox.objects.get(pk=idle.pk)
    assert (row.state, row.end_reason) == ("stopping", "caller_gone")


def test_one_that_cannot_be_armed_is_replaced_and_keeps_its_place() -> None:
    pool = make_pool()
    bad = make_sandbox(pool, "idle", age=100)
    first = claims.request(wanted(pool.group), "edge-1")
    second = claims.request(wanted(pool.group), "edge-1")
    good = make_sandbox(pool, "idle", age=1)
    replaced = claims.give_back(first.claim_id, "init answered 500", replace=True)
    assert replaced is not None
    assert replaced.sandbox_id == good.pk, "the older claim goes first"
    assert claims.bound([second.claim_id]) == {}
    assert Sandbox.objects.get(pk=bad.pk).end_reason == "not_armed"


def test_an_expired_claim_keeps_nothing() -> None:
    group = make_pool().group
    ticket = claims.request(wanted(group), "edge-1")
    claims.expire([ticket.claim_id])
    assert Claim.objects.get().state == "expired"
    assert isinstance(claims.bound([ticket.claim_id])[ticket.claim_id], Lost)


def test_the_fallback_query_tells_what_became_of_each() -> None:
    pool = make_pool()
    make_sandbox(pool, "idle")
    got, waits = claims.request(wanted(pool.group), "e"), claims.request(wanted(pool.group), "e")
    answer = claims.bound([got.claim_id, waits.claim_id])
    assert set(answer) == {got.claim_id}
    assert isinstance(answer[got.claim_id], Bound)


def test_the_same_idempotency_key_gives_the_same_sandbox() -> None:
    pool = make_pool()
    make_sandbox(pool, "idle")
    make_sandbox(pool, "idle")
    ask = wanted(pool.group, idempotency_key="k-1", request_digest="a")
    first = claims.request(ask, "e")
    with pytest.raises(Conflict) as early:
        claims.request(ask, "e")
    assert early.value.code == "idempotency_in_progress"
    claims.deliver(first.claim_id)
    again = claims.request(ask, "e")
    assert again.replayed
    assert again.bound is not None
    assert first.bound is not None
    assert again.bound.sandbox_id == first.bound.sandbox_id
    with pytest.raises(Conflict) as other:
        claims.request(wanted(pool.group, idempotency_key="k-1", request_digest="b"), "e")
    assert other.value.code == "idempotency_request_mismatch"
    Sandbox.objects.filter(pk=first.bound.sandbox_id).update(state="ended", end_reason="killed")
    with pytest.raises(Conflict, match="has ended"):
        claims.request(ask, "e")


def test_a_quota_that_is_all_claimed_refuses_at_once_and_keeps_nothing() -> None:
    pool = make_pool(make_group(make_team(quota=1)))
    make_sandbox(pool, "claimed")
    with pytest.raises(QuotaExceeded, match="All 1 sandboxes"):
        claims.request(wanted(pool.group), "e")
    assert not Claim.objects.exists()


def test_claims_of_a_silent_edge_are_closed() -> None:
    pool = make_pool()
    idle = make_sandbox(pool, "idle")
    bound = claims.request(wanted(pool.group), "dead")
    claims.request(wanted(pool.group), "alive")
    claims.beat("dead")
    claims.beat("alive")
    Heartbeat.objects.filter(name="dead").update(at=ago(60))
    assert claims.close_abandoned(10) == 1
    assert Claim.objects.get(pk=bound.claim_id).state == "cancelled"
    assert Sandbox.objects.get(pk=idle.pk).state == "stopping"


def test_claims_past_their_deadline_are_closed() -> None:
    group = make_pool().group
    make_claim(group, deadline_at=timezone.now() - timedelta(seconds=10))
    make_claim(group)
    assert claims.close_overdue(10) == 1


def test_the_first_in_the_queue_are_bound_whoever_matches() -> None:
    """Done when 4: 50 queued, 20 more arrive while 30 Pods turn idle."""
    pool = make_pool(make_group(make_team(quota=500)))
    early = [claims.request(wanted(pool.group), "edge-1").claim_id for _ in range(50)]
    Sandbox.objects.bulk_create(sandbox_row(pool, "idle", age=i) for i in range(30))
    side_by_side(
        *(lambda: matcher.match(pool.group_id) for _ in range(3)),
        *(lambda: claims.request(wanted(pool.group), "edge-2") for _ in range(20)),
    )
    bound = list(Claim.objects.filter(state="bound").order_by("pk").values_list("pk", flat=True))
    assert bound == early[:30]
    assert Sandbox.objects.filter(state="claimed").count() == 30


def test_many_matchers_hand_nothing_out_twice() -> None:
    pool = make_pool(make_group(make_team(quota=500)))
    Sandbox.objects.bulk_create(sandbox_row(pool, "idle") for _ in range(40))
    side_by_side(*(lambda: claims.request(wanted(pool.group), "e") for _ in range(60)))
    served = list(Claim.objects.filter(state="bound").values_list("sandbox_id", flat=True))
    assert len(served) == len(set(served)) == 40


def test_cancelling_while_matching_never_leaves_a_claimed_sandbox_without_a_claim() -> None:
    pool = make_pool(make_group(make_team(quota=500)))
    tickets = [claims.request(wanted(pool.group), "e").claim_id for _ in range(40)]
    Sandbox.objects.bulk_create(sandbox_row(pool, "idle") for _ in range(40))
    halves = [tickets[i::8] for i in range(8)]
    side_by_side(
        *(lambda part=part: claims.cancel(part, "gone") for part in halves[:4]),
        *(lambda: matcher.match(pool.group_id) for _ in range(4)),
    )
    held = set(Sandbox.objects.filter(state="claimed").values_list("claim_id", flat=True))
    assert held == set(Claim.objects.filter(state="bound").values_list("pk", flat=True))


def test_a_burst_is_queued_in_order_and_its_first_are_bound() -> None:
    pool = make_pool(make_group(make_team()))
    for _ in range(3):
        make_sandbox(pool, "idle")
    tickets = claims.request_many([wanted(pool.group, timeout=60 + number) for number in range(5)], "edge-1")
    queued = [ticket for ticket in tickets if isinstance(ticket, claims.Ticket)]
    assert [ticket.bound is not None for ticket in queued] == [True] * 3 + [False] * 2
    timeouts = [Claim.objects.get(pk=ticket.claim_id).timeout for ticket in queued]
    assert timeouts == [60, 61, 62, 63, 64]
    delivered = claims.deliver_many([ticket.claim_id for ticket in queued])
    assert sorted(delivered) == [ticket.claim_id for ticket in queued[:3]]


def test_a_burst_beyond_the_quota_is_refused_where_it_would_wait() -> None:
    pool = make_pool(make_group(make_team(quota=2)))
    for _ in range(2):
        make_sandbox(pool, "idle")
    outcomes = claims.request_many([wanted(pool.group)] * 3, "edge-1")
    assert [isinstance(outcome, claims.Ticket) for outcome in outcomes] == [True, True, False]
    assert not Claim.objects.filter(state="queued").exists()
