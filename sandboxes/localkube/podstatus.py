"""Statuses and events in the words of the real scheduler and kubelet. Pure: changes a Pod's JSON and nothing else."""

import secrets
from typing import Any

from sandboxes.localkube.objects import Json, timestamp

MAIN = 0  # the one container that localkube runs
_UNKNOWN: Json = {
    "terminated": {
        "exitCode": 137,
        "reason": "ContainerStatusUnknown",
        "message": "The container could not be located when the pod was terminated",
        "startedAt": None,
        "finishedAt": None,
    }
}
EVICTED = "The node was low on resource: memory. Threshold quantity: 100Mi, available: 64Mi."


def created(pod: Json) -> None:
    pod["status"] = {"phase": "Pending", "qosClass": _quality(pod["spec"]["containers"][MAIN].get("resources", {}))}


def unschedulable(pod: Json, message: str) -> None:
    _set_conditions(pod, ("PodScheduled", False, "Unschedulable", message))


def scheduled(pod: Json, node: str, host_ip: str) -> None:
    pod["spec"]["nodeName"] = node
    _set_conditions(pod, ("PodScheduled", True, "", ""))
    container = pod["spec"]["containers"][MAIN]
    status = {"name": container["name"], "state": {}, "lastState": {}, "ready": False, "restartCount": 0}
    status |= {"image": container["image"], "imageID": "", "started": False}
    pod["status"] |= {"hostIP": host_ip, "hostIPs": [{"ip": host_ip}], "startTime": timestamp()}
    pod["status"]["containerStatuses"] = [status]
    set_state(pod, waiting("ContainerCreating"))


def waiting(reason: str, message: str = "") -> Json:
    return {"waiting": {"reason": reason, **({"message": message} if message else {})}}


def running() -> Json:
    return {"running": {"startedAt": timestamp()}}


def terminated(pod: Json, code: int, reason: str = "", message: str = "") -> Json:
    """How the container that is running in `pod` ended."""
    status = pod["status"]["containerStatuses"][MAIN]
    began = status["state"].get("running", {}).get("startedAt") or timestamp()
    state: dict[str, Any] = {"exitCode": code, "reason": reason or ("Completed" if code == 0 else "Error")}
    state |= {"message": message} if message else {}
    state |= {"startedAt": began, "finishedAt": timestamp(), "containerID": status.get("containerID", "")}
    return {"terminated": state}


def started(pod: Json, ip: str, *, ready: bool = False) -> None:
    """The container runs (again)."""
    _new_container(pod, ip)
    set_state(pod, running(), ready=ready)


def not_started(pod: Json, ip: str, message: str) -> None:
    """The container was made, but its program would not run."""
    _new_container(pod, ip)
    end = terminated(pod, 128, "StartError", message)
    end["terminated"]["startedAt"] = "1970-01-01T00:00:00Z"
    set_state(pod, end)
    if restarts_after(pod, 128):
        set_state(pod, waiting("RunContainerError", message))


def start_error(cause: str) -> str:
    """In the words of containerd and runc."""
    failed = (
        "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed"
    )
    return f"{failed}: unable to start container process: {cause}: unknown"


def _new_container(pod: Json, ip: str) -> None:
    """A new container id, and a restart counted if there was a container before."""
    status = pod["status"]["containerStatuses"][MAIN]
    image = pod["spec"]["containers"][MAIN]["image"]
    status["restartCount"] += 1 if status.get("containerID") else 0
    status |= {"containerID": f"localkube://{secrets.token_hex(32)}", "image": image, "imageID": f"localkube://{image}"}
    connected(pod, ip)


def connected(pod: Json, ip: str) -> None:
    pod["status"] |= {"podIP": ip, "podIPs": [{"ip": ip}]}


def set_state(pod: Json, state: Json, *, ready: bool = False) -> None:
    """Give the container a state and derive phase and conditions from it."""
    status = pod["status"]["containerStatuses"][MAIN]
    if "terminated" in status["state"] and "terminated" not in state:
        status["lastState"] = status["state"]
    status |= {"state": state, "ready": ready, "started": "running" in state}
    phase = pod["status"]["phase"] = _phase(pod, status)
    why = {"Succeeded": ("PodCompleted", ""), "Failed": ("PodFailed", "")}.get(phase)
    why = why or ("ContainersNotReady", f"containers with unready status: [{status['name']}]")
    network = "podIP" in pod["status"] and phase in ("Pending", "Running")
    _set_conditions(
        pod,
        ("PodReadyToStartContainers", network, "", ""),
        ("Initialized", True, "PodCompleted" if phase == "Succeeded" else "", ""),
        *((kind, ready, *(("", "") if ready else why)) for kind in ("Ready", "ContainersReady")),
    )


def over(pod: Json, code: int, reason: str = "") -> None:
    """The container ended because the Pod is deleted: no restart policy counts any more."""
    set_state(pod, terminated(pod, code, reason))
    pod["status"]["phase"] = "Failed" if code else "Succeeded"


def stopped(pod: Json) -> None:
    """Likewise where no container runs: the Pod ended as its last one did, or nobody knows how."""
    status = pod["status"]["containerStatuses"][MAIN]
    if "terminated" not in status["state"]:
        end = status["lastState"] or _UNKNOWN
        status["lastState"] = {}
        set_state(pod, end)
    pod["status"]["phase"] = "Failed" if status["state"]["terminated"]["exitCode"] else "Succeeded"


def set_ready(pod: Json, ready: bool) -> None:
    set_state(pod, pod["status"]["containerStatuses"][MAIN]["state"], ready=ready)


def evicted(pod: Json) -> None:
    set_state(pod, terminated(pod, 137, "Error"))
    pod["status"] |= {"phase": "Failed", "reason": "Evicted", "message": EVICTED}
    _set_conditions(pod, ("DisruptionTarget", True, "TerminationByKubelet", EVICTED))


def node_lost(pod: Json) -> None:
    """What the node controller can know: not how the container is, nor why."""
    _set_conditions(pod, ("Ready", False, "", ""))


def back_off_seconds(attempt: int) -> int:
    return 300 if attempt > 4 else 10 << attempt


def back_off_message(pod: Json, seconds: int) -> str:
    minutes = f"{seconds // 60}m" if seconds >= 60 else ""
    where = f"{pod['spec']['containers'][MAIN]['name']} pod={full_name(pod)}"
    return f"back-off {minutes}{seconds % 60}s restarting failed container={where}"


def full_name(pod: Json) -> str:
    meta = pod["metadata"]
    return f"{meta['name']}_{meta['namespace']}({meta['uid']})"


def restarts_after(pod: Json, code: int) -> bool:
    policy = pod["spec"].get("restartPolicy", "Always")
    return policy == "Always" or (policy == "OnFailure" and code != 0)


def _phase(pod: Json, status: Json) -> str:
    if end := status["state"].get("terminated"):
        if restarts_after(pod, end["exitCode"]):
            return "Running"
        return "Succeeded" if end["exitCode"] == 0 else "Failed"
    return "Running" if "running" in status["state"] or status["lastState"] else "Pending"


def _set_conditions(pod: Json, *wanted: tuple[str, bool, str, str]) -> None:
    """Each a type, whether it is true, a reason and a message; the time only moves when the truth does."""
    conditions = {each["type"]: each for each in pod["status"].get("conditions", ())}
    for kind, value, reason, message in wanted:
        before = conditions.pop(kind, {})
        since = before["lastTransitionTime"] if before.get("status") == str(value) else timestamp()
        new = {"type": kind, "status": str(value), "lastProbeTime": None, "lastTransitionTime": since}
        conditions[kind] = new | ({"reason": reason} if reason else {}) | ({"message": message} if message else {})
    pod["status"]["conditions"] = list(conditions.values())


def _quality(resources: Json) -> str:
    limits, requests = resources.get("limits", {}), resources.get("requests", {})
    if not limits and not requests:
        return "BestEffort"
    return "Guaranteed" if requests == limits and {"cpu", "memory"} <= set(limits) else "Burstable"
