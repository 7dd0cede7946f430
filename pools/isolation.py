"""Fields of a Pod that an env may not have, and why: what each would open, and the way out. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from .documents import Problem

DEEPEST = 12
NODE = "would put the sandbox into the node's own"
ROOT = "would give the sandbox the powers of the node's root"

WEAKENING = {
    "hostNetwork": f"{NODE} network; leave it out, the gateway reaches every port of a sandbox.",
    "hostPID": f"{NODE} process tree; leave it out.",
    "hostIPC": f"{NODE} shared memory; leave it out, or mount an emptyDir of medium Memory at /dev/shm.",
    "hostUsers": "is the cluster's choice; leave it out.",
    "hostPort": "would open a port of the node; leave it out, the gateway reaches every port of a sandbox.",
    "hostPath": "would show the node's files to the sandbox; use emptyDir or persistentVolumeClaim.",
    "privileged": f"{ROOT}; leave it out.",
    "allowPrivilegeEscalation": "would let programs become root by themselves; leave it out, a call can name its user.",
    "capabilities.add": f"{ROOT} one by one; leave it out, envd's own are all there is.",
    "procMount": "would show the kernel's switches to the sandbox; leave it out.",
    "seccompProfile.type": "would open system calls that RuntimeDefault closes; leave it out.",
    "appArmorProfile": "would replace the runtime's own profile; leave it out.",
    "seLinuxOptions": "would replace the runtime's own label; leave it out.",
    "sysctls": "would change the kernel's settings; leave it out.",
    "shareProcessNamespace": "would let containers see each other's processes; leave it out, there is only one.",
    "serviceAccountName": "would give the sandbox an account of the cluster; leave it out, sandboxes have none.",
    "serviceAccount": "would give the sandbox an account of the cluster; leave it out, sandboxes have none.",
    "automountServiceAccountToken": "would give the sandbox a token of the cluster; leave it out, sandboxes have none.",
    "serviceAccountToken": "would give the sandbox a token of the cluster; leave it out, sandboxes have none.",
    "mountPropagation": "would carry mounts between node and sandbox; leave it out.",
    "nodeName": "would go around the scheduler; use nodeSelector.",
    "priorityClassName": "would push other teams' sandboxes off their nodes; leave it out.",
    "csi": "would let the env choose a driver's secrets and options; use persistentVolumeClaim or ephemeral.",
    "dataSource": "would copy a volume that may be another team's; leave it out.",
    "dataSourceRef": "would copy a volume that may be another team's; leave it out.",
    "volumeName": "would take a volume that may be another team's; leave it out, or use persistentVolumeClaim.",
}
"""By the end of the field's path."""

ELSEWHERE = {
    "containers": "is not taken: a sandbox has the one container that we make; put env, volumeMounts and resources "
    "directly under podTemplate.",
    "initContainers": "is not taken: only envd comes before the sandbox; put what it needs into the image.",
    "securityContext": "is not taken: it is the same for every sandbox; a call can name its user.",
    "envFrom": "is not taken; name each variable in env, with valueFrom.",
    "image": "is not taken here: it is a field of the env.",
    "affinity": "is not taken; use nodeSelector.",
    "fieldRef": "is not taken; use value, secretKeyRef or configMapKeyRef.",
    "resourceFieldRef": "is not taken; use value, secretKeyRef or configMapKeyRef.",
    "requests": "is not taken: requests always equal the limits.",
    "projected": "is not taken; use secret and configMap volumes.",
}


def refused(path: str, value: Any, allowed: Collection[str]) -> Iterator[Problem]:
    """Of a field we do not take: whatever in it would weaken isolation, by its own path; else the field itself."""
    found = list(weakening(path, value, DEEPEST))
    yield from found or [Problem(path, ELSEWHERE.get(name_of(path)) or f"is not taken; use {listed(allowed)}.")]


def weakening(path: str, value: Any, depth: int) -> Iterator[Problem]:
    why = next((text for end, text in WEAKENING.items() if path.endswith(f".{end}")), "")
    if why or depth == 0:
        yield from [Problem(path, why)] if why else ()
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield from weakening(f"{path}.{name}", inner, depth - 1)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from weakening(f"{path}[{index}]", inner, depth - 1)


def name_of(path: str) -> str:
    return path.rpartition(".")[2]


def listed(names: Collection[str]) -> str:
    *rest, last = names
    return f"{', '.join(rest)} or {last}" if rest else last
