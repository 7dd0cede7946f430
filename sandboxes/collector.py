"""Ends what nobody will end otherwise: deadlines, callers gone, starts that hang, orphans both ways.

Level-triggered and bounded: every pass looks at the rows as they are, so it converges after any crash.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

import structlog
from django.db import transaction

from pools.models import Cluster

from . import claims, times, transitions, wakes
from .cluster.client import ClusterClient
from .cluster.errors import ClusterError, Gone, PreconditionFailed
from .cluster.snapshot import PodSnapshot
from .lifecycle import EndReason, State
from .models import Sandbox, pod_name

log = structlog.get_logger(__name__)

LIMIT = 1000
"""Rows of one kind a pass handles; the next pass, a second later, takes the rest."""
ORPHAN_LIMIT = 100
SAMPLE = 5
SUSPICIOUS = 10
"""More rows than this missing from a list that shows few of the others, and the list itself is questioned."""


def collect() -> None:
    """The pass over rows alone."""
    claims.close_abandoned(LIMIT)
    claims.close_overdue(LIMIT)
    with transaction.atomic():
        moved = [*transitions.stop_overdue(LIMIT), *stop_hung()]
        wake(moved)


def stop_hung() -> list[transitions.Moved]:
    """End what has been starting for longer than START_TIMEOUT; the finding says what it waited for."""
    since = datetime.now(UTC) - timedelta(seconds=times.START_TIMEOUT)
    hung = Sandbox.objects.live().filter(state__in=[State.PENDING, State.STARTING], created_at__lt=since)
    moved = transitions.stop(
        list(hung.values_list("pk", flat=True)[:LIMIT]),
        EndReason.START_TIMEOUT,
        "collector",
        f"Not ready within {times.START_TIMEOUT:.0f} s.",
        only=[State.PENDING, State.STARTING],
    )
    transitions.note((s for s in moved if s.finding_text), "start_timeout")
    return moved


def wake(moved: Iterable[transitions.Moved]) -> None:
    moved = list(moved)
    wakes.wake_groups(sandbox.group_id for sandbox in moved)
    for cluster_id in {sandbox.cluster_id for sandbox in moved}:
        wakes.wake_cluster(cluster_id)


def end_rows_without_pods(cluster: Cluster, api: ClusterClient, pods: dict[str, PodSnapshot], listed_at: float) -> int:
    """Rows that the cluster once acknowledged and no longer shows; nothing happens while the list is in doubt.

    `pods` by name is the watcher's picture, complete as of `listed_at` (unix seconds) and kept up since.
    """
    acknowledged = (
        Sandbox.objects.live()
        .filter(cluster=cluster, starting_at__lt=datetime.fromtimestamp(listed_at, UTC))
        .exclude(state=State.PENDING)
        .values_list("pk", flat=True)
    )
    ids = list(acknowledged)
    missing = [id_ for id_ in ids if pod_name(id_) not in pods]
    if not missing or not believable(api, len(ids), missing):
        return 0
    with transaction.atomic():
        ended = transitions.end([(id_, EndReason.POD_GONE, "The cluster no longer has this Pod.") for id_ in missing])
        transitions.note((s for s in ended if s.end_reason == EndReason.POD_GONE), "ended", "The Pod is gone.")
        wake(ended)
    log.info("rows without Pods ended", cluster=cluster.name, count=len(ended))
    return len(ended)


def believable(api: ClusterClient, known: int, missing: list[str]) -> bool:
    """Whether so many Pods can really be gone: when it is most of them, a sample is read one by one."""
    if len(missing) <= SUSPICIOUS or len(missing) * 2 < known:
        return True
    try:
        found = [id_ for id_ in missing[:: max(1, len(missing) // SAMPLE)][:SAMPLE] if api.exists(pod_name(id_))]
    except ClusterError as error:
        log.warning("the list is in doubt, nothing is ended", missing=len(missing), error=error.message)
        return False
    if found:
        log.warning("the list lacks Pods that exist, nothing is ended", missing=len(missing), found=found)
    return not found


def delete_pods_without_rows(cluster: Cluster, api: ClusterClient, pods: Iterable[PodSnapshot]) -> int:
    """Pods of ours whose row has ended or never was, once they are older than ORPHAN_GRACE."""
    old = datetime.now(UTC) - timedelta(seconds=times.ORPHAN_GRACE)
    aged = [p for p in pods if p.sandbox_id and not p.deleting and p.created_at and p.created_at < old]
    live = set(Sandbox.objects.live().filter(cluster=cluster).values_list("pk", flat=True))
    orphans = [pod for pod in aged if pod.sandbox_id not in live][:ORPHAN_LIMIT]
    for pod in orphans:
        try:
            api.delete(pod.name, pod.uid)
        except (Gone, PreconditionFailed):
            continue
        except ClusterError as error:
            log.warning("orphan not deleted", pod=pod.name, error=error.message)
            break
        log.info("orphan deleted", cluster=cluster.name, pod=pod.name)
    return len(orphans)
