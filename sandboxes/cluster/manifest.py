"""The Pod of a sandbox: a pure function of what we want. Field names are Kubernetes' own.

What an env adds was checked when it was written (pools.pod_template); here only the fields that it may have are read.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pools.pod_template import ENVD_PLACE, OURS

SANDBOX_LABEL = "agentbox.io/sandbox"
MANAGED_LABEL = "app.kubernetes.io/managed-by"
MANAGER = "agentbox"
SELECTOR = f"{MANAGED_LABEL}={MANAGER}"
"""Every Pod of ours and no other."""
GRACE_SECONDS = 1
"""envd exits at once on SIGTERM."""
ENVD_VOLUME = f"{OURS}envd"
INSTALL_PLACE = "/target"
ENVD_ROOM = "128Mi"
"""Of the node's disk for envd: a broken install must not fill it."""
VARIABLE = "ENVD_VAR_"
"""An env's variables come to envd under this prefix and to commands without it, so that none of them (LD_PRELOAD,
PYTHONPATH) changes envd itself."""

CAPABILITIES = {
    "SETUID": "a call acts as the user that it names",
    "SETGID": "likewise, with that user's groups",
    "KILL": "its signals reach processes of those users",
    "CHOWN": "root's calls give files to users, as installing packages does",
    "DAC_OVERRIDE": "root's calls work in folders that users closed; oom_score_adj of their processes is written",
    "FOWNER": "root's calls set modes and times of users' files",
}
"""What envd keeps of root's powers, and why (envd/identity.py); where the image's user is not root, Linux gives none.
Left out of what runtimes grant by default: raw sockets, device files, chroot, audit, file capabilities, low ports."""

type Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class PodSpec:
    """What a sandbox's Pod needs. Memory and disk in MiB (no disk: no limit), CPU in thousandths of a core.

    Requests are what it reserves on its node; 0 means as much as it may use.
    """

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
    disk_mib: int = 0
    cpu_request_millis: int = 0
    memory_request_mib: int = 0
    envd_image: str = ""
    envd_install: list[str] = field(default_factory=list)
    runtime_class: str = ""
    node_selector: dict[str, str] = field(default_factory=dict)
    template: Json = field(default_factory=dict)


def manifest(pod: PodSpec) -> Json:
    """The Pod object to create. Nothing secret is in it: envd gets only the digest of its bootstrap token."""
    labels = {
        MANAGED_LABEL: MANAGER,
        SANDBOX_LABEL: pod.sandbox_id,
        "agentbox.io/team": pod.team,
        "agentbox.io/env": pod.env,
        "agentbox.io/pool": pod.pool,
    }
    spec = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": GRACE_SECONDS,
        "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [container(pod)],
    }
    metadata = {"name": pod.name, "labels": labels}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec | given(placement(pod))}


def placement(pod: PodSpec) -> Json:
    """Where it may run and what is brought to it. The pool knows its cluster, so its selector wins over the env's."""
    envd = [{"name": ENVD_VOLUME, "emptyDir": {"sizeLimit": ENVD_ROOM}}] if pod.envd_image else []
    return {
        "nodeSelector": pod.template.get("nodeSelector", {}) | pod.node_selector,
        "tolerations": pod.template.get("tolerations"),
        "runtimeClassName": pod.runtime_class or pod.template.get("runtimeClassName"),
        "imagePullSecrets": pod.template.get("imagePullSecrets"),
        "volumes": envd + pod.template.get("volumes", []),
        "initContainers": [installer(pod)] if pod.envd_image else None,
    }


def container(pod: PodSpec) -> Json:
    extra = pod.template.get("resources", {}).get("limits", {})
    envd = [{"name": ENVD_VOLUME, "mountPath": ENVD_PLACE, "readOnly": True}] if pod.envd_image else []
    made = {
        "name": "sandbox",
        "image": pod.image,
        "imagePullPolicy": "IfNotPresent",
        "command": pod.command,
        "env": [{"name": "ENVD_BOOTSTRAP_SHA256", "value": pod.bootstrap_digest}, *variables(pod)],
        "ports": [{"name": "envd", "containerPort": pod.envd_port}],
        "resources": resources(pod, extra),
        "securityContext": security([*CAPABILITIES]),
        "readinessProbe": {
            "httpGet": {"path": "/health", "port": pod.envd_port},
            "periodSeconds": 1,
            "failureThreshold": 3,
        },
    }
    return made | given({"volumeMounts": envd + pod.template.get("volumeMounts", [])})


def installer(pod: PodSpec) -> Json:
    """Copies envd into the Pod, then ends. It asks for no more than the sandbox itself, so it changes no placement."""
    return {
        "name": "envd",
        "image": pod.envd_image,
        "imagePullPolicy": "IfNotPresent",
        "command": pod.envd_install,
        "resources": resources(pod, {}),
        "securityContext": security([]) | {"readOnlyRootFilesystem": True},
        "volumeMounts": [{"name": ENVD_VOLUME, "mountPath": INSTALL_PLACE}],
    }


def resources(pod: PodSpec, extra: Json) -> Json:
    """Requests equal limits, but for CPU and memory of an instance type that reserves less than it may use."""
    limits = {"cpu": f"{pod.cpu_millis}m", "memory": f"{pod.memory_mib}Mi"}
    reserved = {
        "cpu": f"{pod.cpu_request_millis or pod.cpu_millis}m",
        "memory": f"{pod.memory_request_mib or pod.memory_mib}Mi",
    }
    if pod.disk_mib:
        limits["ephemeral-storage"] = f"{pod.disk_mib}Mi"
    limits |= {name: str(amount) for name, amount in extra.items()}
    return {"requests": limits | reserved, "limits": limits}


def security(add: list[str]) -> Json:
    capabilities = {"drop": ["ALL"]} | given({"add": add})
    return {"allowPrivilegeEscalation": False, "capabilities": capabilities}


def variables(pod: PodSpec) -> list[Json]:
    return [each | {"name": f"{VARIABLE}{each['name']}"} for each in pod.template.get("env", [])]


def given(fields: Json) -> Json:
    """Without those that say nothing."""
    return {name: value for name, value in fields.items() if value}
