"""A node that falls silent: what its conditions say, and what becomes of its Pods.

On the real cluster it is a Node object without a kubelet: after 50 s the node controller notices. On localkube it is a
simulated node, lost by a switch.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from sandboxes.cluster.client import connect
from sandboxes.cluster.snapshot import parse
from tests.contract import judges
from tests.contract.conftest import ON
from tests.contract.kube import MERGE, Json, Judge, Kube, condition, until
from tests.contract.lives import as_seen, becomes, said
from tests.contract.sightings import Seen

KINDS = ("MemoryPressure", "DiskPressure", "PIDPressure", "Ready")
NODES = "/api/v1/nodes"
SILENCE = 120.0


@dataclass(frozen=True)
class Doomed:
    """A node of its own, and a Pod on it that is ready. `lose` makes the node fall silent."""

    kube: Kube
    name: str
    lose: Callable[[], object]

    def node(self) -> Json:
        return self.kube.client.call("GET", f"{NODES}/{self.name}")

    def create(self, name: str) -> None:
        self.kube.create(name, nodeSelector={"kubernetes.io/hostname": self.name})


@pytest.fixture(params=ON)
def doomed(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Doomed]:
    if request.param == "localkube":
        with judges.simulated(tmp_path, node_eviction=600) as (judge, own):
            lose = partial(own.call, "POST", "/localkube/nodes/simulated-0/down")
            node = Doomed(Kube(judge, "agentbox"), "simulated-0", lose)
            node.create("on-it")
            becomes(node.kube, "on-it", lambda pod: pod.ready)
            yield node
        return
    judge = request.getfixturevalue("kubernetes")
    yield from without_kubelet(judge, f"contract-{secrets.token_hex(3)}")


def without_kubelet(judge: Judge, name: str) -> Iterator[Doomed]:
    """A node and a namespace of that name; the Pod is said to be ready by nobody but us."""
    admin, kube = connect(judge.kubeconfig, "default"), Kube(judge, name)
    admin.call("POST", "/api/v1/namespaces", body={"metadata": {"name": name}})
    admin.call("POST", NODES, body={"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}})
    try:
        accounts = kube.path("serviceaccounts", "default")
        until(lambda: kube.call("GET", accounts).status, lambda status: status == 200)
        room = {"cpu": "4", "memory": "4Gi", "pods": "10"}
        status = {"capacity": room, "allocatable": room, "conditions": [well(kind) for kind in KINDS]}
        admin.call("PATCH", f"{NODES}/{name}/status", body={"status": status}, content_type=MERGE)
        node = Doomed(kube, name, lambda: None)
        node.create("on-it")
        becomes(kube, "on-it", lambda pod: pod.scheduled)
        kube.call("PATCH", f"{kube.pods}/on-it/status", {"status": running(kube.pod("on-it"))}, MERGE)
        yield node
        for each in kube.names():
            kube.delete(each, gracePeriodSeconds=0)
    finally:
        admin.call("DELETE", f"{NODES}/{name}")
        admin.call("DELETE", f"/api/v1/namespaces/{name}")


def well(kind: str) -> dict[str, Any]:
    now = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
    status = "True" if kind == "Ready" else "False"
    times = {"lastHeartbeatTime": now, "lastTransitionTime": now}
    return {"type": kind, "status": status, "reason": "Contract", "message": "Said by the test."} | times


def running(pod: Json) -> Json:
    """What a kubelet would write."""
    now = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
    true = {"status": "True", "lastTransitionTime": now}
    kinds = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    container = {"name": "main", "image": pod["spec"]["containers"][0]["image"], "imageID": "", "restartCount": 0}
    container |= {
        "containerID": f"containerd://{'0' * 64}",
        "ready": True,
        "started": True,
        "state": {"running": {"startedAt": now}},
        "lastState": {},
    }
    conditions = [{"type": kind} | true for kind in kinds]
    status = {"phase": "Running", "conditions": conditions, "containerStatuses": [container], "startTime": now}
    return status | {"podIP": "192.0.2.1", "podIPs": [{"ip": "192.0.2.1"}]}


def test_a_silent_node_is_unknown_and_its_pods_are_not_ready(doomed: Doomed) -> None:
    kube, seen = doomed.kube, Seen(doomed.kube)
    assert {kind: condition(doomed.node(), kind)["status"] for kind in KINDS} == {
        "MemoryPressure": "False", "DiskPressure": "False", "PIDPressure": "False", "Ready": "True"
    }  # fmt: skip
    doomed.lose()
    node = until(doomed.node, lambda node: condition(node, "Ready")["status"] == "Unknown", SILENCE)
    silent = ("Unknown", "NodeStatusUnknown", "Kubelet stopped posting node status.")
    for kind in KINDS:
        found = condition(node, kind)
        assert (found["status"], found["reason"], found["message"]) == silent, kind
    unreachable = ("node.kubernetes.io/unreachable", {"NoSchedule", "NoExecute"})
    node = until(doomed.node, lambda node: taints(node) == unreachable)

    pod = becomes(kube, "on-it", lambda pod: not pod.ready)
    assert (parse(pod).phase, condition(pod, "ContainersReady")["status"]) == ("Running", "True")
    as_seen(seen, "node-lost", pod)
    assert said(kube, "on-it", "NodeNotReady", "Node is not ready$")["type"] == "Warning"

    doomed.create("late")
    late = parse(becomes(kube, "late", lambda pod: pod.unschedulable))
    assert "1 node(s) had untolerated taint(s)" in late.unschedulable

    kube.delete("on-it")
    assert parse(kube.pod("on-it")).deleting, "nobody is there to end it"
    kube.delete("on-it", gracePeriodSeconds=0)
    kube.gone("on-it")


def test_a_node_that_serves_says_so_in_every_condition(kube: Kube) -> None:
    conditions = {
        "MemoryPressure": ("False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
        "DiskPressure": ("False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        "PIDPressure": ("False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
        "Ready": ("True", "KubeletReady", "kubelet is posting ready status"),
    }
    nodes = kube.client.call("GET", NODES)["items"]
    (node,) = [each for each in nodes if condition(each, "Ready").get("reason") == "KubeletReady"]
    for kind, words in conditions.items():
        found = condition(node, kind)
        assert (found["status"], found["reason"], found["message"]) == words
    assert {"cpu", "memory", "pods"} <= node["status"]["allocatable"].keys()


def taints(node: Json) -> tuple[str, set[str]]:
    found = node["spec"].get("taints") or ()
    return next((each["key"] for each in found), ""), {each["effect"] for each in found}
