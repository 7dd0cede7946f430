"""The product's picture of a cluster stays whole, also when the cluster has forgotten where the picture began."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import pytest

from sandboxes.cluster import client
from sandboxes.cluster.mirror import Batch, Mirror
from tests.contract.kube import Json, Kube

OURS = {"labels": {"app.kubernetes.io/managed-by": "agentbox", "agentbox.io/sandbox": "i1"}}


@pytest.fixture(autouse=True)
def short_watches(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that no reader outlives its test for long."""
    monkeypatch.setattr(client, "WATCH_SECONDS", 10)


def park(kube: Kube, name: str) -> Json:
    return kube.park(name, metadata=OURS)


def follow(mirror: Mirror, good: Callable[[], object], limit: int = 20) -> list[Batch]:
    """Batches, one a second or earlier, until the picture is good."""
    seen: list[Batch] = []
    with contextlib.closing(mirror.batches()) as batches:
        while not good():
            assert len(seen) < limit, (seen, mirror.pods)
            seen.append(next(batches))
    return seen


def test_a_list_and_what_follows_make_one_picture(kube: Kube) -> None:
    mirror = Mirror(kube.client)
    park(kube, "one")
    kube.park("of-others")
    assert [batch.listed for batch in follow(mirror, lambda: mirror.pods)] == [True]
    park(kube, "two")
    kube.delete("one")
    batches = follow(mirror, lambda: set(mirror.pods) == {"two"})
    assert [pod.name for batch in batches for pod in batch.gone] == ["one"]
    assert all(pod.deleting for batch in batches for pod in batch.gone)


def test_what_went_while_nobody_looked_is_gone(kube: Kube) -> None:
    mirror = Mirror(kube.client)
    park(kube, "one")
    follow(mirror, lambda: mirror.pods)
    kube.delete("one")
    park(kube, "two")
    kube.compact()
    batches = follow(mirror, lambda: set(mirror.pods) == {"two"})
    assert [pod.name for batch in batches for pod in batch.gone] == ["one"]
    assert {pod.name for batch in batches for pod in batch.changed} >= {"two"}
