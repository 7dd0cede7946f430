"""What a namespace may use, and the words in which more is refused."""

from __future__ import annotations

import pytest

from sandboxes.cluster.errors import OverQuota, Rejected
from tests.contract.kube import Answer, Json, Kube, until
from tests.contract.sightings import Seen

MEMORY = {"resources": {"requests": {"memory": "64Mi"}}}
BOTH = {"resources": {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"cpu": "200m", "memory": "64Mi"}}}


def allow(kube: Kube, **hard: str) -> None:
    """A quota, once the cluster counts it."""
    spec = {"hard": {name.replace("_", "."): amount for name, amount in hard.items()}}
    kube.client.call("POST", kube.path("resourcequotas"), body={"metadata": {"name": "q"}, "spec": spec})
    until(lambda: quota(kube).get("status", {}), lambda status: "used" in status)


def quota(kube: Kube) -> Json:
    return kube.client.call("GET", kube.path("resourcequotas", "q"))


def used(kube: Kube) -> Json:
    found: Json = quota(kube)["status"]["used"]
    return found


def ask(kube: Kube, name: str, **changes: object) -> Answer:
    return kube.call("POST", kube.pods, kube.manifest(name, schedulerName="nobody", **changes))


def test_one_pod_too_many_is_refused(kube: Kube, seen: Seen) -> None:
    allow(kube, pods="1")
    kube.park("one")
    answer = ask(kube, "two")
    assert (answer.status, answer.reason) == (403, "Forbidden")
    words = 'pods "two" is forbidden: exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1'
    assert answer.message == words
    assert seen("quota-pods", answer.body)["message"] == words
    with pytest.raises(OverQuota):
        kube.client.create(kube.manifest("two"))


def test_all_that_is_exceeded_is_named(kube: Kube, seen: Seen) -> None:
    allow(kube, pods="1", requests_memory="100Mi", requests_cpu="150m", limits_cpu="1")
    assert ask(kube, "one", container=BOTH).status == 201
    answer = ask(kube, "two", container=BOTH)
    assert answer.status == 403
    assert answer.message == seen("quota-several", answer.body)["message"]


def test_short_names_count_requests(kube: Kube, seen: Seen) -> None:
    allow(kube, cpu="150m", memory="1Gi")
    assert ask(kube, "one", container=BOTH).status == 201
    answer = ask(kube, "two", container=BOTH)
    assert answer.message == seen("quota-short-names", answer.body)["message"]


def test_a_pod_that_does_not_say_what_it_needs_is_refused(kube: Kube, seen: Seen) -> None:
    allow(kube, requests_memory="1Gi", limits_cpu="2", requests_cpu="1")
    answer = ask(kube, "silent")
    assert (answer.status, answer.reason) == (403, "Forbidden")
    assert answer.message.startswith('pods "silent" is forbidden: failed quota: q: must specify ')
    assert answer.message == seen("quota-must-specify", answer.body)["message"]
    with pytest.raises(Rejected):
        kube.client.create(kube.manifest("silent"))


def test_a_limit_is_a_request_where_none_is_made(kube: Kube) -> None:
    allow(kube, requests_memory="64Mi")
    limit = {"resources": {"limits": {"memory": "64Mi"}}}
    assert ask(kube, "one", container=limit).status == 201
    assert ask(kube, "two", container=limit).status == 403


def test_counted_objects_have_a_name_too(kube: Kube, seen: Seen) -> None:
    allow(kube, **{"count/pods": "1"})
    kube.park("one")
    answer = ask(kube, "two")
    assert answer.status == 403
    assert answer.message == seen("quota-count", answer.body)["message"]


def test_the_quota_shows_what_is_used(kube: Kube) -> None:
    allow(kube, pods="5", requests_memory="1Gi", requests_cpu="1")
    kube.park("one", container=BOTH)
    assert used(kube) == {"pods": "1", "requests.memory": "64Mi", "requests.cpu": "100m"}


def test_a_deleted_pod_gives_back_what_it_used(kube: Kube) -> None:
    allow(kube, pods="1")
    kube.park("one")
    kube.delete("one")
    until(lambda: used(kube), lambda found: found == {"pods": "0"})
    assert ask(kube, "two").status == 201


def test_a_pod_that_is_over_gives_back_what_it_used(kube: Kube) -> None:
    """While it is still there to be read; only objects are counted on."""
    allow(kube, pods="1", **{"count/pods": "5"})
    kube.create("one", container={"command": ["/bin/sh", "-c", "exit 0"]})
    until(lambda: used(kube), lambda found: found == {"pods": "0", "count/pods": "1"})
    assert kube.is_there("one")
    assert ask(kube, "two").status == 201
