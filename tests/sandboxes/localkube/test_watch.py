"""Watches, through the real client's own loop."""

import http.client
import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from kubernetes import watch
from kubernetes.client import ApiException

from sandboxes.localkube import store

from .conftest import NAMESPACE, PODS, SIMULATED, Kube


def follow(kube: Kube, version: str, **more: Any) -> Iterator[dict[str, Any]]:
    options = {"resource_version": version, "timeout_seconds": 10, **more}
    yield from watch.Watch(return_type="object").stream(kube.client.list_namespaced_pod, NAMESPACE, **options)


def version(kube: Kube) -> str:
    return str(kube.call("GET", f"{PODS}?limit=1")["metadata"]["resourceVersion"])


def until_deleted(events: Iterator[dict[str, Any]], name: str) -> list[str]:
    seen = []
    for event in events:
        seen.append(event["type"])
        if event["type"] == "DELETED" and event["object"]["metadata"]["name"] == name:
            break
    return seen


def test_a_watch_tells_a_whole_life_in_order(kube: Kube) -> None:
    start = version(kube)
    kube.create("life", nodeSelector=SIMULATED)
    kube.ready("life")
    kube.delete("life")
    seen = until_deleted(follow(kube, start), "life")
    assert seen[0] == "ADDED"
    assert seen[-1] == "DELETED"
    assert set(seen[1:-1]) == {"MODIFIED"}


def test_a_watch_without_a_version_begins_with_what_is_there(kube: Kube) -> None:
    kube.create("present", nodeSelector=SIMULATED)
    first = next(follow(kube, "0"))
    assert (first["type"], first["object"]["metadata"]["name"]) == ("ADDED", "present")


def test_a_selective_watch_sees_objects_come_and_go(kube: Kube) -> None:
    start = version(kube)
    kube.create("labelled", labels={"color": "red"}, nodeSelector=SIMULATED)
    kube.create("other", nodeSelector=SIMULATED)
    patch = {"metadata": {"labels": {"color": "blue"}}}
    kube.call("PATCH", f"{PODS}/labelled", patch, "application/merge-patch+json")
    events = list(follow(kube, start, label_selector="color=red", timeout_seconds=1))
    assert {event["object"]["metadata"]["name"] for event in events} == {"labelled"}
    assert (events[0]["type"], events[-1]["type"]) == ("ADDED", "DELETED")


def test_an_old_version_is_gone_after_compaction(kube: Kube) -> None:
    start = version(kube)
    kube.create("later", nodeSelector=SIMULATED)
    kube.call("POST", "/localkube/compact")
    with pytest.raises(ApiException) as caught:
        next(follow(kube, start))
    assert caught.value.status == 410
    assert "too old resource version" in caught.value.reason


def test_a_version_from_before_a_restart_is_gone(kube: Kube) -> None:
    with pytest.raises(ApiException) as caught:
        next(follow(kube, "1764000000000000"))
    assert caught.value.status == 410


def test_watches_can_be_cut_and_resumed_without_a_loss(kube: Kube) -> None:
    start = version(kube)
    events = follow(kube, start)
    kube.create("before", nodeSelector=SIMULATED)
    last = next(events)["object"]["metadata"]["resourceVersion"]
    kube.call("POST", "/localkube/close-watches")
    remaining = list(events)
    kube.create("after", nodeSelector=SIMULATED)
    resumed = follow(kube, remaining[-1]["object"]["metadata"]["resourceVersion"] if remaining else last)
    assert any(event["object"]["metadata"]["name"] == "after" for event in resumed)


def test_bookmarks_carry_the_version_on(kube: Kube) -> None:
    """At the latest two seconds before the watch ends in good order."""
    start = version(kube)
    kube.call("POST", "/api/v1/namespaces", {"metadata": {"name": "elsewhere"}})
    kube.call("DELETE", "/api/v1/namespaces/elsewhere")
    events = list(follow(kube, start, timeout_seconds=3, allow_watch_bookmarks=True))
    assert events[-1]["type"] == "BOOKMARK"
    assert int(events[-1]["object"]["metadata"]["resourceVersion"]) > int(start)


async def test_a_quiet_watch_sleeps_also_when_it_wants_no_bookmarks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "BOOKMARK_SECONDS", 0.02)
    watcher = store.Store().collections["pods"].watch(store.Wanted(), "")
    before = time.process_time()
    assert [chunk async for chunk in watcher.stream(1.0, bookmarks=False)] == []
    assert time.process_time() - before < 0.5


def test_every_watcher_gets_the_same_bytes(kube: Kube) -> None:
    start = version(kube)
    kube.create("shared", nodeSelector=SIMULATED)
    kube.ready("shared")
    lines = [raw_lines(kube, start) for _ in range(2)]
    assert lines[0][:3] == lines[1][:3]
    assert json.loads(lines[0][0])["object"]["kind"] == "Pod"


def raw_lines(kube: Kube, start: str) -> list[bytes]:
    connection = open_watch(kube, start, "timeoutSeconds=1")
    with connection.getresponse() as answer:
        lines = answer.read().splitlines()
    connection.close()
    return lines


def open_watch(kube: Kube, start: str, query: str) -> http.client.HTTPConnection:
    connection = http.client.HTTPConnection(kube.process.url.removeprefix("http://"), timeout=20)
    path = f"{PODS}?watch=true&resourceVersion={start}&{query}"
    connection.request("GET", path, headers={"Authorization": f"Bearer {kube.process.token}"})
    return connection
