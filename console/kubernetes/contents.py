"""What has to be in the cluster before Pods can be created: a Ready node, a namespace with an account, an image."""

from __future__ import annotations

import time
from pathlib import Path

from console.up.problem import Problem
from deploy.oci import registry
from deploy.oci.image import Layer, image
from sandboxes.cluster.client import ClusterClient, connect
from sandboxes.cluster.errors import AlreadyExists, ClusterError, Gone

from . import node, tools
from .place import NAMESPACE, NODE, Place

LIMIT = 60.0
POLL = 0.05


def api(place: Place) -> ClusterClient:
    return connect(str(place.kubeconfig), NAMESPACE)


def node_ready(place: Place) -> bool:
    try:
        conditions = api(place).call("GET", f"/api/v1/nodes/{NODE}")["status"].get("conditions", [])
    except ClusterError:
        return False
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)


def push_pause(address: str) -> None:
    """The image of what holds a Pod's network namespace: it sleeps."""
    layer = Layer()
    layer.file("busybox", Path(tools.program("busybox")).read_bytes(), 0o755)
    registry.push(image(layer, Entrypoint=["/busybox", "sleep", "2147483647"]), f"{address}/{node.PAUSE}")


def make_namespace(place: Place) -> None:
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    try:
        api(place).call("POST", "/api/v1/namespaces", body=body)
    except AlreadyExists:
        return


def wait_for_account(place: Place) -> None:
    """Pods are refused until a controller has made the namespace's service account."""
    deadline = time.monotonic() + LIMIT
    while time.monotonic() < deadline:
        try:
            api(place).call("GET", f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/default")
        except Gone:
            time.sleep(POLL)
        else:
            return
    raise Problem(f"The namespace {NAMESPACE} got no service account within {LIMIT:g} s: see controllers.log.")
