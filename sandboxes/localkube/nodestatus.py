"""Nodes in the words of the real kubelet, node controller and scheduler. Pure."""

import platform
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal

from sandboxes.localkube.objects import Json, timestamp

_WELL = {
    "MemoryPressure": ("False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    "DiskPressure": ("False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    "PIDPressure": ("False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    "Ready": ("True", "KubeletReady", "kubelet is posting ready status"),
}
_LOST = ("Unknown", "NodeStatusUnknown", "Kubelet stopped posting node status.")
_UNREACHABLE = "node.kubernetes.io/unreachable"


def up(room: dict[str, Decimal], name: str, address: str) -> Json:
    """The status of a node that serves; `room` is what it has of cpu, memory (bytes) and pods."""
    shown = {resource: str(int(amount)) for resource, amount in room.items()}
    addresses = [{"type": "InternalIP", "address": address}, {"type": "Hostname", "address": name}]
    info = dict.fromkeys(("bootID", "machineID", "systemUUID", "kubeProxyVersion"), "")
    info |= {"operatingSystem": "linux", "kubeletVersion": "v1.34.4", "containerRuntimeVersion": "localkube://1"}
    info |= {"osImage": "linux", "kernelVersion": platform.release(), "architecture": platform.machine()}
    conditions = [_condition(kind, *words) for kind, words in _WELL.items()]
    status = {"capacity": shown, "allocatable": shown, "addresses": addresses, "nodeInfo": info}
    return status | {"conditions": conditions}


def lost(node: Json) -> None:
    """As the node controller leaves a node whose kubelet has fallen silent."""
    node["status"]["conditions"] = [_condition(kind, *_LOST) for kind in _WELL]
    taint = {"key": _UNREACHABLE, "timeAdded": timestamp()}
    node["spec"]["taints"] = [taint | {"effect": effect} for effect in ("NoSchedule", "NoExecute")]


def _condition(kind: str, status: str, reason: str, message: str) -> Json:
    now = timestamp()
    condition = {"type": kind, "status": status, "lastHeartbeatTime": now, "lastTransitionTime": now}
    return condition | {"reason": reason, "message": message}


@dataclass(frozen=True)
class Refusal:
    """Why the scheduler does not take a node. `final`: nor would it if the node were empty."""

    reasons: tuple[str, ...]
    final: bool


OTHER_NODE = Refusal(("node(s) didn't match Pod's node affinity/selector",), final=True)
_PREEMPTION = {True: "Preemption is not helpful for scheduling", False: "No preemption victims found for incoming pod"}
"""What emptying the node would do, by whether its refusal is final."""
TAINTED = Refusal(("node(s) had untolerated taint(s)",), final=True)


def no_room(refusals: list[Refusal]) -> str:
    """The scheduler's message for a Pod that fits nowhere; one refusal of each node."""
    if not refusals:
        return "no nodes available to schedule pods"
    why = _counted(reason for refusal in refusals for reason in refusal.reasons)
    preemption = _counted(_PREEMPTION[refusal.final] for refusal in refusals)
    none = f"0/{len(refusals)} nodes are available"
    return f"{none}: {why}. no new claims to deallocate, preemption: {none}: {preemption}."


def _counted(reasons: Iterable[str]) -> str:
    return ", ".join(sorted(f"{count} {reason}" for reason, count in Counter(reasons).items()))
