"""One suite, two judges: localkube here and now; the real cluster with `CONTRACT_ON=kubernetes`, both with
`CONTRACT_ON=localkube,kubernetes`. Where they differ, localkube is wrong."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator

import pytest

from sandboxes.cluster.client import connect
from sandboxes.cluster.errors import ClusterError, Gone
from tests.contract import judges
from tests.contract.kube import Judge, Kube, until
from tests.contract.sightings import Seen

pytest.register_assert_rewrite("tests.contract.lives")
ON = os.environ.get("CONTRACT_ON", "localkube").split(",")
NAMESPACES = "/api/v1/namespaces"


@pytest.fixture(scope="session")
def localkube(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judge]:
    with judges.localkube(tmp_path_factory.mktemp("judge")) as judge:
        yield judge


@pytest.fixture(scope="session")
def kubernetes(request: pytest.FixtureRequest) -> Judge:
    return judges.kubernetes(request.getfixturevalue("cluster"))


@pytest.fixture(scope="module", params=ON)
def shared_kube(request: pytest.FixtureRequest) -> Iterator[Kube]:
    """A namespace of the module's own."""
    judge: Judge = request.getfixturevalue(request.param)
    topic = request.module.__name__.rpartition(".")[2].removeprefix("test_").replace("_", "-")
    kube = Kube(judge, f"contract-{topic}-{secrets.token_hex(3)}")
    admin = connect(judge.kubeconfig, "default")
    admin.call("POST", NAMESPACES, body={"metadata": {"name": kube.namespace}})
    if judge.name == "kubernetes":
        until(lambda: kube.call("GET", kube.path("serviceaccounts", "default")).status, lambda status: status == 200)
    yield kube
    admin.call("DELETE", f"{NAMESPACES}/{kube.namespace}")


@pytest.fixture
def kube(shared_kube: Kube) -> Iterator[Kube]:
    """Left without Pods and quotas for the next test."""
    yield shared_kube
    for name in shared_kube.names():
        shared_kube.patch(name, {"metadata": {"finalizers": None}})
        shared_kube.delete(name, gracePeriodSeconds=0)
    quotas = shared_kube.call("GET", shared_kube.path("resourcequotas")).body["items"]
    for quota in quotas:
        with contextlib.suppress(Gone, ClusterError):
            shared_kube.client.call("DELETE", shared_kube.path("resourcequotas", quota["metadata"]["name"]))


@pytest.fixture
def seen(kube: Kube) -> Seen:
    return Seen(kube)
