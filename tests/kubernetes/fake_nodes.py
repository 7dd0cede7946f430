"""Nodes that kwok plays, beside the real one: their Pods run nothing and are Ready at once, and the API server, the
scheduler and the watches are real. Every address of such a Pod is on loopback, with a stub of envd that answers there.
"""

from __future__ import annotations

import contextlib
import ipaddress
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.console import Console

from console.kubernetes import build
from console.kubernetes.binaries import KWOK
from console.up.child import before_exec
from sandboxes.cluster.client import ClusterClient
from sandboxes.cluster.errors import AlreadyExists, Gone
from sandboxes.localkube.stub import Stub
from tests.kubernetes.single_node import SingleNode, until

NODES = 60
LABEL = "agentbox.io/fake-node"
"""Also the taint, so that only Pods which ask for it come here."""
PODS = 250
CAPACITY = {"cpu": "1000", "memory": "2Ti", "ephemeral-storage": "2Ti", "pods": str(PODS)}
PLACEMENT = {"nodeSelector": {LABEL: "true"}, "tolerations": [{"key": LABEL, "operator": "Exists"}]}
"""What an env's Pods need to get here (pools.pod_template)."""
ADDRESSES = ipaddress.ip_network("127.32.0.0/19")
"""Loopback is ours as a whole, without a route. As many as there are, kwok takes them again from Pods that are gone."""
PORT = 49983
STAGES = Path(__file__).parent / "kwok.yaml"


@contextlib.contextmanager
def fake_nodes(cluster: SingleNode, folder: Path) -> Iterator[None]:
    """NODES of them, until the end of the block. kwok writes its log to `folder`."""
    kwok = build.build(Console(), KWOK).path("kwok")
    with contextlib.ExitStack() as stack:
        stack.enter_context(stub())
        stack.enter_context(playing(kwok, cluster, folder))
        stack.enter_context(nodes(cluster.client))
        yield


@contextlib.contextmanager
def stub() -> Iterator[None]:
    """One process that answers at each address."""
    daemon = Stub()
    try:
        for address in map(str, ADDRESSES.hosts()):
            with socket.socket() as listener:
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                listener.bind((address, PORT))
                listener.listen(64)
                daemon.add(address, listener)
        yield
    finally:
        daemon.close()


@contextlib.contextmanager
def playing(kwok: Path, cluster: SingleNode, folder: Path) -> Iterator[None]:
    """`kwok` runs, and ends with us."""
    command = [str(kwok), "--config", str(STAGES), "--kubeconfig", cluster.kubeconfig, "--cidr", str(ADDRESSES)]
    with (folder / "kwok.log").open("wb") as log:
        process = subprocess.Popen(
            command,
            stdout=log,
            stderr=log,
            env={"HOME": str(folder)},
            preexec_fn=before_exec(signal.SIGKILL),
        )
    try:
        yield
        assert process.poll() is None, f"kwok ended by itself: {(folder / 'kwok.log').read_text()[-2000:]}"
    finally:
        process.kill()
        process.wait()


@contextlib.contextmanager
def nodes(api: ClusterClient) -> Iterator[None]:
    """They exist, and Pods can be placed on all of them."""
    names = [f"fake-{number}" for number in range(NODES)]
    try:
        for name in names:
            with contextlib.suppress(AlreadyExists):  # of a run that was killed
                api.call("POST", "/api/v1/nodes", body=node(name))
        until(lambda: all(open_to_pods(each) for each in fake(api)), "all fake nodes are Ready")
        yield
    finally:
        for name in names:
            with contextlib.suppress(Gone):
                api.call("DELETE", f"/api/v1/nodes/{name}")


def node(name: str) -> dict[str, Any]:
    labels = {LABEL: "true", "kubernetes.io/hostname": name, "kubernetes.io/os": "linux"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {"taints": [{"key": LABEL, "value": "true", "effect": "NoSchedule"}]},
        "status": {"capacity": CAPACITY, "allocatable": CAPACITY},
    }


def fake(api: ClusterClient) -> list[dict[str, Any]]:
    query = {"labelSelector": f"{LABEL}=true"}
    return list(api.call("GET", "/api/v1/nodes", query=query)["items"])


def open_to_pods(node: dict[str, Any]) -> bool:
    """The control plane has taken away its own taint of new nodes."""
    return [taint["key"] for taint in node["spec"].get("taints", [])] == [LABEL]
