"""The Pod of a sandbox: a pure function of what we want. Field names are Kubernetes' own."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

SANDBOX_LABEL = "agentbox.io/sandbox"
MANAGED_LABEL = "app.kubernetes.io/managed-by"
MANAGER = "agentbox"
SELECTOR = f"{MANAGED_LABEL}={MANAGER}"
"""Every Pod of ours and no other."""
GRACE_SECONDS = 1
"""envd exits at once on SIGTERM."""


@dataclass(frozen=True, slots=True)
class PodSpec:
    """What a sandbox's Pod needs. Memory in MiB, CPU in thousandths of a core."""

    name: str
    sandbox_id: str
    team: str
    env: str
    pool: str
    image: str
    cpu_millis: int
    memory_mib: int
    bootstrap_digest: str
    command: list[str]
    envd_port: int
    node_selector: dict[str, str] = field(default_factory=dict)


def manifest(pod: PodSpec) -> dict[str, Any]:
    """The Pod object to create. Nothing secret is in it: envd gets only the digest of its bootstrap token."""
    labels = {
        MANAGED_LABEL: MANAGER,
        SANDBOX_LABEL: pod.sandbox_id,
        "agentbox.io/team": pod.team,
        "agentbox.io/env": pod.env,
        "agentbox.io/pool": pod.pool,
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": pod.name, "labels": labels},
        "spec": {
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": GRACE_SECONDS,
            "nodeSelector": pod.node_selector,
            "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [container(pod)],
        },
    }


def container(pod: PodSpec) -> dict[str, Any]:
    resources = {"cpu": f"{pod.cpu_millis}m", "memory": f"{pod.memory_mib}Mi"}
    return {
        "name": "sandbox",
        "image": pod.image,
        "imagePullPolicy": "IfNotPresent",
        "command": pod.command,
        "env": [{"name": "ENVD_BOOTSTRAP_SHA256", "value": pod.bootstrap_digest}],
        "ports": [{"name": "envd", "containerPort": pod.envd_port}],
        "resources": {"requests": resources, "limits": resources},
        "securityContext": {"allowPrivilegeEscalation": False},
        "readinessProbe": {
            "httpGet": {"path": "/health", "port": pod.envd_port},
            "periodSeconds": 1,
            "failureThreshold": 3,
        },
    }
