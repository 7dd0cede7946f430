"""The account of deploy/base/rbac.yaml on the real API server: it can do what the product does, and not with one verb
less; and the server's own check of Pods takes ours and refuses worse ones."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from console.kubernetes import account
from console.kubernetes.place import Place
from sandboxes.cluster.client import ClusterClient, connect
from sandboxes.cluster.errors import AlreadyExists, Gone, Rejected
from sandboxes.cluster.manifest import manifest
from tests.kubernetes.single_node import until
from tests.sandboxes.cluster.test_manifest import TEMPLATE, WITH_ENVD
from tests.sandboxes.pods import SPEC

if TYPE_CHECKING:
    from tests.kubernetes.single_node import SingleNode

OTHER = replace(SPEC, name="sb-other")
CALLS: dict[str, Callable[[ClusterClient, str], Any]] = {
    "create": lambda api, version: api.create(manifest(SPEC)),
    "get": lambda api, version: api.exists(SPEC.name),
    "list": lambda api, version: api.list_pods(),
    "watch": lambda api, version: next(api.watch(version)),
    "patch": lambda api, version: api.patch_image(OTHER.name, SPEC.image),
    "delete": lambda api, version: api.delete(SPEC.name),
}
OTHER_CALLS: dict[str, tuple[str, int, Callable[[ClusterClient], Any]]] = {
    "list events": ("role/agentbox", 1, lambda api: api.why_not_started("uid")),
    "get kube-system": ("clusterrole/agentbox-cluster-identity", 0, lambda api: api.uid()),
}
"""The role and the number of its rule beside each."""


@pytest.fixture(scope="module")
def product(cluster: SingleNode) -> Iterator[ClusterClient]:
    """A client under the product's own account."""
    yield connect(str(account.kubeconfig(Place(cluster.state))), "agentbox")
    cluster.kubectl("label", "namespace", "agentbox", "pod-security.kubernetes.io/enforce-")


@pytest.fixture(autouse=True)
def no_pods(cluster: SingleNode) -> Iterator[None]:
    yield
    for name in (SPEC.name, OTHER.name):
        with contextlib.suppress(Gone):
            cluster.client.delete(name)


def answer(call: Callable[[], Any]) -> bool:
    """Whether the server allows it."""
    try:
        call()
    except Rejected as error:
        return "forbidden" not in error.message
    except (AlreadyExists, Gone):
        return True
    return True


def test_the_product_works_under_its_own_account(cluster: SingleNode, product: ClusterClient) -> None:
    assert product.uid() == cluster.client.uid()
    _, version = product.list_pods()
    for verb, call in CALLS.items():
        assert answer(lambda call=call: call(product, version)), verb


@pytest.mark.parametrize("verb", CALLS)
def test_with_one_verb_less_that_call_fails(cluster: SingleNode, product: ClusterClient, verb: str) -> None:
    _, version = cluster.client.list_pods()
    cluster.client.create(manifest(OTHER))
    with only(cluster, "role/agentbox", 0, [each for each in CALLS if each != verb]):
        deadline = time.monotonic() + 20
        while answer(lambda: CALLS[verb](product, version)):
            assert time.monotonic() < deadline, f"it can still {verb}"
            time.sleep(0.2)
            with contextlib.suppress(Gone):
                cluster.client.delete(SPEC.name)


@pytest.mark.parametrize("name", OTHER_CALLS)
def test_without_one_of_the_other_rights_that_call_fails(
    cluster: SingleNode, product: ClusterClient, name: str
) -> None:
    role, rule, call = OTHER_CALLS[name]
    assert answer(lambda: call(product))
    with only(cluster, role, rule, ["deletecollection"]):
        until(lambda: not answer(lambda: call(product)), f"it cannot {name}", limit=20)


@contextlib.contextmanager
def only(cluster: SingleNode, role: str, rule: int, verbs: list[str]) -> Iterator[None]:
    """With these verbs in that rule of a role."""
    change = json.dumps([{"op": "replace", "path": f"/rules/{rule}/verbs", "value": verbs}])
    cluster.kubectl("--namespace", "agentbox", "patch", role, "--type=json", "-p", change)
    try:
        yield
    finally:
        cluster.kubectl("apply", "-f", str(account.RIGHTS))


@pytest.mark.parametrize(
    "path",
    ["namespaces/agentbox/secrets", "namespaces/default", "namespaces/agentbox-system/secrets", "nodes", "pods"],
)
def test_the_product_can_read_nothing_else(product: ClusterClient, path: str) -> None:
    assert not answer(lambda: product.call("GET", f"/api/v1/{path}"))


def dry_run(api: ClusterClient, pod: dict[str, Any]) -> None:
    api.call("POST", api.pods, query={"dryRun": "All", "fieldValidation": "Strict"}, body=pod)


def test_the_server_takes_our_pods_with_all_that_an_env_may_add(product: ClusterClient) -> None:
    template = {name: value for name, value in TEMPLATE.items() if name != "runtimeClassName"}
    dry_run(product, manifest(replace(WITH_ENVD, disk_mib=1024, template=template)))


@pytest.mark.parametrize(
    "worse",
    [{"hostNetwork": True}, {"hostPID": True}, {"volumes": [{"name": "x", "hostPath": {"path": "/"}}]}],
    ids=lambda worse: next(iter(worse)),
)
def test_the_server_refuses_pods_that_would_weaken_isolation(product: ClusterClient, worse: dict[str, Any]) -> None:
    pod = manifest(SPEC)
    pod["spec"] |= worse
    with pytest.raises(Rejected, match='violates PodSecurity "baseline'):
        dry_run(product, pod)
