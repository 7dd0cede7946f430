"""Turn what a cluster shows into rows: Pods ready, stuck, finished, gone. Never decides how many there should be.

`apply` takes a batch of snapshots in one transaction, then binds waiting claims to what became idle.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from django.db import transaction

from . import matcher, transitions, wakes
from .cluster.snapshot import PodSnapshot
from .diagnosis import diagnose, ending
from .lifecycle import EndReason


@dataclass(slots=True)
class Seen:
    """A batch, sorted by what it means for the rows."""

    ready: list[tuple[str, str, str, str]] = field(default_factory=list)
    findings: list[tuple[str, str, str]] = field(default_factory=list)
    ended: list[tuple[str, EndReason, str]] = field(default_factory=list)
    finished: list[tuple[str, str]] = field(default_factory=list)
    unready: list[str] = field(default_factory=list)


def apply(changed: Iterable[PodSnapshot], gone: Iterable[PodSnapshot]) -> None:
    """Record the newest snapshot of each changed Pod, and the last one of each Pod that is gone."""
    seen = sort(changed, gone)
    with transaction.atomic():
        idle = transitions.make_idle(seen.ready)
        transitions.note((s for s in transitions.find(seen.findings) if s.finding), "finding")
        ended = transitions.end(seen.ended)
        transitions.note((s for s in ended if s.end_reason in UNUSUAL), "ended", "The Pod went without being asked to.")
        transitions.note(transitions.find_unready(seen.unready), "not_ready")
        finished = [
            sandbox
            for sandbox_id, why in seen.finished
            for sandbox in transitions.stop([sandbox_id], EndReason.FAILED, "cluster", why)
        ]
        wakes.wake_groups(s.group_id for s in (*ended, *finished))
        for cluster_id in {sandbox.cluster_id for sandbox in finished}:
            wakes.wake_cluster(cluster_id)
    for group_id in {sandbox.group_id for sandbox in idle}:
        matcher.match(group_id)


UNUSUAL = {EndReason.POD_GONE.value, EndReason.EVICTED.value, EndReason.FAILED.value}


def sort(changed: Iterable[PodSnapshot], gone: Iterable[PodSnapshot]) -> Seen:
    seen = Seen()
    for pod in gone:
        if pod.sandbox_id:
            seen.ended.append((pod.sandbox_id, *reason_of(pod)))
    for pod in changed:
        if not pod.sandbox_id or pod.deleting:
            continue
        if pod.finished:
            seen.finished.append((pod.sandbox_id, f"The Pod has ended by itself: {ending(pod)}."))
        elif pod.ready and pod.ip:
            seen.ready.append((pod.sandbox_id, pod.uid, pod.ip, pod.node))
            seen.findings.append((pod.sandbox_id, "", ""))
        elif finding := diagnose(pod):
            seen.findings.append((pod.sandbox_id, finding.code, finding.text))
        else:
            seen.unready.append(pod.sandbox_id)
    return seen


def reason_of(pod: PodSnapshot) -> tuple[EndReason, str]:
    if pod.reason == "Evicted":
        return EndReason.EVICTED, ending(pod)
    if pod.finished and not pod.deleting:
        return EndReason.FAILED, ending(pod)
    # What is deleted ends first, with the exit code of whoever was stopped; that is no failure of its own.
    return EndReason.POD_GONE, "The Pod was deleted from outside or its node was lost."
