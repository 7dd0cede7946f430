"""Pods as the API shows them, for tests of what we make of them."""

from __future__ import annotations

from typing import Any

from sandboxes.cluster.manifest import PodSpec
from sandboxes.cluster.snapshot import PodSnapshot, parse

SPEC = PodSpec(
    name="sb-iabc",
    sandbox_id="iabc",
    team="rl",
    env="base",
    pool="base-1c",
    image="base:1",
    cpu_millis=500,
    memory_mib=256,
    bootstrap_digest="d" * 64,
    command=["/opt/agentbox/bin/envd"],
    envd_port=49983,
    node_selector={"zone": "a"},
)


def pod_json(sandbox_id: str = "", **status: Any) -> dict[str, Any]:
    """A running, ready Pod; `status` fields replace those of its status."""
    labels = {"agentbox.io/sandbox": sandbox_id} if sandbox_id else {}
    metadata = {
        "name": f"sb-{sandbox_id or 'x'}",
        "uid": f"uid-{sandbox_id}",
        "resourceVersion": "7",
        "labels": labels,
        "creationTimestamp": "2026-11-29T10:00:00Z",
    }
    ready = [{"type": "Ready", "status": "True"}, {"type": "PodScheduled", "status": "True"}]
    spec = {"nodeName": "node-1", "containers": [{"image": "base:1"}]}
    running = {"phase": "Running", "podIP": "127.64.0.9", "conditions": ready}
    return {"metadata": metadata, "spec": spec, "status": running | status}


def pod(sandbox_id: str = "", **status: Any) -> PodSnapshot:
    return parse(pod_json(sandbox_id, **status))


def waiting(reason: str, message: str = "") -> dict[str, Any]:
    """The status fields of a Pod whose container waits."""
    return {
        "conditions": [],
        "phase": "Pending",
        "containerStatuses": [{"state": {"waiting": {"reason": reason, "message": message}}, "restartCount": 0}],
    }
