from __future__ import annotations

import json
from dataclasses import replace

import pytest

from sandboxes import observer
from sandboxes.cluster.snapshot import parse
from sandboxes.models import Claim, Event, Sandbox
from tests.conftest import ROOT
from tests.factories import make_claim, make_pool, make_sandbox
from tests.sandboxes.pods import pod, waiting

pytestmark = pytest.mark.django_db


def test_a_ready_pod_is_idle_and_serves_who_waits() -> None:
    pool = make_pool()
    sandbox = make_sandbox(pool, "starting")
    make_claim(pool.group)
    observer.apply([pod(sandbox.pk)], [])
    row = Sandbox.objects.get(pk=sandbox.pk)
    assert (row.state, row.pod_ip, row.node) == ("claimed", "127.64.0.9", "node-1")
    assert Claim.objects.get().state == "bound"


def test_a_pod_on_its_way_changes_nothing() -> None:
    sandbox = make_sandbox(state="starting")
    observer.apply([pod(sandbox.pk, conditions=[], phase="Pending")], [])
    assert Sandbox.objects.get(pk=sandbox.pk).rev == sandbox.rev


def test_a_stuck_pod_gets_a_finding_with_the_clusters_words() -> None:
    sandbox = make_sandbox(state="starting")
    observer.apply([pod(sandbox.pk, **waiting("ImagePullBackOff", "manifest unknown"))], [])
    row = Sandbox.objects.get(pk=sandbox.pk)
    assert row.finding == "image"
    assert "manifest unknown" in row.finding_text
    assert Event.objects.get().kind == "finding"


def test_an_idle_pod_that_stops_being_ready_is_not_claimable_until_it_is_again() -> None:
    pool = make_pool()
    sandbox = make_sandbox(pool, "idle")
    observer.apply([pod(sandbox.pk, conditions=[{"type": "Ready", "status": "False"}])], [])
    assert Sandbox.objects.get(pk=sandbox.pk).finding == "not_ready"
    observer.apply([pod(sandbox.pk)], [])
    assert Sandbox.objects.get(pk=sandbox.pk).finding == ""


def test_a_deleted_pod_ends_its_sandbox_once() -> None:
    sandbox = make_sandbox(state="claimed")
    for _ in range(2):
        observer.apply([], [pod(sandbox.pk)])
    row = Sandbox.objects.get(pk=sandbox.pk)
    assert (row.state, row.end_reason, row.end_actor, row.rev) == ("ended", "pod_gone", "cluster", 2)
    assert Event.objects.count() == 1


def test_an_evicted_or_failed_pod_says_so() -> None:
    evicted, failed = make_sandbox(state="claimed"), make_sandbox(state="claimed")
    status = {"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory."}
    observer.apply([], [pod(evicted.pk, **status), pod(failed.pk, phase="Failed")])
    row = Sandbox.objects.get(pk=evicted.pk)
    assert row.end_reason == "evicted"
    assert "low on resource" in row.end_message
    assert Sandbox.objects.get(pk=failed.pk).end_reason == "failed"


@pytest.mark.parametrize("case", ["obeys", "fails", "deaf"])
def test_a_pod_that_was_stopped_from_outside_did_not_fail(case: str) -> None:
    """As a real cluster showed the last of it: marked, over, and with the exit code that stopping it gave."""
    saved = json.loads((ROOT / "tests" / "contract" / "seen" / f"deleted-{case}.json").read_text())["seen"]
    sandbox = make_sandbox(state="claimed")
    last = replace(parse(saved), sandbox_id=sandbox.pk)
    assert last.finished
    observer.apply([last], [])
    assert Sandbox.objects.get(pk=sandbox.pk).rev == sandbox.rev
    observer.apply([], [last])
    row = Sandbox.objects.get(pk=sandbox.pk)
    assert (row.state, row.end_reason) == ("ended", "pod_gone")
    assert "deleted from outside" in row.end_message


def test_an_evicted_pod_that_is_deleted_then_stays_evicted() -> None:
    sandbox = make_sandbox(state="claimed")
    evicted = pod(sandbox.pk, phase="Failed", reason="Evicted", message="The node was low on resource: memory.")
    observer.apply([], [replace(evicted, deleting=True)])
    assert Sandbox.objects.get(pk=sandbox.pk).end_reason == "evicted"


def test_a_finished_pod_is_cleared_away() -> None:
    sandbox = make_sandbox(state="claimed")
    over = {"terminated": {"reason": "OOMKilled", "exitCode": 137}}
    observer.apply([pod(sandbox.pk, phase="Failed", containerStatuses=[{"state": over}])], [])
    row = Sandbox.objects.get(pk=sandbox.pk)
    assert (row.state, row.end_reason) == ("stopping", "failed")
    assert "OOMKilled, exit 137" in row.end_message


def test_pods_of_others_and_pods_being_deleted_are_left_alone() -> None:
    sandbox = make_sandbox(state="starting")
    observer.apply([pod(""), replace(pod(sandbox.pk), deleting=True)], [pod("")])
    assert Sandbox.objects.get(pk=sandbox.pk).rev == sandbox.rev
