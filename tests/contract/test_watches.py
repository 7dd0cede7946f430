"""Watches: where they begin, what they tell, and how they end."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor, wait

import pytest

from sandboxes.cluster import client
from sandboxes.cluster.client import ClusterClient, as_change
from sandboxes.cluster.errors import ClusterError, Expired
from tests.contract.kube import MERGE, Json, Kube
from tests.contract.sightings import Seen

OURS = {"labels": {"app.kubernetes.io/managed-by": "agentbox", "agentbox.io/sandbox": "i1"}}


def told(events: Iterable[Json]) -> list[tuple[str, str]]:
    return [(event["type"], event["object"]["metadata"]["name"]) for event in events]


def label(kube: Kube, name: str, **labels: str | None) -> None:
    assert kube.patch(name, {"metadata": {"labels": labels}}, MERGE).status == 200


def test_a_watch_tells_what_came_after_its_version(kube: Kube) -> None:
    kube.park("before")
    start = kube.version()
    kube.park("after")
    label(kube, "after", color="red")
    kube.delete("after")
    events = list(itertools.islice(kube.watch(start), 4))
    assert told(events) == [(kind, "after") for kind in ("ADDED", "MODIFIED", "MODIFIED", "DELETED")]
    versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in events]
    assert versions == sorted(set(versions))
    assert versions[0] > int(start)
    assert events[0]["object"]["kind"] == "Pod"


@pytest.mark.parametrize("version", ["", "0"])
def test_a_watch_without_a_version_begins_with_what_is_there(kube: Kube, version: str) -> None:
    kube.park("one")
    kube.park("two")
    kube.list()  # a list waits until a real server's cache, where "0" looks, has all this
    events = list(kube.watch(version, timeoutSeconds="1"))
    assert sorted(told(events)) == [("ADDED", "one"), ("ADDED", "two")]


def test_a_selective_watch_sees_pods_come_and_go(kube: Kube) -> None:
    start = kube.version()
    kube.park("one", metadata={"labels": {"color": "red"}})
    kube.park("other", metadata={"labels": {"color": "blue"}})
    label(kube, "one", size="big")
    label(kube, "one", color="blue")
    label(kube, "one", size="small")
    label(kube, "other", color="red")
    label(kube, "other", color=None)
    events = list(itertools.islice(kube.watch(start, labelSelector="color=red"), 5))
    assert told(events) == [
        ("ADDED", "one"),
        ("MODIFIED", "one"),
        ("DELETED", "one"),
        ("ADDED", "other"),
        ("DELETED", "other"),
    ]


def test_a_pod_that_leaves_a_watch_is_shown_as_it_last_matched(kube: Kube) -> None:
    """With the version of the change that took it away, so that a watch goes on after it."""
    start = kube.version()
    kube.park("one", metadata={"labels": {"color": "red"}})
    label(kube, "one", color="blue")
    left = list(itertools.islice(kube.watch(start, labelSelector="color=red"), 2))[1]["object"]["metadata"]
    assert left["labels"]["color"] == "red"
    assert left["resourceVersion"] == kube.pod("one")["metadata"]["resourceVersion"]


def test_a_watch_of_one_pod_tells_of_no_other(kube: Kube) -> None:
    start = kube.version()
    kube.park("other")
    kube.park("one")
    assert told(itertools.islice(kube.watch(start, fieldSelector="metadata.name=one"), 1)) == [("ADDED", "one")]


def test_a_watch_ends_in_good_order_when_its_time_is_up(kube: Kube) -> None:
    assert list(kube.watch(kube.version(), timeoutSeconds="1")) == []


def test_a_bookmark_carries_a_quiet_watch_on(kube: Kube) -> None:
    start = kube.version()
    event = bookmark(kube, start)
    assert event["type"] == "BOOKMARK"
    assert event["object"]["kind"] == "Pod"
    change = as_change(event)
    assert change.pod is None
    assert int(change.version) > int(start)


def bookmark(kube: Kube, start: str) -> Json:
    """It comes about two seconds before the watch ends, if by then there were changes that the watch does not show."""
    query = {"labelSelector": "color=red", "allowWatchBookmarks": "true", "timeoutSeconds": "4"}
    with ThreadPoolExecutor(1) as watching:
        event = watching.submit(next, kube.watch(start, **query), None)
        numbers = itertools.count()
        while not event.done():
            kube.park(f"not-ours-{next(numbers)}")
            wait([event], timeout=0.3)
    if found := event.result():
        return found
    raise AssertionError("the watch ended without a bookmark")


def test_a_forgotten_version_expires_or_nothing_since_is_lost(kube: Kube) -> None:
    """A real API server remembers Pods longer than its etcd does: either way the product's picture stays whole."""
    start = kube.version()
    kube.park("one", metadata=OURS)
    kube.compact()
    try:
        change = next(kube.client.watch(start))
    except Expired:
        return
    assert change.pod
    assert (change.kind, change.pod.name) == ("ADDED", "one")


def test_what_no_server_remembers_expires_with_compaction(kube: Kube, seen: Seen) -> None:
    """Events of the cluster are what a real API server keeps in etcd only."""
    start = kube.version()
    kube.park("one")
    kube.compact()
    event = next(kube.watch(start, "events"))
    assert (event["type"], event["object"]["code"], event["object"]["reason"]) == ("ERROR", 410, "Expired")
    assert seen("watch-compacted", event["object"])["code"] == 410
    product = ClusterClient(kube.client.api, kube.namespace)
    product.pods = kube.path("events")
    with pytest.raises(Expired, match="too old"):
        next(product.watch(start))


def test_a_watch_from_the_present_outlives_compaction(kube: Kube) -> None:
    kube.compact()
    start = kube.version()
    kube.park("one", metadata=OURS)
    change = next(kube.client.watch(start))
    assert (change.kind, change.pod and change.pod.name) == ("ADDED", "one")


def test_a_watch_that_makes_no_sense_is_refused(kube: Kube) -> None:
    with pytest.raises(ClusterError, match='resourceVersion: Invalid value: "abc"'):
        next(kube.client.watch("abc"))


def test_the_product_follows_a_whole_life(kube: Kube, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "WATCH_SECONDS", 20)
    start = kube.version()
    kube.park("one", metadata=OURS)
    kube.park("of-others")
    kube.delete("one")
    changes = [(change.kind, change.pod) for change in itertools.islice(kube.client.watch(start), 3)]
    assert [(kind, pod and pod.deleting) for kind, pod in changes] == [
        ("ADDED", False),
        ("MODIFIED", True),
        ("DELETED", True),
    ]
