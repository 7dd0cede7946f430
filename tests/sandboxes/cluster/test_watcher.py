from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import pytest
from django.db import connection

from pools.models import Pool
from sandboxes import collector, drain, observer, times, transitions
from sandboxes.cluster.errors import ClusterError
from sandboxes.cluster.mirror import Batch, Mirror
from sandboxes.models import Sandbox, pod_name
from sandboxes.tokens import new_sandbox_id
from sandboxes.watcher import Watcher

from .conftest import Kube


def until(condition: Callable[[], bool], limit: float = 15.0) -> None:
    """Wait for a condition; fail when it does not come true within `limit` seconds."""
    deadline = time.monotonic() + limit
    while not condition():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.05)


@pytest.fixture
def started(kube: Kube, pool: Pool) -> list[str]:
    """Twenty sandboxes whose Pods exist."""
    ids = [new_sandbox_id() for _ in range(20)]
    transitions.insert_pending(pool.pk, ids)
    drain.drain(pool.cluster_id)
    return ids


def states() -> set[str]:
    return set(Sandbox.objects.values_list("state", flat=True))


class Running:
    """A watcher on a thread of its own, until its iterator is told to stop."""

    def __init__(self, pool: Pool) -> None:
        self.watcher = Watcher(pool.cluster)
        self.stopping = threading.Event()
        self.paused = threading.Event()
        self.error: BaseException | None = None
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self) -> None:
        try:
            self.watcher.identify()
            for batch in self.watcher.mirror.batches():
                while self.paused.is_set() and not self.stopping.is_set():
                    time.sleep(0.02)
                if self.stopping.is_set():
                    return
                self.watcher.take(batch)
        except BaseException as error:  # noqa: BLE001 - asserted by the test
            self.error = error
        finally:
            connection.close()

    def stop(self) -> None:
        self.stopping.set()
        self.thread.join(20)


@pytest.fixture
def watcher(pool: Pool, started: list[str]) -> Iterator[Running]:
    running = Running(pool)
    yield running
    running.stop()


def test_pods_become_idle_and_their_rows_know_where_they_are(watcher: Running, pool: Pool) -> None:
    until(lambda: states() == {"idle"})
    row = Sandbox.objects.first()
    assert row is not None
    assert row.pod_ip.startswith("127.")
    assert row.node
    pool.cluster.refresh_from_db()
    assert pool.cluster.uid
    until(lambda: pool.cluster.synced_at is not None or pool.cluster.refresh_from_db() is not None)


def test_deletes_that_nobody_told_us_of_end_their_rows_once(kube: Kube, watcher: Running, started: list[str]) -> None:
    """Done when 7: the watch is cut, Pods are deleted, the ring is compacted, the watch resumes."""
    until(lambda: states() == {"idle"})
    watcher.paused.set()
    kube.post("/localkube/close-watches")
    for sandbox_id in started:
        kube.api.delete(pod_name(sandbox_id))
    until(lambda: kube.names() == set())
    kube.post("/localkube/compact")
    watcher.paused.clear()
    until(lambda: states() == {"ended"})
    assert set(Sandbox.objects.values_list("end_reason", "rev")) == {("pod_gone", 4)}, "each ended exactly once"


def test_a_restarted_cluster_is_another_one_and_leaves_no_ghost_rows(
    kube: Kube, pool: Pool, started: list[str]
) -> None:
    first = Running(pool)
    until(lambda: states() == {"idle"})
    first.stop()
    for pod in kube.api.list_pods()[0]:
        kube.api.delete(pod.name)
    until(lambda: kube.names() == set())
    again = Running(pool)
    until(lambda: states() == {"ended"})
    again.stop()


def test_a_list_that_lacks_pods_which_exist_is_not_believed(kube: Kube, pool: Pool, started: list[str]) -> None:
    assert collector.end_rows_without_pods(pool.cluster, kube.api, {}, time.time()) == 0
    assert states() == {"starting"}
    kube.process.kill()
    assert collector.end_rows_without_pods(pool.cluster, kube.api, {}, time.time()) == 0
    assert states() == {"starting"}


def test_pods_without_rows_are_deleted_once_they_are_old(
    kube: Kube, pool: Pool, started: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Sandbox.objects.filter(pk__in=started[:5]).update(state="ended", end_reason="killed")
    pods, _ = kube.api.list_pods()
    assert collector.delete_pods_without_rows(pool.cluster, kube.api, pods) == 0, "too young to be sure"
    monkeypatch.setattr(times, "ORPHAN_GRACE", -1.0)
    assert collector.delete_pods_without_rows(pool.cluster, kube.api, pods) == 5
    until(lambda: kube.names() == {pod_name(id_) for id_ in started[5:]})
    kube.process.kill()
    Sandbox.objects.update(state="ended", end_reason="killed")
    assert collector.delete_pods_without_rows(pool.cluster, kube.api, pods) > 0, "an API that is down ends the pass"


def test_a_watch_that_cannot_continue_raises_instead_of_serving_a_frozen_picture(
    kube: Kube, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sandboxes.cluster.mirror.GIVE_UP", 0.5)
    monkeypatch.setattr("sandboxes.cluster.mirror.BACKOFF", (0.05, 0.2))
    running = Running(pool)
    until(lambda: running.watcher.mirror.version != "")
    kube.process.kill()
    until(lambda: running.error is not None)
    assert isinstance(running.error, ClusterError)


def test_a_relist_reports_only_what_changed(kube: Kube, started: list[str]) -> None:
    mirror = Mirror(kube.api)
    first = mirror.relist()
    assert (len(first.changed), first.gone, first.listed) == (20, [], True)
    until(lambda: all(pod.ready for pod in kube.api.list_pods()[0]))
    mirror.relist()
    kube.api.delete(pod_name(started[0]))
    until(lambda: len(kube.names()) == 19)
    until(lambda: len(kube.api.list_pods()[0]) == 19)
    again = mirror.relist()
    assert (again.changed, [pod.sandbox_id for pod in again.gone]) == ([], [started[0]])


def test_an_empty_batch_touches_nothing(pool: Pool) -> None:
    observer.apply(Batch().changed, Batch().gone)
    assert not Sandbox.objects.exists()
