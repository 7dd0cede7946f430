"""Events: who is told about what, how often, and how they are found."""

from __future__ import annotations

import pytest

from tests.contract.kube import Json, Kube, until
from tests.contract.lives import events, said, shell

pytestmark = pytest.mark.namespaces

CLUSTERS_OWN = "MissingClusterDNS"
"""A warning about each Pod of a cluster without DNS."""


@pytest.fixture
def two(kube: Kube) -> list[Json]:
    """Two Pods, the one well and the other not."""
    pods = [kube.create("well"), kube.create("ill", container={"image": "nowhere/thing:1"})]
    said(kube, "well", "Started", "")
    said(kube, "ill", "Failed", "Error: ErrImagePull$")
    return pods


def test_events_are_found_by_what_they_are_about(kube: Kube, two: list[Json]) -> None:
    well, ill = two
    uid = ill["metadata"]["uid"]
    by_uid = select(kube, f"involvedObject.uid={uid}")
    assert {event["involvedObject"]["name"] for event in by_uid} == {"ill"}
    assert select(kube, "involvedObject.name=ill", f"involvedObject.uid={well['metadata']['uid']}") == []
    warnings = select(kube, f"involvedObject.uid={uid}", "type=Warning")
    assert {event["reason"] for event in warnings} == {"Failed"}
    assert {event["type"] for event in warnings} == {"Warning"}
    assert select(kube, f"involvedObject.uid={uid}", "type!=Warning", "reason=Failed") == []
    assert {e["reason"] for e in select(kube, "involvedObject.kind=Pod", "reason=Started")} == {"Started"}
    assert select(kube, f"involvedObject.namespace={kube.namespace}", "involvedObject.name=well")
    assert select(kube, "involvedObject.kind=Node") == []


def test_an_event_names_its_pod_and_who_says_it(kube: Kube, two: list[Json]) -> None:
    well, _ = two
    for event in events(kube, "well"):
        involved, meta = event["involvedObject"], well["metadata"]
        assert (involved["kind"], involved["apiVersion"]) == ("Pod", "v1")
        assert all(involved[each] == meta[each] for each in ("name", "namespace", "uid"))
        assert event["metadata"]["name"].startswith("well.")
        assert event["metadata"]["namespace"] == kube.namespace
        who = "default-scheduler" if event["reason"] == "Scheduled" else "kubelet"
        assert event["reportingComponent"] == who


def test_what_happens_again_is_counted(kube: Kube) -> None:
    kube.create("loop", container=shell("exit 1"), restartPolicy="Always")
    found = until(lambda: events(kube, "loop", reason="Started"), lambda found: found and found[0]["count"] > 1)
    assert len(found) == 1
    assert found[0]["lastTimestamp"] >= found[0]["firstTimestamp"]


def test_events_are_in_the_order_in_which_they_began(kube: Kube, two: list[Json]) -> None:
    told = [event["reason"] for event in events(kube, "ill", type="Warning")]
    assert told[:2] == ["Failed", "Failed"]
    assert events(kube, "ill", type="Warning")[0]["message"].startswith("Failed to pull image")


def test_a_watch_tells_new_events(kube: Kube) -> None:
    version = kube.call("GET", kube.path("events")).body["metadata"]["resourceVersion"]
    uid = kube.create("well")["metadata"]["uid"]
    said(kube, "well", "Started", "")
    query = {"fieldSelector": f"involvedObject.uid={uid}", "timeoutSeconds": "1"}
    told = [event["object"]["reason"] for event in kube.watch(version, "events", **query)]
    told = [reason for reason in dict.fromkeys(told) if reason != CLUSTERS_OWN]
    assert told == ["Scheduled", "Pulled", "Created", "Started"]


def select(kube: Kube, *terms: str) -> list[Json]:
    query = {"fieldSelector": ",".join(terms)}
    items: list[Json] = kube.call("GET", kube.path("events"), query=query).body["items"]
    return [event for event in items if event["reason"] != CLUSTERS_OWN]
