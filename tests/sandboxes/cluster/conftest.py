"""A localkube with simulated nodes for the tests of the door to Kubernetes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from pools.models import Pool
from sandboxes.cluster.client import ClusterClient, connect
from tests.factories import make_cluster, make_env, make_group, make_pool, make_team
from tests.localkube_process import LocalKube, start


@dataclass
class Kube:
    """A running localkube and the client that the product uses."""

    process: LocalKube
    api: ClusterClient

    def post(self, path: str) -> None:
        """Ask localkube's own control endpoint for trouble."""
        headers = {"Authorization": f"Bearer {self.process.token}"}
        httpx.post(f"{self.process.url}{path}", headers=headers, timeout=5).raise_for_status()

    def names(self) -> set[str]:
        return {pod.name for pod in self.api.list_pods()[0] if not pod.deleting}


@pytest.fixture
def kube(tmp_path: Path) -> Iterator[Kube]:
    process = start(tmp_path / "kube", node_name="", simulated_nodes=4, image="*", simulate="start_median=0.1")
    try:
        yield Kube(process, connect(str(process.kubeconfig), "agentbox"))
    finally:
        process.stop()


@pytest.fixture
def pool(kube: Kube, transactional_db: None) -> Pool:
    """A pool on that cluster, with room for 100."""
    cluster = make_cluster("sim", kubeconfig=str(kube.process.kubeconfig), create_rate=200)
    group = make_group(env=make_env(make_team(quota=100), image="base:1"), max_replicas=100)
    return make_pool(group, cluster)
