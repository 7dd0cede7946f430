"""Celery's shells: each calls a plain function. Correctness comes from these periodic passes, speed from wakes."""

from __future__ import annotations

import structlog
from celery import shared_task
from django.db.models import Exists, OuterRef, Q
from django.db.models.functions import Now

from pools.models import Cluster, ScalingGroup

from . import collector, drain, matcher, partitions, plan, wakes
from .cluster.errors import ClusterError
from .lifecycle import ClaimState, State
from .models import Claim, Sandbox

log = structlog.get_logger(__name__)


@shared_task(name="sandboxes.plan_group")
def plan_group(group_id: int) -> None:
    plan.plan(group_id)


@shared_task(name="sandboxes.drain_cluster")
def drain_cluster(cluster_id: int) -> None:
    try:
        drain.drain(cluster_id)
    except ClusterError as error:  # noted on the cluster's row; each second's traceback would say no more
        log.warning("the cluster cannot be used", cluster=cluster_id, error=error.message)


@shared_task(name="sandboxes.collect")
def collect() -> None:
    collector.collect()


@shared_task(name="sandboxes.housekeeping")
def housekeeping() -> None:
    partitions.housekeep()


@shared_task(name="sandboxes.sweep")
def sweep() -> None:
    """Each second: bind what a lost wake left waiting, and set going every group and cluster that is due."""
    waiting = Exists(Claim.objects.filter(group=OuterRef("pk"), state=ClaimState.QUEUED))
    groups = ScalingGroup.objects.annotate(waiting=waiting).filter(Q(due_at__lte=Now()) | Q(waiting=True))
    for group_id, has_claims in groups.values_list("pk", "waiting"):
        if has_claims:
            matcher.match(group_id)
        wakes.wake("sandboxes.plan_group", group_id)
    work = Exists(Sandbox.objects.live().filter(cluster=OuterRef("pk"), state__in=[State.PENDING, State.STOPPING]))
    for cluster_id in Cluster.objects.filter(work).values_list("pk", flat=True):
        wakes.wake("sandboxes.drain_cluster", cluster_id)
