"""What is wrong with a Pod, in words: a pure function of its snapshot. The reasons are Kubernetes' exact strings
(console-ux.md section 3); messages are quoted, because they name the image, the node or the resource."""

from __future__ import annotations

from dataclasses import dataclass

from .cluster.snapshot import PodSnapshot

IMAGE = {"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError"}
CONFIG = {"CreateContainerConfigError", "CreateContainerError", "RunContainerError"}


@dataclass(frozen=True, slots=True)
class Finding:
    """`code` is stable; `text` says cause and remedy."""

    code: str
    text: str


def diagnose(pod: PodSnapshot) -> Finding | None:
    """The finding of a Pod that is not (or no longer) ready, None when it is only on its way."""
    if pod.unschedulable:
        return Finding("no_room", f"The cluster has no room: {pod.unschedulable} Lower the ask or use a smaller shape.")
    if pod.waiting_reason in IMAGE:
        return Finding("image", f"The image cannot be pulled: {pod.waiting_message or pod.waiting_reason} Fix the env.")
    if pod.waiting_reason in CONFIG:
        return Finding("start_failed", f"The container cannot start: {pod.waiting_message or pod.waiting_reason}")
    if pod.waiting_reason == "CrashLoopBackOff" or pod.restarts:
        return Finding("crash_loop", f"The runtime exits again and again ({ending(pod)}); read its logs.")
    return None


def ending(pod: PodSnapshot) -> str:
    """Why a Pod that is over has ended, as one phrase."""
    if pod.reason:
        return f"{pod.reason}: {pod.message}" if pod.message else pod.reason
    if pod.terminated_reason:
        code = "" if pod.exit_code is None else f", exit {pod.exit_code}"
        return f"{pod.terminated_reason}{code}"
    return pod.phase or "no longer there"
