"""The few fields of a Pod that we read, from raw JSON. Pure.

Parsing typed models costs 17 times as much (codebases.md 0.6), and a Pod has hundreds of fields we never read.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from .manifest import SANDBOX_LABEL

type Json = dict[str, Any]

IMAGE_CHANGED = "agentbox.io/image-changed"
"""The annotation that comes with a change of the image, so that the restart it causes is known to be ours."""


@dataclass(frozen=True, slots=True)
class PodSnapshot:
    """A Pod as last seen. `sandbox_id` is "" for a Pod that is not ours."""

    name: str
    uid: str
    version: str
    sandbox_id: str
    phase: str
    ready: bool
    ip: str
    node: str
    created_at: datetime | None
    deleting: bool
    reason: str
    message: str
    scheduled: bool
    unschedulable: str
    """The scheduler's words, "" unless it said that the Pod fits nowhere."""
    waiting_reason: str
    waiting_message: str
    restarts: int
    """Those that nobody asked for."""
    terminated_reason: str
    exit_code: int | None
    image: str
    container_id: str
    """Of the container that runs now, or ran last."""

    @property
    def finished(self) -> bool:
        return self.phase in ("Succeeded", "Failed")


def parse(pod: Json) -> PodSnapshot:
    """A snapshot of a Pod object as the API sends it."""
    metadata, status, spec = pod.get("metadata", {}), pod.get("status", {}), pod.get("spec", {})
    conditions = {condition["type"]: condition for condition in status.get("conditions") or ()}
    container = speaking(status)
    state = container.get("state") or {}
    waiting = state.get("waiting") or {}
    asked_for = int(IMAGE_CHANGED in (metadata.get("annotations") or {}))
    terminated = state.get("terminated") or (container.get("lastState") or {}).get("terminated") or {}
    scheduled = conditions.get("PodScheduled", {})
    unschedulable = scheduled.get("message", "") if scheduled.get("reason") == "Unschedulable" else ""
    return PodSnapshot(
        name=metadata.get("name", ""),
        uid=metadata.get("uid", ""),
        version=metadata.get("resourceVersion", ""),
        sandbox_id=(metadata.get("labels") or {}).get(SANDBOX_LABEL, ""),
        phase=status.get("phase", ""),
        ready=conditions.get("Ready", {}).get("status") == "True",
        ip=status.get("podIP", ""),
        node=spec.get("nodeName", ""),
        created_at=parse_time(metadata.get("creationTimestamp")),
        deleting="deletionTimestamp" in metadata,
        reason=status.get("reason", ""),
        message=status.get("message", ""),
        scheduled=scheduled.get("status") == "True",
        unschedulable=unschedulable,
        waiting_reason=waiting.get("reason", ""),
        waiting_message=waiting.get("message", ""),
        restarts=max(0, container.get("restartCount", 0) - asked_for),
        terminated_reason=terminated.get("reason", ""),
        exit_code=terminated.get("exitCode"),
        image=first(spec.get("containers")).get("image", ""),
        container_id=container.get("containerID", ""),
    )


def speaking(status: Json) -> Json:
    """The status of the container that says most: the one that brings envd until it has done so, then the sandbox's."""
    for each in status.get("initContainerStatuses") or ():
        if (each.get("state", {}).get("terminated") or {}).get("exitCode") != 0:
            return dict(each)
    return first(status.get("containerStatuses"))


def first(items: list[Json] | None) -> Json:
    return items[0] if items else {}


def parse_time(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None
