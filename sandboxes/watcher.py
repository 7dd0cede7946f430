"""The watcher: one process a cluster that turns its Pods into rows, and compares both ways now and then."""

from __future__ import annotations

import time

import structlog
from django.db import close_old_connections
from django.db.models.functions import Now

from pools.models import Cluster

from . import collector, observer
from .cluster import client
from .cluster.mirror import Batch, Mirror

log = structlog.get_logger(__name__)

COMPARE_EVERY = 10.0
SAY_EVERY = 1.0


class Watcher:
    """Feeds one cluster's changes to the observer. `run` returns never; it raises when it cannot continue."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.api = client.connect(cluster.kubeconfig, cluster.namespace)
        self.mirror = Mirror(self.api)
        self.compared_at = self.said_at = 0.0

    def run(self) -> None:
        self.identify()
        for batch in self.mirror.batches():
            self.take(batch)

    def identify(self) -> None:
        """Note which cluster this is: another uid means that everything we knew of is gone."""
        uid = self.api.uid()
        if self.cluster.uid not in ("", uid):
            log.warning("another cluster answers under this name", cluster=self.cluster.name, uid=uid)
        Cluster.objects.filter(pk=self.cluster.pk).update(uid=uid)

    def take(self, batch: Batch) -> None:
        close_old_connections()
        if batch.changed or batch.gone:
            observer.apply(batch.changed, batch.gone)
        now = time.monotonic()
        if batch.listed or now - self.compared_at > COMPARE_EVERY:
            self.compare()
            self.compared_at = now
        if now - self.said_at > SAY_EVERY:
            Cluster.objects.filter(pk=self.cluster.pk).update(synced_at=Now())
            self.said_at = now

    def compare(self) -> None:
        """Rows without Pods, Pods without rows."""
        collector.end_rows_without_pods(self.cluster, self.api, self.mirror.pods, self.mirror.listed_at)
        collector.delete_pods_without_rows(self.cluster, self.api, self.mirror.pods.values())
