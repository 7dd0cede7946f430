from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import DatabaseError, IntegrityError, transaction
from django.utils import timezone

from sandboxes import transitions
from sandboxes.lifecycle import NEXT, EndReason, State
from sandboxes.models import Event, Sandbox
from tests.factories import make_pool, make_sandbox, new_id

pytestmark = pytest.mark.django_db


def test_a_sandbox_goes_from_pending_to_ended_with_its_phase_times() -> None:
    pool = make_pool()
    (pending,) = transitions.insert_pending(pool.pk, [new_id()])
    transitions.acknowledge([(pending.id, "uid-1")])
    transitions.make_idle([(pending.id, "uid-1", "127.64.0.1", "node-1")])
    transitions.stop([pending.id], EndReason.KILLED, "mira")
    (ended,) = transitions.end([(pending.id, EndReason.POD_GONE, "gone")])
    row = Sandbox.objects.get(pk=pending.id)
    assert (ended.state, ended.rev, row.pod_ip, row.node) == ("ended", 5, "127.64.0.1", "node-1")
    assert row.created_at <= row.starting_at <= row.idle_at <= row.stopping_at <= row.ended_at  # type: ignore[operator]
    assert (row.end_reason, row.end_actor) == ("killed", "mira"), "what was said at stopping stands"


def test_a_pod_may_be_ready_before_its_create_is_acknowledged() -> None:
    sandbox = make_sandbox(state="pending")
    assert transitions.make_idle([(sandbox.pk, "u", "127.64.0.1", "n")])
    assert transitions.acknowledge([(sandbox.pk, "u")]) == []
    assert Sandbox.objects.get(pk=sandbox.pk).state == "idle"


@pytest.mark.parametrize("state", [State.IDLE, State.CLAIMED, State.STOPPING, State.ENDED])
def test_a_late_or_replayed_event_moves_nothing_backwards(state: State) -> None:
    sandbox = make_sandbox(state=state)
    assert transitions.acknowledge([(sandbox.pk, "late")]) == []
    assert transitions.make_idle([(sandbox.pk, "late", "127.64.0.1", "n")]) == []
    assert Sandbox.objects.get(pk=sandbox.pk).rev == sandbox.rev


def test_ending_twice_changes_once() -> None:
    sandbox = make_sandbox()
    assert len(transitions.end([(sandbox.pk, EndReason.POD_GONE, "")])) == 1
    assert transitions.end([(sandbox.pk, EndReason.POD_GONE, "")]) == []


def test_a_batch_changes_only_those_that_may() -> None:
    pool = make_pool()
    idle, claimed, ended = (make_sandbox(pool, state) for state in ("idle", "claimed", "ended"))
    moved = transitions.stop([idle.pk, claimed.pk, ended.pk], EndReason.KILLED, "x", only=[State.CLAIMED])
    assert [sandbox.id for sandbox in moved] == [claimed.pk]


def test_surplus_ends_the_newest_idle_first() -> None:
    pool = make_pool()
    old, young = make_sandbox(pool, "idle", age=500), make_sandbox(pool, "idle", age=5)
    (stopped,) = transitions.stop_surplus(pool.group_id, 1)
    assert stopped.id == young.pk
    assert Sandbox.objects.get(pk=old.pk).state == "idle"


def test_an_overdue_claim_says_whether_it_was_ever_delivered() -> None:
    pool, past = make_pool(), timezone.now() - timedelta(seconds=1)
    used = make_sandbox(pool, "claimed", end_at=past)
    lost = make_sandbox(pool, "claimed", end_at=past, delivered_at=None)
    transitions.stop_overdue(10)
    reasons = dict(Sandbox.objects.values_list("pk", "end_reason"))
    assert reasons == {used.pk: "timeout", lost.pk: "not_delivered"}


def test_connect_only_extends_a_deadline_and_set_timeout_may_shorten_it() -> None:
    sandbox = make_sandbox(state="claimed")
    soon, late = timezone.now() + timedelta(seconds=5), timezone.now() + timedelta(seconds=900)
    kept = transitions.set_deadline(sandbox.pk, soon, only_extend=True)
    assert kept is not None
    assert kept.end_at == sandbox.end_at
    longer = transitions.set_deadline(sandbox.pk, late, only_extend=True)
    assert longer is not None
    assert longer.end_at == late
    shorter = transitions.set_deadline(sandbox.pk, soon, only_extend=False)
    assert shorter is not None
    assert shorter.end_at == soon


def test_the_deadline_of_a_sandbox_that_is_over_cannot_be_moved() -> None:
    over = make_sandbox(state="claimed", end_at=timezone.now() - timedelta(seconds=1))
    assert transitions.set_deadline(over.pk, timezone.now() + timedelta(seconds=60), only_extend=False) is None


def test_a_finding_is_dated_once_and_cleared_by_readiness() -> None:
    sandbox = make_sandbox(state="starting")
    transitions.find([(sandbox.pk, "image", "not found")])
    first = Sandbox.objects.get(pk=sandbox.pk)
    assert transitions.find([(sandbox.pk, "image", "not found")]) == [], "the same again is no news"
    transitions.find([(sandbox.pk, "image", "still not found")])
    again = Sandbox.objects.get(pk=sandbox.pk)
    assert again.finding_at == first.finding_at
    assert again.shown_group == "stuck"
    transitions.make_idle([(sandbox.pk, "u", "127.64.0.1", "n")])
    assert Sandbox.objects.get(pk=sandbox.pk).shown_group == "ready"


def test_events_are_kept_for_what_is_not_the_normal_course() -> None:
    sandbox = make_sandbox(state="pending")
    transitions.note(transitions.refuse([(sandbox.pk, "cluster_quota", "exceeded quota: q", 5.0)]), "create_refused")
    event = Event.objects.get()
    assert (event.sandbox_id, event.kind, event.text) == (sandbox.pk, "create_refused", "exceeded quota: q")


def test_the_table_itself_refuses_a_claimed_row_without_claim() -> None:
    sandbox = make_sandbox(state="idle")
    with pytest.raises(IntegrityError), transaction.atomic():
        Sandbox.objects.filter(pk=sandbox.pk).update(state="claimed")


def test_every_state_leads_to_the_end_and_none_back_to_idle() -> None:
    reachable = {State.PENDING}
    for _ in State:
        reachable |= {target for state in reachable for target in NEXT[state]}
    assert reachable == set(State)
    assert not any(State.IDLE in NEXT[state] for state in (State.CLAIMED, State.STOPPING, State.ENDED))


LOCKS = (
    "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted AND pid = pg_backend_pid()"
    " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
)


@pytest.mark.django_db(transaction=True)
def test_what_is_sent_together_shares_a_transaction_with_its_lock() -> None:
    _, ((held,),) = transitions.run_together(("SELECT pg_advisory_xact_lock(1, 2)", []), (LOCKS, []))
    assert held == 1, "while the second statement runs"
    assert transitions.run(LOCKS, []) == [(0,)], "and no longer"


@pytest.mark.django_db(transaction=True)
def test_what_is_sent_together_is_undone_together() -> None:
    sandbox = make_sandbox(state="idle")
    change = ("UPDATE sandboxes_sandbox SET node = 'changed' WHERE id = %s RETURNING id", [sandbox.pk])
    with pytest.raises(DatabaseError, match="division by zero"):
        transitions.run_together(change, ("SELECT 1 / 0", []))
    assert Sandbox.objects.get(pk=sandbox.pk).node != "changed"
