from __future__ import annotations

import subprocess
import sys
from datetime import timedelta

import pytest
from django.utils import timezone

from pools.models import Cluster, Pool
from sandboxes import drain, tasks, transitions
from sandboxes.cluster.client import connect
from sandboxes.cluster.errors import AlreadyExists, OverQuota, Rejected, Throttled, Transient
from sandboxes.lifecycle import EndReason
from sandboxes.models import Sandbox, pod_name
from sandboxes.tokens import new_sandbox_id

from .conftest import Kube

CRASHES = {
    "before the first create": "drain.create_some",
    "after the creates, before they are acknowledged": "transitions.acknowledge",
    "after the acknowledgement, before the bucket is saved": "drain.save",
    "after the deletes, before they are noted": "transitions.ask_again",
}


def insert(pool: Pool, count: int) -> list[str]:
    ids = [new_sandbox_id() for _ in range(count)]
    transitions.insert_pending(pool.pk, ids)
    return ids


def test_pending_rows_get_their_pods_and_stopping_rows_lose_them(kube: Kube, pool: Pool) -> None:
    ids = insert(pool, 5)
    assert drain.drain(pool.cluster_id) == 5
    assert kube.names() == {pod_name(id_) for id_ in ids}
    assert set(Sandbox.objects.values_list("state", flat=True)) == {"starting"}
    transitions.stop(ids[:2], EndReason.KILLED, "test")
    drain.drain(pool.cluster_id)
    assert kube.names() == {pod_name(id_) for id_ in ids[2:]}


def test_a_row_stopped_before_its_pod_exists_ends_at_once(kube: Kube, pool: Pool) -> None:
    (sandbox_id,) = insert(pool, 1)
    transitions.stop([sandbox_id], EndReason.KILLED, "test")
    drain.drain(pool.cluster_id)
    row = Sandbox.objects.get(pk=sandbox_id)
    assert (row.state, row.end_reason) == ("ended", "killed")
    assert kube.names() == set()


def test_creates_are_paced_by_the_clusters_bucket(kube: Kube, pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    Cluster.objects.update(create_rate=4, tokens=4)
    monkeypatch.setattr(drain, "BUDGET", 0.7)
    insert(pool, 40)
    assert 4 <= drain.drain(pool.cluster_id) <= 8


def test_groups_take_turns(kube: Kube, pool: Pool) -> None:
    from tests.factories import make_group, make_pool

    other = make_pool(make_group(env=pool.group.env, name="other"), pool.cluster)
    insert(pool, 60)
    late = insert(other, 2)
    first = [spec.sandbox_id for spec in drain.pending(pool.cluster_id)[:4]]
    assert set(late) < set(first)


@pytest.mark.parametrize("target", CRASHES.values(), ids=CRASHES.keys())
def test_killed_at_any_step_pods_equal_rows_after_the_next_run(
    kube: Kube, pool: Pool, environment: dict[str, str], target: str
) -> None:
    """Done when 10. A real process, killed by SIGKILL as it enters the step."""
    ids = insert(pool, 6)
    if target == "transitions.ask_again":
        drain.drain(pool.cluster_id)
        transitions.stop(ids[:3], EndReason.KILLED, "test")
    script = f"""
import os, signal, django
django.setup()
from sandboxes import drain, transitions
{target} = lambda *a, **k: os.kill(os.getpid(), signal.SIGKILL)
drain.drain({pool.cluster_id})
"""
    killed = subprocess.run([sys.executable, "-c", script], env=environment, timeout=60, check=False)
    assert killed.returncode == -9
    Sandbox.objects.update(delete_at=None)
    drain.drain(pool.cluster_id)
    live = Sandbox.objects.exclude(state__in=["stopping", "ended"])
    assert kube.names() == {row.pod_name for row in live}
    assert len(kube.names()) <= 6


def test_a_cluster_that_does_not_answer_delays_and_names_itself(pool: Pool, kube: Kube) -> None:
    insert(pool, 1)
    kube.process.kill()
    drain.drain(pool.cluster_id)
    row = Sandbox.objects.get()
    assert (row.state, row.finding) == ("pending", "cluster_api")
    assert "does not answer" in row.finding_text
    assert row.retry_at is not None
    assert row.retry_at > timezone.now() - timedelta(seconds=1)


def test_a_run_begins_no_call_after_its_time(kube: Kube, pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drain, "BUDGET", 0.0)
    insert(pool, 3)
    assert drain.drain(pool.cluster_id) == 0
    assert kube.names() == set()
    assert {row.state for row in Sandbox.objects.all()} == {"pending"}, "the next run does it"
    monkeypatch.undo()
    assert drain.drain(pool.cluster_id) == 3


def test_each_refusal_is_put_where_it_belongs() -> None:
    outcome = drain.sort_creates(
        [
            ("a", "uid"),
            ("b", AlreadyExists("")),
            ("c", OverQuota("exceeded quota")),
            ("d", Rejected("bad")),
            ("e", Throttled("slow", 7.0)),
            ("f", Transient("down")),
        ]
    )
    assert outcome.made == [("a", "uid"), ("b", "")]
    assert [(id_, code) for id_, code, _, _ in outcome.later] == [
        ("c", "cluster_quota"),
        ("d", "rejected"),
        ("e", "cluster_api"),
        ("f", "cluster_api"),
    ]
    assert {id_: wait for id_, _, _, wait in outcome.later}["e"] == 7.0
    assert outcome.throttled


def test_without_any_kubeconfig_the_way_out_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", "/nowhere")
    with pytest.raises(Rejected, match="Set KUBECONFIG"):
        connect("/nowhere/at-all", "agentbox")


def test_a_cluster_without_a_usable_kubeconfig_says_so_and_harms_no_pass(pool: Pool) -> None:
    insert(pool, 1)
    Cluster.objects.update(kubeconfig="/nowhere/at-all")
    tasks.drain_cluster(pool.cluster_id)
    assert "Set KUBECONFIG" in Cluster.objects.get().failure
    assert Sandbox.objects.get().state == "pending"
