"""What may come into being, and in which words it may not."""

from __future__ import annotations

import re
from typing import Any

import pytest

from sandboxes.cluster.errors import AlreadyExists, Gone, Rejected
from tests.contract.kube import Answer, Json, Kube
from tests.contract.sightings import Seen

CAUSES = ("field", "reason")


def create(kube: Kube, body: Json) -> Answer:
    return kube.call("POST", kube.pods, body)


def causes(status: Json) -> list[Json]:
    return [{name: cause[name] for name in CAUSES} for cause in status["details"]["causes"]]


def test_a_new_pod_is_pending_and_has_an_identity(kube: Kube) -> None:
    pod = kube.park("new", metadata={"resourceVersion": "", "labels": {"a": "b"}})
    metadata = pod["metadata"]
    assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", metadata["uid"])
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", metadata["creationTimestamp"])
    assert metadata["resourceVersion"].isdigit()
    assert (metadata["namespace"], metadata["labels"]) == (kube.namespace, {"a": "b"})
    assert pod["status"]["phase"] == "Pending"
    assert pod == kube.pod("new")


def test_a_status_that_comes_with_a_new_pod_is_not_believed(kube: Kube) -> None:
    body = kube.manifest("boaster", schedulerName="nobody") | {"status": {"phase": "Running", "podIP": "192.0.2.1"}}
    status = create(kube, body).body["status"]
    assert (status["phase"], "podIP" in status) == ("Pending", False)


def test_a_name_is_given_out_once(kube: Kube, seen: Seen) -> None:
    kube.park("twice")
    answer = create(kube, kube.manifest("twice"))
    assert (answer.status, answer.reason) == (409, "AlreadyExists")
    assert answer.message == seen("already-exists", answer.body)["message"]
    with pytest.raises(AlreadyExists):
        kube.client.create(kube.manifest("twice"))


def test_a_name_may_be_made_up_by_the_server(kube: Kube) -> None:
    body = kube.manifest("x", schedulerName="nobody")
    body["metadata"] = {"generateName": "made-"}
    names = [create(kube, body).body["metadata"]["name"] for _ in range(2)]
    assert all(re.fullmatch(r"made-[a-z0-9]{5}", name) for name in names)
    assert names[0] != names[1]


def test_a_namespace_must_be_there_and_be_the_one_of_the_path(kube: Kube, seen: Seen) -> None:
    answer = kube.call("POST", "/api/v1/namespaces/nowhere-at-all/pods", kube.manifest("a"))
    assert (answer.status, answer.reason) == (404, "NotFound")
    assert answer.message == seen("namespace-missing", answer.body)["message"]
    answer = create(kube, kube.manifest("a", metadata={"namespace": "default"}))
    assert (answer.status, answer.reason) == (400, "BadRequest")
    assert "the namespace of the provided object does not match the namespace sent on the request" in answer.message


BAD: dict[str, tuple[Json, Json, Json]] = {
    "name-bad": ({"name": "Not_A_Name"}, {}, {}),
    "name-missing": ({"name": ""}, {}, {}),
    "name-long": ({"name": "a" * 254}, {}, {}),
    "label-value-bad": ({"labels": {"app": "not allowed"}}, {}, {}),
    "label-value-long": ({"labels": {"app": "x" * 64}}, {}, {}),
    "label-key-bad": ({"labels": {"-app": "a"}}, {}, {}),
    "annotation-key-bad": ({"annotations": {"a b": "a"}}, {}, {}),
    "finalizer-bad": ({"finalizers": ["unqualified"]}, {}, {}),
    "containers-missing": ({}, {"containers": []}, {}),
    "image-missing": ({}, {}, {"image": ""}),
    "container-name-bad": ({}, {}, {"name": "Not_A_Name"}),
    "restart-policy-bad": ({}, {"restartPolicy": "Perhaps"}, {}),
    "request-above-limit": ({}, {}, {"resources": {"requests": {"memory": "2Gi"}, "limits": {"memory": "1Gi"}}}),
    "request-negative": ({}, {}, {"resources": {"requests": {"memory": "-1Gi"}}}),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_pod_is_refused_with_its_field(kube: Kube, seen: Seen, case: str) -> None:
    metadata, spec, container = BAD[case]
    body = kube.manifest("fine", metadata=metadata, container=container, **spec)
    answer = create(kube, body)
    expected = seen(f"refused-{case}", answer.body)
    assert (answer.status, answer.reason) == (422, "Invalid")
    assert (expected["code"], expected["reason"]) == (422, "Invalid")
    assert causes(answer.body) == causes(expected)
    assert answer.message == expected["message"]
    with pytest.raises(Rejected, match="is invalid"):
        kube.client.create(body)


@pytest.mark.parametrize(
    "changes",
    [
        {"metadata": 5},
        {"metadata": {"name": "a", "labels": {"x": 1}}},
        {"kind": "Node"},
        {"spec": {"containers": [{"name": "a", "image": "a", "resources": {"limits": {"cpu": "x"}}}]}},
    ],
)
def test_what_is_no_pod_at_all_is_refused(kube: Kube, changes: Json) -> None:
    answer = create(kube, kube.manifest("a") | changes)
    assert (answer.status, answer.reason) == (400, "BadRequest"), answer


def test_what_is_not_there_is_not_found(kube: Kube, seen: Seen) -> None:
    answer = kube.call("GET", f"{kube.pods}/nobody")
    assert (answer.status, answer.reason) == (404, "NotFound")
    assert answer.message == seen("pod-missing", answer.body)["message"]
    with pytest.raises(Gone, match='pods "nobody" not found'):
        kube.client.delete("nobody")
    assert kube.call("GET", "/api/v1/gadgets").status == 404
    assert kube.patch("nobody", {"metadata": {}}).status == 404


def test_lists_of_a_namespace_that_is_not_there_are_empty(kube: Kube) -> None:
    answer: Any = kube.call("GET", "/api/v1/namespaces/nowhere-at-all/pods")
    assert (answer.status, answer.body["items"]) == (200, [])
