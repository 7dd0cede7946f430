"""How Pods go: at once, or within their grace, and always to the end that the watch tells."""

from __future__ import annotations

import pytest

from sandboxes.cluster.client import as_change
from sandboxes.cluster.errors import Gone, PreconditionFailed
from sandboxes.cluster.snapshot import PodSnapshot, parse
from tests.contract.kube import Json, Kube, container_state, told, until
from tests.contract.sightings import Seen

DEAF = ["/bin/sh", "-c", "trap '' TERM; while :; do sleep 0.2; done"]
"""Has to be killed."""
FAILING = ["/bin/sh", "-c", "trap 'exit 3' TERM; sleep 3600 & wait"]


def life(kube: Kube, start: str, name: str) -> list[Json]:
    """All events of a Pod up to its last."""
    events = []
    for event in kube.watch(start, fieldSelector=f"metadata.name={name}"):
        events.append(event)
        if event["type"] == "DELETED":
            break
    return events


def snapshots(events: list[Json]) -> list[PodSnapshot]:
    return [change.pod for change in map(as_change, events) if change.pod]


@pytest.mark.parametrize(
    ("case", "command", "grace", "code"),
    [("obeys", None, 5, 0), ("fails", FAILING, 5, 3), ("deaf", DEAF, 1, 137)],
)
def test_a_running_pod_ends_before_it_goes(
    kube: Kube, seen: Seen, case: str, command: list[str] | None, grace: int, code: int
) -> None:
    """Marked first, then over, then gone."""
    kube.create("one", container={"command": command} if command else None)
    version = kube.running("one")["metadata"]["resourceVersion"]
    answer = kube.delete("one", gracePeriodSeconds=grace)
    assert answer.status == 200
    assert answer.body["metadata"]["deletionGracePeriodSeconds"] == grace
    assert answer.body["metadata"]["deletionTimestamp"]
    events = life(kube, version, "one")
    assert [event["type"] for event in events] == ["MODIFIED"] * (len(events) - 1) + ["DELETED"]
    pods = snapshots(events)
    assert all(pod.deleting for pod in pods)
    assert (pods[0].phase, pods[0].finished) == ("Running", False)
    ends = [number for number, pod in enumerate(pods) if pod.finished]
    assert ends, [told(pod) for pod in pods]
    last = pods[-1]
    assert (last.exit_code, last.ready) == (code, False)
    assert last.phase == ("Failed" if code else "Succeeded")
    assert told(last) == told(parse(seen(f"deleted-{case}", events[-1]["object"])))


def test_a_pod_that_restarts_ends_too_when_it_is_deleted(kube: Kube, seen: Seen) -> None:
    kube.create("one", restartPolicy="Always")
    version = kube.running("one")["metadata"]["resourceVersion"]
    kube.delete("one")
    last = life(kube, version, "one")[-1]["object"]
    assert told(parse(last)) == told(parse(seen("deleted-restarting", last)))


NEVER_BEGUN: dict[str, tuple[Json, str]] = {
    "image": ({"image": "registry.invalid/nothing:1"}, "ErrImagePull ImagePullBackOff"),
    "crashing": ({"command": ["/bin/sh", "-c", "exit 3"]}, "CrashLoopBackOff"),
}


@pytest.mark.parametrize("case", NEVER_BEGUN)
def test_a_pod_in_trouble_ends_too_when_it_is_deleted(kube: Kube, seen: Seen, case: str) -> None:
    container, waiting = NEVER_BEGUN[case]
    kube.create("one", container=container, restartPolicy="Always")
    pod = until(lambda: kube.pod("one"), lambda pod: parse(pod).waiting_reason in waiting.split())
    kube.delete("one")
    last = life(kube, pod["metadata"]["resourceVersion"], "one")[-1]["object"]
    now, saw = parse(last), parse(seen(f"deleted-{case}", last))
    assert (now.phase, now.deleting, now.ready) == (saw.phase, saw.deleting, saw.ready)
    assert (now.exit_code, now.terminated_reason) == (saw.exit_code, saw.terminated_reason)
    assert now.waiting_reason == saw.waiting_reason


def test_without_grace_it_goes_at_once(kube: Kube) -> None:
    kube.create("one", container={"command": DEAF})
    version = kube.running("one")["metadata"]["resourceVersion"]
    answer = kube.delete("one", gracePeriodSeconds=0)
    assert answer.status == 200
    assert not kube.is_there("one")
    assert [event["type"] for event in life(kube, version, "one")][-1] == "DELETED"


def test_the_grace_is_the_pods_own_unless_one_is_given(kube: Kube) -> None:
    kube.create("one", container={"command": DEAF}, terminationGracePeriodSeconds=20)
    kube.running("one")
    metadata = kube.delete("one").body["metadata"]
    assert metadata["deletionGracePeriodSeconds"] == 20
    again = kube.delete("one").body["metadata"]
    assert (again["deletionTimestamp"], again["deletionGracePeriodSeconds"]) == (metadata["deletionTimestamp"], 20)
    longer = kube.delete("one", gracePeriodSeconds=30).body["metadata"]
    assert (longer["deletionTimestamp"], longer["deletionGracePeriodSeconds"]) == (metadata["deletionTimestamp"], 20)


def test_a_shorter_grace_may_still_be_given(kube: Kube) -> None:
    """Whether it hurries a container that is being stopped is left to the kubelet; that of 1.34 does not."""
    kube.create("one", container={"command": DEAF}, terminationGracePeriodSeconds=600)
    kube.running("one")
    first = kube.delete("one").body["metadata"]
    shorter = kube.delete("one", gracePeriodSeconds=1).body["metadata"]
    assert shorter["deletionGracePeriodSeconds"] == 1
    assert shorter["deletionTimestamp"] < first["deletionTimestamp"]


def test_a_pod_on_no_node_goes_at_once(kube: Kube) -> None:
    start = kube.park("one", terminationGracePeriodSeconds=600)["metadata"]["resourceVersion"]
    assert kube.delete("one").status == 200
    assert not kube.is_there("one")
    events = life(kube, start, "one")
    assert [event["type"] for event in events] == ["MODIFIED", "DELETED"]
    assert int(events[-1]["object"]["metadata"]["resourceVersion"]) > int(start)


def test_a_pod_that_is_over_goes_at_once(kube: Kube) -> None:
    kube.create("one", container={"command": ["/bin/sh", "-c", "exit 0"]}, terminationGracePeriodSeconds=600)
    until_over(kube, "one")
    assert kube.delete("one").status == 200
    assert not kube.is_there("one")


def until_over(kube: Kube, name: str) -> None:
    until(lambda: kube.pod(name), lambda pod: "terminated" in container_state(pod) and parse(pod).finished)


def test_a_second_delete_after_the_end_finds_nothing(kube: Kube) -> None:
    kube.park("one")
    kube.client.delete("one")
    with pytest.raises(Gone):
        kube.client.delete("one")


def test_only_the_pod_that_was_meant_is_deleted(kube: Kube, seen: Seen) -> None:
    pod = kube.park("one")
    answer = kube.delete("one", preconditions={"uid": "another"})
    assert (answer.status, answer.reason) == (409, "Conflict")
    assert answer.message.startswith(seen("uid-differs", answer.body)["message"].partition("(")[0])
    with pytest.raises(PreconditionFailed):
        kube.client.delete("one", "another")
    assert kube.pod("one") == pod
    kube.client.delete("one", pod["metadata"]["uid"])
    assert not kube.is_there("one")


def test_only_the_version_that_was_meant_is_deleted(kube: Kube, seen: Seen) -> None:
    version = kube.park("one")["metadata"]["resourceVersion"]
    kube.patch("one", {"metadata": {"labels": {"a": "b"}}})
    answer = kube.delete("one", preconditions={"resourceVersion": version})
    assert (answer.status, answer.reason) == (409, "Conflict")
    assert answer.message.startswith(seen("version-differs", answer.body)["message"].partition("(")[0])
    fresh = kube.pod("one")["metadata"]["resourceVersion"]
    assert kube.delete("one", preconditions={"resourceVersion": fresh}).status == 200


def test_the_grace_may_stand_in_the_query(kube: Kube) -> None:
    kube.create("one", container={"command": DEAF}, terminationGracePeriodSeconds=600)
    kube.running("one")
    answer = kube.call("DELETE", f"{kube.pods}/one", query={"gracePeriodSeconds": "1"})
    assert answer.body["metadata"]["deletionGracePeriodSeconds"] == 1
    kube.gone("one")


@pytest.mark.parametrize("grace", ["soon", 1.5])
def test_a_grace_that_is_none_is_refused(kube: Kube, grace: object) -> None:
    pod = kube.park("one")
    answer = kube.delete("one", gracePeriodSeconds=grace)
    assert answer.status >= 400
    assert kube.pod("one") == pod
