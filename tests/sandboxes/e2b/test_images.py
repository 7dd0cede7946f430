"""A claim for another image than its env's: in the same Pod, or not at all; against a cluster of simulated Pods."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from pools.models import Cluster as Place
from sandboxes import times
from sandboxes.claims import Wanted, cancel, change_image, give_back, request
from sandboxes.cluster.client import CONTAINER, ClusterClient, connect
from sandboxes.cluster.manifest import PodSpec, manifest
from sandboxes.cluster.snapshot import PodSnapshot
from sandboxes.lifecycle import EndReason
from sandboxes.models import Claim, Event, Sandbox, pod_name
from sandboxes.transitions import stop
from tests.factories import make_cluster, make_env, make_group, make_key, make_pool, make_sandbox, make_team, new_id
from tests.localkube_process import LocalKube, start
from tests.sandboxes.edge_fixtures import edge_is_quiet
from tests.sandboxes.edges import Edge, wait_until

ENVS, OTHER, WRONG = "base:1", "tools/other:2", "nowhere/thing:1"
SPEC = PodSpec("", "", "t", "e", "p", ENVS, 100, 64, "", ["envd"], 49983)


@dataclass
class Cluster:
    """A localkube with simulated nodes, and a pool of sandboxes in it that nobody but the edge looks after."""

    process: LocalKube
    api: ClusterClient
    edge: Edge
    pool: Any
    key: str

    def idle(self, restart: str = "Never") -> Sandbox:
        sandbox_id = new_id()
        pod = manifest(replace(SPEC, name=pod_name(sandbox_id), sandbox_id=sandbox_id))
        pod["spec"]["restartPolicy"] = restart
        uid = self.api.create(pod)
        wait_until(lambda: self.api.read(pod_name(sandbox_id)).ready)
        ip = self.api.read(pod_name(sandbox_id)).ip
        return make_sandbox(self.pool, "idle", id=sandbox_id, pod_ip=ip, pod_uid=uid, image=ENVS)

    def pod(self, row: Sandbox) -> PodSnapshot:
        return self.api.read(row.pod_name)

    def create(self, template: str = "base", **metadata: str) -> httpx.Response:
        body = {"templateID": template, "metadata": metadata}
        headers = {"X-API-Key": self.key}
        return httpx.post(f"{self.edge.url}/v2/sandboxes", json=body, headers=headers, timeout=30)

    def leave_once(self, true: Callable[[], object], image: str) -> None:
        """Ask for an image, and hang up when `true`."""
        body = json.dumps({"templateID": "base", "metadata": {"agentbox/image": image}}).encode()
        head = f"POST /v2/sandboxes HTTP/1.1\r\nHost: x\r\nX-API-Key: {self.key}\r\nContent-Length: {len(body)}\r\n\r\n"
        with socket.create_connection(("127.0.0.1", self.edge.port), timeout=10) as caller:
            caller.sendall(head.encode() + body)
            wait_until(true)

    def simulate(self, **settings: float) -> None:
        self.process.call("PUT", "/localkube/simulation", settings)


@pytest.fixture
def cluster(tmp_path: Path, transactional_db: None, shared_edge: Edge) -> Iterator[Cluster]:
    settings = ["start_median=0.05", "stop_median=0.01"]
    with start(tmp_path, node_name="", simulated_nodes=1, image=[ENVS, OTHER], simulate=settings) as process:
        team = make_team()
        group = make_group(env=make_env(team, name="base", image=ENVS))
        pool = make_pool(group, make_cluster(kubeconfig=str(process.kubeconfig)))
        api = connect(str(process.kubeconfig), "agentbox")
        yield Cluster(process, api, shared_edge, pool, make_key(team)[1])
        wait_until(edge_is_quiet)


def test_another_image_runs_in_the_same_pod_at_the_same_address(cluster: Cluster) -> None:
    row = cluster.idle()
    before = cluster.pod(row)
    answer = cluster.create(**{"agentbox/image": OTHER, "run": "7"})
    assert (answer.status_code, answer.json()["sandboxID"]) == (201, row.pk)
    after = cluster.pod(row)
    assert (after.uid, after.ip, after.image) == (before.uid, before.ip, OTHER)
    assert after.container_id != before.container_id
    assert (after.ready, after.restarts) == (True, 0), "the restart was asked for"
    row.refresh_from_db()
    assert (row.state, row.image, row.metadata) == ("claimed", OTHER, {"agentbox/image": OTHER, "run": "7"})


def test_the_template_may_name_the_image(cluster: Cluster) -> None:
    row = cluster.idle()
    assert cluster.create(f"base//{OTHER}").status_code == 201
    assert cluster.pod(row).image == OTHER


def test_the_envs_own_image_restarts_nothing(cluster: Cluster) -> None:
    row = cluster.idle()
    before = cluster.pod(row)
    assert cluster.create(**{"agentbox/image": ENVS}).status_code == 201
    assert cluster.pod(row).version == before.version


@pytest.mark.parametrize("restart", ["Never", "Always"])
def test_a_wrong_image_is_refused_in_the_registrys_words_and_ends_one_sandbox(cluster: Cluster, restart: str) -> None:
    first, second = cluster.idle(restart), cluster.idle(restart)
    answer = cluster.create(**{"agentbox/image": WRONG})
    assert (answer.status_code, answer.json()["code"]) == (400, 400)
    assert answer.json()["error_code"] == "image_not_usable"
    assert f"The image {WRONG} cannot be used: " in answer.json()["message"]
    assert ": not found" in answer.json()["message"]
    claim = Claim.objects.get()
    assert (claim.state, claim.sandbox_id) == ("cancelled", None)
    assert ": not found" in claim.reason
    first.refresh_from_db()
    assert (first.state, first.end_reason) == ("stopping", "not_armed")
    assert ": not found" in Event.objects.get(sandbox_id=first.pk).text
    plain = cluster.create()
    assert (plain.status_code, plain.json()["sandboxID"]) == (201, second.pk)
    assert cluster.pod(second).image == ENVS


def test_a_wrong_image_is_blamed_although_its_pod_is_deleted_first(cluster: Cluster) -> None:
    """The watcher sees the end of the Pod, too, and then it does not stay for long."""
    first, second = cluster.idle(), cluster.idle()
    with ThreadPoolExecutor(1) as caller:
        asked = caller.submit(cluster.create, **{"agentbox/image": WRONG})
        wait_until(lambda: cluster.pod(first).finished)
        cluster.api.delete(first.pod_name)
        answer = asked.result()
    assert (answer.status_code, answer.json()["error_code"]) == (400, "image_not_usable")
    second.refresh_from_db()
    assert second.state == "idle", "another would have ended like the first"


def test_who_leaves_during_the_pull_leaves_nothing(cluster: Cluster) -> None:
    row = cluster.idle()
    cluster.simulate(start_median=30)
    cluster.leave_once(lambda: cluster.pod(row).image == OTHER, OTHER)
    wait_until(lambda: Sandbox.objects.filter(state="stopping").exists())
    row.refresh_from_db()
    assert (row.end_reason, row.delivered_at) == ("caller_gone", None)
    assert Claim.objects.get().state == "cancelled"


def test_an_image_that_takes_too_long_is_told_apart_from_a_full_pool(cluster: Cluster) -> None:
    cluster.idle()
    cluster.simulate(start_median=30)
    answer = cluster.create(**{"agentbox/image": OTHER, "startup-timeout": "1"})
    assert (answer.status_code, answer.json()["error_code"]) == (503, "image_not_ready")
    assert "startup-timeout" in answer.json()["message"]
    assert not Sandbox.objects.exclude(state="stopping").exists()
    assert Claim.objects.get().state == "cancelled"


def test_a_cluster_that_does_not_let_us_in_is_not_the_images_fault(cluster: Cluster) -> None:
    row = cluster.idle()
    Place.objects.update(kubeconfig="/nowhere/at-all")
    answer = cluster.create(**{"agentbox/image": OTHER})
    assert (answer.status_code, answer.json()["error_code"]) == (500, "image_not_possible")
    assert "Set KUBECONFIG" in answer.json()["message"]
    row.refresh_from_db()
    assert row.state == "stopping"


def test_a_sandbox_whose_pod_has_gone_is_replaced(cluster: Cluster) -> None:
    lost, good = cluster.idle(), cluster.idle()
    cluster.api.delete(lost.pod_name)
    wait_until(lambda: not cluster.api.exists(lost.pod_name))
    answer = cluster.create(**{"agentbox/image": OTHER})
    assert (answer.status_code, answer.json()["sandboxID"]) == (201, good.pk)
    lost.refresh_from_db()
    assert (lost.state, lost.end_reason) == ("stopping", "not_armed")


def test_a_sandbox_whose_pod_is_deleted_meanwhile_is_replaced(cluster: Cluster) -> None:
    first, second = cluster.idle(), cluster.idle()
    cluster.simulate(stop_median=0.7)
    with ThreadPoolExecutor(1) as caller:
        asked = caller.submit(cluster.create, **{"agentbox/image": OTHER})
        wait_until(lambda: cluster.pod(first).image == OTHER)
        cluster.api.delete(first.pod_name)
        answer = asked.result()
    assert (answer.status_code, answer.json()["sandboxID"]) == (201, second.pk)


def test_a_cluster_that_does_not_answer_leaves_nothing(cluster: Cluster) -> None:
    cluster.idle()
    cluster.process.kill()
    answer = cluster.create(**{"agentbox/image": OTHER, "startup-timeout": "1"})
    assert answer.status_code == 503
    assert not Sandbox.objects.exclude(state="stopping").exists()
    assert Claim.objects.get().state == "expired"


def test_why_it_was_given_back_is_kept_although_the_cluster_ended_it_first(cluster: Cluster) -> None:
    row = cluster.idle()
    bound = request(Wanted(cluster.pool.group.env.team_id, cluster.pool.group_id, timeout=60), "edge-test").bound
    assert bound is not None
    stop([row.pk], EndReason.FAILED, "cluster", "The Pod has ended by itself.")
    give_back(bound.claim_id, "pull access denied", replace=False)
    assert Event.objects.get(sandbox_id=row.pk).text == "pull access denied"
    assert Claim.objects.get().state == "cancelled"


def test_a_pull_may_take_longer_than_arming(cluster: Cluster) -> None:
    cluster.idle()
    wanted = Wanted(cluster.pool.group.env.team_id, cluster.pool.group_id, timeout=60, image=OTHER)
    bound = request(wanted, "edge-test").bound
    assert bound is not None
    place = change_image(bound, OTHER, 300 + times.ARM_LIMIT)
    assert place is not None
    assert place.image == ENVS
    row = Sandbox.objects.get()
    assert row.end_at is not None
    assert (row.end_at - bound.end_at).total_seconds() > 290
    cancel([bound.claim_id], "test")
    assert change_image(bound, OTHER, 10) is None, "it is no longer the claim's"


def test_the_container_that_is_patched_is_the_manifests() -> None:
    (container,) = manifest(SPEC)["spec"]["containers"]
    assert container["name"] == CONTAINER
