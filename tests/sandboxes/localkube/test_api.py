"""The verbs on objects, as a client notices them."""

import json
import urllib.error
import urllib.request
from typing import Any

import pytest

from .conftest import NAMESPACE, PODS, SIMULATED, Json, Kube, container_state, manifest, wait_for

MERGE, STRATEGIC = "application/merge-patch+json", "application/strategic-merge-patch+json"
ONE = {"name": "a", "image": "base"}
QUOTAS = f"/api/v1/namespaces/{NAMESPACE}/resourcequotas"


def refusal(kube: Kube, method: str, path: str, body: Any = None, content_type: str = "application/json") -> Json:
    """The Status object of a request that must fail."""
    with pytest.raises(urllib.error.HTTPError) as caught:
        kube.call(method, path, body, content_type)
    with caught.value as answer:
        status: Json = json.loads(answer.read())
    assert status["code"] == caught.value.code
    return status


def test_a_request_without_the_token_is_refused(kube: Kube) -> None:
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(f"{kube.process.url}{PODS}", timeout=5)
    caught.value.close()
    assert caught.value.code == 401


def test_the_kubeconfig_is_private_and_names_the_namespace(kube: Kube) -> None:
    assert kube.process.kubeconfig.stat().st_mode & 0o777 == 0o600
    assert '"namespace": "agentbox"' in kube.process.kubeconfig.read_text()


def test_the_typed_client_sees_nodes_namespaces_and_a_pod(kube: Kube) -> None:
    kube.create("typed", nodeSelector=SIMULATED)
    assert {node.metadata.name for node in kube.client.list_node().items} == {"here", "simulated-0", "simulated-1"}
    assert {each.metadata.name for each in kube.client.list_namespace().items} >= {"agentbox", "default", "kube-system"}
    assert kube.client.read_namespaced_pod("typed", NAMESPACE).spec.containers[0].image == "base"


def test_creating_the_same_pod_twice_is_a_conflict(kube: Kube) -> None:
    kube.create("twice", nodeSelector=SIMULATED)
    assert refusal(kube, "POST", PODS, manifest("twice"))["reason"] == "AlreadyExists"


@pytest.mark.parametrize(
    ("change", "code", "field"),
    [
        ({"metadata": {"name": "Not_A_Name"}}, 422, "metadata.name"),
        ({"metadata": {}}, 422, "metadata.name"),
        ({"metadata": {"name": "a", "labels": {"x": 1}}}, 400, "metadata.labels"),
        ({"metadata": {"name": "a", "namespace": "default"}}, 400, "namespace"),
        ({"metadata": 5}, 400, "metadata"),
        ({"spec": {}}, 422, "spec.containers"),
        ({"spec": {"containers": [{"name": "a"}]}}, 422, "spec.containers[0].image"),
        ({"spec": {"containers": [ONE, ONE]}}, 422, "spec.containers[1]"),
        ({"spec": {"containers": [ONE], "restartPolicy": "Perhaps"}}, 422, "restartPolicy"),
        ({"spec": {"containers": [ONE | {"resources": {"limits": {"cpu": "x"}}}]}}, 400, "quantities"),
    ],
)
def test_a_bad_pod_is_refused_with_its_field(kube: Kube, change: dict[str, Any], code: int, field: str) -> None:
    status = refusal(kube, "POST", PODS, manifest("fine") | change)
    assert status["code"] == code
    assert field in status["message"]


def test_requests_above_limits_are_refused(kube: Kube) -> None:
    resources = {"limits": {"memory": "64Mi"}, "requests": {"memory": "1Gi"}}
    status = refusal(kube, "POST", PODS, manifest("greedy", container={"resources": resources}))
    assert "must be less than or equal to memory limit of 64Mi" in status["message"]


def test_what_is_not_there_or_not_allowed_says_so(kube: Kube) -> None:
    assert refusal(kube, "GET", f"{PODS}/nobody")["message"] == 'pods "nobody" not found'
    assert refusal(kube, "GET", "/api/v1/gadgets")["code"] == 404
    assert refusal(kube, "GET", "/apis/apps/v1")["code"] == 404
    assert refusal(kube, "PUT", f"{PODS}/nobody", {})["code"] == 405
    assert refusal(kube, "POST", "/api/v1/namespaces/nowhere/pods", manifest("a"))["code"] == 404


def test_lists_are_selected_by_label_and_field(kube: Kube) -> None:
    for name, app in (("one", "a"), ("two", "b"), ("three", "")):
        kube.create(name, labels={"app": app} if app else {}, nodeSelector=SIMULATED)
    assert kube.names(labelSelector="app%3Da") == ["one"]
    assert kube.names(labelSelector="app%20in%20(a,b)") == ["one", "two"]
    assert kube.names(labelSelector="!app") == ["three"]
    assert kube.names(labelSelector="app,app!%3Db") == ["one"]
    assert kube.names(fieldSelector="metadata.name%3Dtwo") == ["two"]
    assert set(kube.names(fieldSelector="spec.nodeName!%3Dhere")) == {"one", "two", "three"}
    assert refusal(kube, "GET", f"{PODS}?fieldSelector=spec.color%3Dred")["code"] == 400
    assert refusal(kube, "GET", f"{PODS}?labelSelector=%2C%2C")["code"] == 400


def test_pages_of_a_list_come_from_one_moment(kube: Kube) -> None:
    for number in range(7):
        kube.create(f"page-{number}", nodeSelector=SIMULATED)
    first = kube.call("GET", f"{PODS}?limit=3")
    kube.delete("page-5", gracePeriodSeconds=0)
    kube.create("page-7", nodeSelector=SIMULATED)
    second = kube.call("GET", f"{PODS}?limit=3&continue={first['metadata']['continue']}")
    third = kube.call("GET", f"{PODS}?limit=3&continue={second['metadata']['continue']}")
    names = [item["metadata"]["name"] for page in (first, second, third) for item in page["items"]]
    assert names == [f"page-{number}" for number in range(7)]
    assert first["metadata"]["remainingItemCount"] == 4
    assert third["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    assert "continue" not in third["metadata"]


def test_a_continue_token_expires_with_compaction(kube: Kube) -> None:
    for number in range(3):
        kube.create(f"page-{number}", nodeSelector=SIMULATED)
    token = kube.call("GET", f"{PODS}?limit=1")["metadata"]["continue"]
    kube.call("POST", "/localkube/compact")
    assert refusal(kube, "GET", f"{PODS}?limit=1&continue={token}")["reason"] == "Expired"
    assert refusal(kube, "GET", f"{PODS}?limit=1&continue=%21")["code"] == 400


def test_a_list_from_the_future_is_refused(kube: Kube) -> None:
    assert refusal(kube, "GET", f"{PODS}?resourceVersion={10**17}")["code"] == 504


def test_deletion_checks_its_preconditions(kube: Kube) -> None:
    pod = kube.create("guarded", nodeSelector=SIMULATED)
    kube.ready("guarded")
    path = f"{PODS}/guarded"
    assert refusal(kube, "DELETE", path, {"preconditions": {"uid": "another"}})["reason"] == "Conflict"
    version = pod["metadata"]["resourceVersion"]
    assert refusal(kube, "DELETE", path, {"preconditions": {"resourceVersion": version}})["reason"] == "Conflict"
    marked = kube.delete("guarded", preconditions={"uid": pod["metadata"]["uid"]})
    assert marked["metadata"]["deletionGracePeriodSeconds"] == 1
    kube.gone("guarded")


def test_a_patch_changes_metadata_and_images_and_nothing_else(kube: Kube) -> None:
    kube.create("patched", labels={"a": "1", "b": "2"}, nodeSelector=SIMULATED)
    kube.ready("patched")
    path = f"{PODS}/patched"
    labels = kube.call("PATCH", path, {"metadata": {"labels": {"a": None, "c": "3"}}}, MERGE)["metadata"]["labels"]
    assert labels == {"b": "2", "c": "3"}
    image = {"spec": {"containers": [{"name": "main", "image": "base:2"}]}}
    container = kube.call("PATCH", path, image, STRATEGIC)["spec"]["containers"][0]
    assert container["image"] == "base:2"
    assert container["command"]
    assert refusal(kube, "PATCH", path, {"spec": {"nodeName": "there"}}, MERGE)["code"] == 422
    assert refusal(kube, "PATCH", path, {"metadata": {"resourceVersion": "1"}}, MERGE)["code"] == 409
    assert refusal(kube, "PATCH", path, {}, "application/x-unknown")["code"] == 415


def test_a_quota_refuses_in_the_real_words_and_counts(kube: Kube) -> None:
    quota = {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "2", "requests.memory": "1Gi"}}}
    kube.call("POST", QUOTAS, quota)
    try:
        memory = {"resources": {"requests": {"memory": "256Mi"}}}
        kube.create("q-1", container=memory, nodeSelector=SIMULATED)
        kube.create("q-2", container=memory, nodeSelector=SIMULATED)
        status = refusal(kube, "POST", PODS, manifest("q-3", container=memory))
        assert status["reason"] == "Forbidden"
        words = "exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2"
        assert status["message"] == f'pods "q-3" is forbidden: {words}'
        assert kube.call("GET", f"{QUOTAS}/q")["status"]["used"] == {"pods": "2", "requests.memory": "512Mi"}
        assert "must specify requests.memory for: main" in refusal(kube, "POST", PODS, manifest("q-4"))["message"]
        kube.delete("q-1")
        kube.gone("q-1")
        kube.create("q-3", container=memory, nodeSelector=SIMULATED)
    finally:
        kube.call("DELETE", f"{QUOTAS}/q")


def test_a_pod_that_fits_nowhere_waits_with_the_schedulers_words_until_there_is_room(kube: Kube) -> None:
    cpu = {"resources": {"requests": {"cpu": "900"}}}
    kube.create("big-1", container=cpu, nodeSelector={**SIMULATED, "kubernetes.io/hostname": "simulated-0"})
    kube.create("big-2", container=cpu, nodeSelector={**SIMULATED, "kubernetes.io/hostname": "simulated-0"})
    pod = kube.pod("big-2")
    scheduled = next(each for each in pod["status"]["conditions"] if each["type"] == "PodScheduled")
    assert (scheduled["status"], scheduled["reason"]) == ("False", "Unschedulable")
    assert scheduled["message"].startswith("0/3 nodes are available: 1 Insufficient cpu, 2 node(s) didn't match")
    kube.delete("big-1")
    kube.ready("big-2")


def test_deleting_a_namespace_takes_its_pods(kube: Kube) -> None:
    kube.call("POST", "/api/v1/namespaces", {"metadata": {"name": "short-lived"}})
    pods = "/api/v1/namespaces/short-lived/pods"
    kube.call("POST", pods, manifest("inside", nodeSelector=SIMULATED))
    kube.call("DELETE", "/api/v1/namespaces/short-lived")
    assert kube.call("GET", pods)["items"] == []
    assert refusal(kube, "GET", "/api/v1/namespaces/short-lived")["code"] == 404


def test_events_tell_a_pods_story(kube: Kube) -> None:
    kube.create("story", nodeSelector=SIMULATED)
    kube.ready("story")
    path = f"/api/v1/namespaces/{NAMESPACE}/events?fieldSelector=involvedObject.name%3Dstory"
    reasons = [event["reason"] for event in kube.call("GET", path)["items"]]
    assert sorted(reasons) == ["Created", "Pulled", "Scheduled", "Started"]


def test_a_pod_without_a_selector_goes_to_the_real_node(kube: Kube) -> None:
    kube.create("plain", image="missing")
    pod = wait_for(lambda: kube.pod("plain"), lambda pod: "waiting" in container_state(pod))
    assert pod["spec"]["nodeName"] == "here"
