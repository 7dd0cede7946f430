from __future__ import annotations

import time
from datetime import timedelta

import pytest
from django.utils import timezone

from sandboxes import collector, times
from sandboxes.models import Event, Sandbox
from tests.factories import ago, make_pool, make_sandbox

pytestmark = pytest.mark.django_db


def test_overdue_sandboxes_are_stopped() -> None:
    sandbox = make_sandbox(state="claimed", end_at=timezone.now() - timedelta(seconds=1))
    make_sandbox(sandbox.pool, "claimed")
    collector.collect()
    assert list(Sandbox.objects.filter(state="stopping").values_list("pk", "end_reason")) == [(sandbox.pk, "timeout")]


def test_a_start_that_hangs_is_ended_and_says_what_it_waited_for() -> None:
    hung = make_sandbox(state="starting", finding="no_room", finding_text="Insufficient cpu")
    Sandbox.objects.update(created_at=ago(times.START_TIMEOUT + 1))
    fresh = make_sandbox(hung.pool, "starting")
    collector.collect()
    assert Sandbox.objects.get(pk=hung.pk).end_reason == "start_timeout"
    assert Sandbox.objects.get(pk=fresh.pk).state == "starting"
    assert Event.objects.get().text == "Insufficient cpu"


def test_a_handful_of_missing_pods_is_believed_at_once() -> None:
    pool = make_pool()
    gone = make_sandbox(pool, "idle", age=600)
    make_sandbox(pool, "pending", age=600)
    ended = collector.end_rows_without_pods(pool.cluster, None, {}, time.time())  # type: ignore[arg-type]
    assert ended == 1
    assert Sandbox.objects.get(pk=gone.pk).end_reason == "pod_gone"


def test_a_row_acknowledged_after_the_list_is_not_missing() -> None:
    sandbox = make_sandbox(state="starting", age=0)
    assert collector.end_rows_without_pods(sandbox.cluster, None, {}, time.time() - 60) == 0  # type: ignore[arg-type]
