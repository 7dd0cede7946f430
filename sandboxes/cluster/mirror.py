"""A picture of the cluster's Pods, kept by list and watch, as batches of changes.

A reader thread feeds a bounded queue; `batches` yields what arrived. After a 410 or a broken watch it lists again and
compares, so that deletes nobody told us of are made up. It never serves a frozen picture: when it cannot continue it
raises, and the process exits (kubespawner's lesson, codebases.md 1.7).
"""

from __future__ import annotations

import queue
import random
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import structlog

from .client import Change, ClusterClient
from .errors import ClusterError, Expired, Rejected
from .snapshot import PodSnapshot

log = structlog.get_logger(__name__)

QUEUE = 5000
BATCH = 500
GATHER = 0.1
"""Seconds a batch gathers company after its first change: a statement for ten Pods costs little more than for one."""
TICK = 1.0
BACKOFF = (0.2, 15.0)
GIVE_UP = 120.0
"""Seconds without a working watch or list after which the process had better be replaced."""


@dataclass(slots=True)
class Batch:
    """Changes since the last batch. `listed` is set after a full list; the last snapshot stands for a gone Pod."""

    changed: list[PodSnapshot] = field(default_factory=list)
    gone: list[PodSnapshot] = field(default_factory=list)
    listed: bool = False


class Mirror:
    """The Pods by name as last seen, `listed_at` the wall time at which the newest full list was asked for."""

    def __init__(self, api: ClusterClient) -> None:
        self.api = api
        self.pods: dict[str, PodSnapshot] = {}
        self.version = ""
        self.listed_at = 0.0
        self.changes: queue.Queue[Change | ClusterError | None] = queue.Queue(QUEUE)
        self.failure: ClusterError | None = None

    def batches(self) -> Iterator[Batch]:
        """Batches for ever, an empty one each TICK when nothing changes; raises ClusterError when it must give up."""
        healthy = time.monotonic()
        delay = BACKOFF[0]
        while True:
            try:
                if not self.version:
                    yield self.relist()
                for batch in self.follow():
                    healthy, delay = time.monotonic(), BACKOFF[0]
                    yield batch
            except Expired:
                log.info("watch expired, listing again")
                self.version = ""
            except Rejected:
                raise
            except ClusterError as error:
                log.warning("watch broken", error=error.message)
                if time.monotonic() - healthy > GIVE_UP:
                    raise
                self.version = ""
            time.sleep(delay * random.uniform(0.5, 1.0))  # noqa: S311 - jitter
            delay = min(delay * 2, BACKOFF[1])

    def relist(self) -> Batch:
        """A full list, compared with the picture: what changed and what has gone meanwhile."""
        asked_at = time.time()
        pods, version = self.api.list_pods()
        fresh = {pod.name: pod for pod in pods}
        gone = [old for name, old in self.pods.items() if name not in fresh or fresh[name].uid != old.uid]
        changed = [pod for pod in pods if is_news(self.pods.get(pod.name), pod)]
        self.pods, self.version, self.listed_at = fresh, version, asked_at
        return Batch(changed, gone, listed=True)

    def follow(self) -> Iterator[Batch]:
        """Batches of one watch, until the server ends it."""
        self.changes = queue.Queue(QUEUE)
        threading.Thread(target=read, args=(self.api, self.version, self.changes), daemon=True).start()
        while True:
            batch, over = self.gather()
            yield batch
            if over:
                return

    def gather(self) -> tuple[Batch, bool]:
        """What has arrived within TICK, and whether the watch is over; then raises what the reader met."""
        if self.failure:
            failure, self.failure = self.failure, None
            raise failure
        batch = Batch()
        news: dict[str, PodSnapshot] = {}
        until = time.monotonic() + TICK
        for number in range(BATCH):
            try:
                change = self.changes.get(timeout=max(0.0, until - time.monotonic()))
            except queue.Empty:
                break
            if number == 0:
                until = time.monotonic() + GATHER
            if isinstance(change, ClusterError):
                self.failure = change
                break
            if change is None:
                return self.settle(batch, news), True
            self.take(change, batch, news)
        return self.settle(batch, news), False

    def take(self, change: Change, batch: Batch, news: dict[str, PodSnapshot]) -> None:
        self.version = change.version
        if change.pod is None:
            return
        if change.kind == "DELETED":
            self.pods.pop(change.pod.name, None)
            news.pop(change.pod.name, None)
            batch.gone.append(change.pod)
            return
        self.pods[change.pod.name] = news[change.pod.name] = change.pod

    def settle(self, batch: Batch, news: dict[str, PodSnapshot]) -> Batch:
        batch.changed.extend(news.values())
        return batch


def is_news(old: PodSnapshot | None, new: PodSnapshot) -> bool:
    return old is None or old.version != new.version


def read(api: ClusterClient, version: str, changes: queue.Queue[Change | ClusterError | None]) -> None:
    """The reader thread: a full queue holds it back, and with it the server."""
    try:
        for change in api.watch(version):
            changes.put(change)
        changes.put(None)
    except ClusterError as error:
        changes.put(error)
    except Exception as error:  # noqa: BLE001 - the thread must not die silently
        changes.put(ClusterError(f"The watch failed: {type(error).__name__}: {error}"))
