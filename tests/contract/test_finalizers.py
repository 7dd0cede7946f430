"""What holds a deleted object until somebody has done with it."""

from __future__ import annotations

import itertools

from sandboxes.cluster.snapshot import parse
from tests.contract.kube import JSON_PATCH, Kube, until
from tests.contract.sightings import Seen

HOLD = "example.com/hold"
SECOND = "example.com/second"


def free(kube: Kube, *left: str) -> int:
    return kube.patch("one", {"metadata": {"finalizers": list(left) or None}}).status


def test_a_pod_with_a_finalizer_stays_until_it_is_taken_off(kube: Kube) -> None:
    start = kube.park("one", metadata={"finalizers": [HOLD]})["metadata"]["resourceVersion"]
    answer = kube.delete("one")
    assert answer.status == 200
    assert answer.body["metadata"]["deletionTimestamp"]
    assert parse(kube.pod("one")).deleting
    assert free(kube) == 200
    assert not kube.is_there("one")
    events = list(itertools.islice(kube.watch(start), 2))
    assert [event["type"] for event in events] == ["MODIFIED", "DELETED"]


def test_all_of_them_have_to_go(kube: Kube) -> None:
    kube.park("one", metadata={"finalizers": [HOLD, SECOND]})
    kube.delete("one")
    assert free(kube, SECOND) == 200
    assert kube.pod("one")["metadata"]["finalizers"] == [SECOND]
    assert kube.patch("one", [{"op": "remove", "path": "/metadata/finalizers"}], JSON_PATCH).status == 200
    assert not kube.is_there("one")


def test_not_even_a_delete_without_grace_passes_one(kube: Kube) -> None:
    kube.park("one", metadata={"finalizers": [HOLD]})
    for _ in range(2):
        assert kube.delete("one", gracePeriodSeconds=0).status == 200
        assert parse(kube.pod("one")).deleting
    assert free(kube) == 200
    assert not kube.is_there("one")


def test_none_can_be_added_to_what_is_going(kube: Kube, seen: Seen) -> None:
    kube.park("one", metadata={"finalizers": [HOLD]})
    kube.delete("one")
    answer = kube.patch("one", {"metadata": {"finalizers": [HOLD, SECOND]}})
    assert (answer.status, answer.reason) == (422, "Invalid")
    assert answer.message == seen("finalizer-too-late", answer.body)["message"]


def test_a_running_pod_ends_and_then_waits(kube: Kube, seen: Seen) -> None:
    """Its processes are not held up."""
    kube.create("one", metadata={"finalizers": [HOLD]})
    kube.running("one")
    kube.delete("one")
    pod = until(lambda: kube.pod("one"), lambda pod: parse(pod).finished)
    saw = parse(seen("deleted-held", pod))
    now = parse(pod)
    assert (now.phase, now.exit_code, now.deleting) == (saw.phase, saw.exit_code, saw.deleting)
    assert free(kube) == 200
    kube.gone("one")


def test_a_finalizer_taken_off_in_time_holds_nothing(kube: Kube) -> None:
    kube.park("one", metadata={"finalizers": [HOLD]})
    assert free(kube) == 200
    assert kube.is_there("one")
    kube.delete("one")
    assert not kube.is_there("one")
