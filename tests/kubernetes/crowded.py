"""All of AgentBox on the real cluster, with its sandboxes on fake nodes, in a namespace of its own."""

from __future__ import annotations

import contextlib
import json
import secrets
from collections.abc import Iterator

import psycopg

from sandboxes.cluster.client import ClusterClient, connect
from sandboxes.cluster.errors import Gone
from tests.kubernetes.fake_nodes import PLACEMENT, fake_nodes
from tests.kubernetes.single_node import SingleNode, until
from tests.stack import READY, READY_LIMIT, Stack
from tests.stack import until as until_told

TO_FAKE_NODES = "UPDATE pools_env SET pod_template = %s"
NONE_IDLE = "UPDATE pools_scalinggroup SET min_idle = 0"


@contextlib.contextmanager
def crowded(cluster: SingleNode) -> Iterator[tuple[Stack, ClusterClient]]:
    """The running stack, and a client for its namespace. Nothing of either is left afterwards."""
    stack, name = Stack(), f"agentbox-{secrets.token_hex(4)}"
    try:
        with fake_nodes(cluster, stack.folder), namespace(cluster, name) as api:
            try:
                start(stack, cluster, name)
                yield stack, api
            finally:
                stack.stop()
    finally:
        stack.remove()


@contextlib.contextmanager
def namespace(cluster: SingleNode, name: str) -> Iterator[ClusterClient]:
    """With everything in it, it ends with the block."""
    api, path = connect(cluster.kubeconfig, name), f"/api/v1/namespaces/{name}"
    api.call("POST", "/api/v1/namespaces", body={"metadata": {"name": name}})
    try:
        until(lambda: there(api, f"{path}/serviceaccounts/default"), f"Pods can be created in {name}")
        yield api
    finally:
        api.call("DELETE", path)
        until(lambda: not there(api, path), f"the namespace {name} is gone")


def there(api: ClusterClient, path: str) -> bool:
    try:
        api.call("GET", path)
    except Gone:
        return False
    return True


def start(stack: Stack, cluster: SingleNode, name: str) -> None:
    """The demo's env goes to the fake nodes before its first Pod is made."""
    stack.launch(KUBECONFIG=cluster.kubeconfig, AGENTBOX_NAMESPACE=name)
    until_told(lambda: seeded(stack) or stack.ended(), READY_LIMIT, stack.said)
    stack.execute(TO_FAKE_NODES, [json.dumps(PLACEMENT)])
    stack.execute(NONE_IDLE)
    until_told(lambda: READY in stack.said() or stack.ended(), READY_LIMIT, stack.said)
    assert not stack.ended(), stack.said()


def seeded(stack: Stack) -> bool:
    with contextlib.suppress(psycopg.Error):
        return bool(stack.query("SELECT 1 FROM pools_env"))
    return False
