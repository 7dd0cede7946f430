"""Changes of what is there: three kinds of patches, and what none of them may change."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from sandboxes.cluster.errors import Rejected
from tests.contract.kube import JSON_PATCH, MERGE, STRATEGIC, Json, Kube
from tests.contract.sightings import Seen

LABELS = {"a": "1", "b": "2"}


@pytest.fixture
def parked(kube: Kube) -> Iterator[Json]:
    return kube.park("one", metadata={"labels": LABELS, "annotations": {"note": "x"}})


def fields(status: Json) -> set[str]:
    """A real API server checks changes twice and tells of each mistake as often."""
    return {cause["field"] for cause in status["details"]["causes"]}


def first_line(message: str) -> str:
    """The others are a comparison of Go structures."""
    return message.partition("\n")[0]


def labels(kube: Kube) -> Json:
    found: Json = kube.pod("one")["metadata"].get("labels", {})
    return found


@pytest.mark.parametrize("content_type", [MERGE, STRATEGIC])
def test_a_merge_adds_replaces_and_removes(kube: Kube, parked: Json, content_type: str) -> None:
    answer = kube.patch("one", {"metadata": {"labels": {"a": None, "b": "3", "c": "4"}}}, content_type)
    assert answer.status == 200
    assert answer.body["metadata"]["labels"] == {"b": "3", "c": "4"}
    assert answer.body == kube.pod("one")
    assert int(answer.body["metadata"]["resourceVersion"]) > int(parked["metadata"]["resourceVersion"])


def test_a_patch_that_changes_nothing_makes_no_version(kube: Kube, parked: Json) -> None:
    for content_type in (MERGE, STRATEGIC):
        answer = kube.patch("one", {"metadata": {"labels": {"a": "1"}}}, content_type)
        assert answer.body["metadata"]["resourceVersion"] == parked["metadata"]["resourceVersion"]


def test_a_strategic_merge_finds_containers_by_name(kube: Kube, parked: Json) -> None:
    body = {"spec": {"containers": [{"name": "main", "image": kube.other_image}]}}
    container = kube.patch("one", body, STRATEGIC).body["spec"]["containers"][0]
    assert container["image"] == kube.other_image
    assert container["command"] == parked["spec"]["containers"][0]["command"]


def test_a_plain_merge_replaces_the_whole_list(kube: Kube, parked: Json, seen: Seen) -> None:
    answer = kube.patch("one", {"spec": {"containers": [{"name": "main", "image": kube.other_image}]}}, MERGE)
    assert (answer.status, answer.reason) == (422, "Invalid")
    assert seen("patch-whole-list", answer.body)["reason"] == "Invalid"


def test_the_product_changes_an_image(kube: Kube) -> None:
    kube.park("ours", container={"name": "sandbox"})
    pod = kube.client.patch_image("ours", kube.other_image)
    assert pod.image == kube.other_image
    assert "agentbox.io/image-changed" in kube.pod("ours")["metadata"]["annotations"]


def test_a_json_patch_goes_step_by_step(kube: Kube, parked: Json) -> None:
    steps = [
        {"op": "test", "path": "/metadata/labels/a", "value": "1"},
        {"op": "replace", "path": "/metadata/labels/a", "value": "5"},
        {"op": "remove", "path": "/metadata/labels/b"},
        {"op": "add", "path": "/metadata/labels/c~1d", "value": "6"},
        {"op": "copy", "from": "/metadata/labels/a", "path": "/metadata/labels/e"},
        {"op": "move", "from": "/metadata/annotations/note", "path": "/metadata/annotations/moved"},
        {"op": "replace", "path": "/spec/containers/0/image", "value": kube.other_image},
    ]
    answer = kube.patch("one", steps, JSON_PATCH)
    assert answer.status == 200, answer
    assert labels(kube) == {"a": "5", "c/d": "6", "e": "5"}
    assert kube.pod("one")["metadata"]["annotations"] == {"moved": "x"}
    assert answer.body["spec"]["containers"][0]["image"] == kube.other_image


def test_a_json_patch_whose_test_fails_changes_nothing(kube: Kube, parked: Json) -> None:
    steps = [
        {"op": "replace", "path": "/metadata/labels/a", "value": "5"},
        {"op": "test", "path": "/metadata/labels/b", "value": "other"},
    ]
    answer = kube.patch("one", steps, JSON_PATCH)
    assert (answer.status, answer.reason) == (422, "Invalid")
    assert labels(kube) == LABELS


@pytest.mark.parametrize(
    ("steps", "code"),
    [
        ([{"op": "remove", "path": "/metadata/labels/nothing"}], 422),
        ([{"op": "add", "path": "/metadata/nothing/there", "value": "a"}], 422),
        ([{"op": "replace", "path": "/spec/containers/7/image", "value": "a"}], 422),
        ([{"op": "conjure", "path": "/metadata/labels/a"}], 422),
        ({"op": "remove"}, 400),
    ],
)
def test_a_bad_json_patch_is_refused(kube: Kube, parked: Json, steps: Any, code: int) -> None:
    answer = kube.patch("one", steps, JSON_PATCH)
    assert answer.status == code, answer
    assert kube.pod("one") == parked


@pytest.mark.parametrize(
    ("case", "patch"),
    [
        ("node", {"spec": {"nodeName": "there"}}),
        ("restart-policy", {"spec": {"restartPolicy": "Always"}}),
        ("command", {"spec": {"containers": [{"name": "main", "command": ["/bin/true"]}]}}),
        ("more-containers", {"spec": {"containers": [{"name": "second", "image": "contract:1"}]}}),
    ],
)
def test_what_may_not_change_is_refused(kube: Kube, parked: Json, seen: Seen, case: str, patch: Json) -> None:
    answer = kube.patch("one", patch, STRATEGIC)
    expected = seen(f"immutable-{case}", answer.body)
    assert (answer.status, answer.reason) == (422, "Invalid")
    assert fields(answer.body) == fields(expected)
    assert first_line(answer.message) == first_line(expected["message"])
    assert kube.pod("one") == parked


@pytest.mark.parametrize("field", ["name", "namespace", "uid"])
def test_an_identity_may_not_change(kube: Kube, parked: Json, seen: Seen, field: str) -> None:
    answer = kube.patch("one", {"metadata": {field: "another"}})
    expected = seen(f"identity-{field}", answer.body)
    assert (answer.status, answer.message) == (expected["code"], expected["message"])
    assert kube.pod("one") == parked


@pytest.mark.parametrize("field", ["creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"])
def test_what_the_server_alone_writes_stays(kube: Kube, parked: Json, field: str) -> None:
    value = 7 if field.endswith("Seconds") else "2020-01-01T00:00:00Z"
    kube.patch("one", {"metadata": {field: value}})
    assert kube.pod("one")["metadata"].get(field) == parked["metadata"].get(field)


@pytest.mark.parametrize("content_type", [MERGE, STRATEGIC])
def test_a_status_in_a_patch_is_passed_over(kube: Kube, parked: Json, content_type: str) -> None:
    body = {"metadata": {"labels": {"a": "5"}}, "status": {"phase": "Running", "podIP": "192.0.2.1"}}
    answer = kube.patch("one", body, content_type)
    assert answer.status == 200
    assert answer.body["status"] == parked["status"]
    assert labels(kube)["a"] == "5"


def test_a_patch_of_an_older_version_is_a_conflict(kube: Kube, parked: Json, seen: Seen) -> None:
    version = parked["metadata"]["resourceVersion"]
    first = kube.patch("one", {"metadata": {"resourceVersion": version, "labels": {"a": "5"}}})
    assert first.status == 200
    second = kube.patch("one", {"metadata": {"resourceVersion": version, "labels": {"a": "6"}}})
    assert (second.status, second.reason) == (409, "Conflict")
    assert second.message == seen("patch-conflict", second.body)["message"]
    assert labels(kube)["a"] == "5"


@pytest.mark.parametrize("content_type", ["application/json", "text/plain", "application/x-unknown"])
def test_a_patch_of_no_known_kind_is_refused(kube: Kube, parked: Json, seen: Seen, content_type: str) -> None:
    answer = kube.patch("one", {"metadata": {}}, content_type)
    assert (answer.status, answer.reason) == (415, "UnsupportedMediaType")
    assert answer.message == seen("patch-media-type", answer.body)["message"]


@pytest.mark.parametrize(
    ("case", "metadata"),
    [
        ("label-value", {"labels": {"a": "not allowed"}}),
        ("label-key", {"labels": {"-a": "x"}}),
        ("finalizer", {"finalizers": ["unqualified"]}),
    ],
)
def test_words_that_are_not_allowed_are_refused(
    kube: Kube, parked: Json, seen: Seen, case: str, metadata: Json
) -> None:
    body = {"metadata": metadata}
    answer = kube.patch("one", body)
    assert (answer.status, answer.reason) == (422, "Invalid")
    assert answer.message == seen(f"patch-bad-{case}", answer.body)["message"]
    assert kube.pod("one") == parked
    with pytest.raises(Rejected):
        kube.client.call("PATCH", f"{kube.pods}/one", body=body, content_type=STRATEGIC)


def test_what_is_no_json_is_refused(kube: Kube, parked: Json) -> None:
    for content_type in (MERGE, STRATEGIC, JSON_PATCH):
        assert kube.patch("one", "words", content_type).status == 400
        assert kube.patch("one", 5, content_type).status == 400
