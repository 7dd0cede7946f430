"""The pure parts of the door to Kubernetes: snapshot, errors, and the bucket that paces creates."""

from __future__ import annotations

import pytest

from sandboxes.bucket import Bucket
from sandboxes.cluster import errors
from sandboxes.cluster.snapshot import IMAGE_CHANGED, parse
from tests.sandboxes.pods import pod_json, waiting


def test_a_snapshot_reads_a_ready_pod() -> None:
    pod = parse(pod_json("iabc"))
    assert (pod.sandbox_id, pod.ready, pod.ip, pod.node, pod.image) == ("iabc", True, "127.64.0.9", "node-1", "base:1")
    assert pod.scheduled
    assert not pod.finished
    assert pod.created_at is not None


def test_a_snapshot_reads_a_waiting_one_and_an_empty_one() -> None:
    pod = parse(pod_json("iabc", **waiting("ErrImagePull", "no such image")))
    assert (pod.ready, pod.waiting_reason, pod.waiting_message) == (False, "ErrImagePull", "no such image")
    empty = parse({})
    assert (empty.name, empty.image, empty.created_at, empty.exit_code) == ("", "", None, None)


def test_a_restart_for_another_image_counts_as_none() -> None:
    item = pod_json("iabc", containerStatuses=[{"restartCount": 1, "containerID": "containerd://2", "state": {}}])
    assert parse(item).restarts == 1
    item["metadata"]["annotations"] = {IMAGE_CHANGED: "true"}
    assert (parse(item).restarts, parse(item).container_id) == (0, "containerd://2")


@pytest.mark.parametrize(
    ("status", "message", "kind"),
    [
        (403, 'pods "x" is forbidden: exceeded quota: q', errors.OverQuota),
        (403, 'pods "x" is forbidden: violates PodSecurity "baseline:latest"', errors.Rejected),
        (403, 'pods "x" is forbidden: User "agentbox" cannot patch resource "pods"', errors.NotAllowed),
        (401, "Unauthorized", errors.NotAllowed),
        (404, "not found", errors.Gone),
        (409, "already exists", errors.AlreadyExists),
        (410, "too old", errors.Expired),
        (422, "invalid", errors.Rejected),
        (429, "slow down", errors.Throttled),
        (500, "oops", errors.Transient),
        (0, "", errors.Transient),
    ],
)
def test_each_status_has_its_own_error(status: int, message: str, kind: type[errors.ClusterError]) -> None:
    assert type(errors.classify(status, message)) is kind


def test_the_servers_wish_to_wait_is_kept() -> None:
    error = errors.classify(429, "slow down", 7.0)
    assert isinstance(error, errors.Transient)
    assert error.retry_after == 7.0


def test_a_bucket_grants_its_rate_and_no_more() -> None:
    bucket = Bucket(full=50, rate=50, tokens=50, at=0)
    assert bucket.take(80, 0) == 50
    assert bucket.take(80, 0.1) == 5
    assert bucket.take(80, 100) == 50, "a long rest is worth one second"


def test_a_bucket_halves_when_told_and_recovers_in_time() -> None:
    bucket = Bucket(full=50, rate=50, tokens=50, at=0)
    bucket.halve()
    assert bucket.take(10, 0) == 0
    assert bucket.rate == 25
    bucket.refill(5)
    assert 25 < bucket.rate < 50
    bucket.refill(100)
    assert bucket.rate == 50
