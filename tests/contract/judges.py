"""The two clusters that the contract suite holds side by side."""

from __future__ import annotations

import base64
import json
import ssl
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deploy.oci.registry import push
from tests import localkube_process
from tests.contract.kube import Judge

if TYPE_CHECKING:
    from tests.kubernetes.single_node import SingleNode

IMAGES = ["contract:1", "contract:2"]
PYTHON = "/opt/python/bin/python3"
HANDED_OVER = """
import socket, time
time.sleep(1)
listener = socket.socket(fileno=3)
while True:
    connection, _ = listener.accept()
    connection.recv(65536)
    connection.sendall(b"HTTP/1.1 204 No Content\\r\\n\\r\\n")
    connection.close()
"""
"""Serves the socket that localkube hands over."""
BUSYBOX = "sleep 1; mkdir /tmp/www; touch /tmp/www/health; exec httpd -f -p 49983 -h /tmp/www"
COMPACTED = b"compact_rev_key"
"""Where API servers tell one another up to which revision etcd was compacted."""


@contextmanager
def localkube(folder: Path) -> Iterator[Judge]:
    mount = f"{Path(sys.base_prefix).resolve()}:/opt/python"
    flags: dict[str, Any] = {"image": IMAGES, "mount": [mount], "node_name": "here", "node_cpu": 8, "max_pods": 100}
    variables = [{"name": "LD_LIBRARY_PATH", "value": "/opt/python/lib"}]
    with localkube_process.start(folder, **flags) as running:
        version = running.call("GET", "/version")["gitVersion"]
        yield Judge(
            "localkube",
            version,
            str(running.kubeconfig),
            *IMAGES,
            compact=lambda: running.call("POST", "/localkube/compact"),
            server={"command": [PYTHON, "-S", "-c", HANDED_OVER], "env": variables},
            limits="no limits" not in running.log.read_text(),
        )


@contextmanager
def simulated(folder: Path, **settings: float) -> Iterator[tuple[Judge, localkube_process.LocalKube]]:
    """A localkube of a test's own, whose one node runs Pods without processes."""
    flags: dict[str, Any] = {"image": IMAGES, "node_name": "", "simulated_nodes": 1}
    given = {"start_median": 0.01, "stop_median": 0.01} | settings
    with localkube_process.start(folder, simulate=[f"{key}={value}" for key, value in given.items()], **flags) as own:
        yield Judge("localkube", "", str(own.kubeconfig), *IMAGES, compact=lambda: None), own


def kubernetes(cluster: SingleNode) -> Judge:
    from tests.kubernetes.images import busybox

    images = [push(busybox(name), f"{cluster.registry}/contract/{name}:1") for name in ("first", "other")]
    etcd, server = Etcd(cluster.facts), {"command": ["/bin/sh", "-c", BUSYBOX]}
    version = cluster.client.call("GET", "/version")["gitVersion"]
    return Judge("kubernetes", version, cluster.kubeconfig, *images, compact=etcd.compact, server=server)


class Etcd:
    """The store behind a real API server, by the JSON form of its protocol."""

    def __init__(self, facts: dict[str, str]) -> None:
        pki = Path(facts["pki"])
        self.url = facts["etcd"]
        self.tls = ssl.create_default_context(cafile=str(pki / "ca.crt"))
        self.tls.load_cert_chain(pki / "apiserver-client.crt", pki / "apiserver-client.key")

    def call(self, path: str, **body: Any) -> Any:
        request = urllib.request.Request(f"{self.url}/v3/kv/{path}", json.dumps(body).encode())
        with urllib.request.urlopen(request, timeout=20, context=self.tls) as answer:
            return json.load(answer)

    def compact(self) -> None:
        """As an API server does every five minutes: all versions before now are gone, and every one hears of it."""
        key = base64.b64encode(COMPACTED).decode()
        revision = str(int(self.call("range", key=key)["header"]["revision"]) + 1)
        made = self.call("put", key=key, value=base64.b64encode(revision.encode()).decode())
        self.call("compaction", revision=made["header"]["revision"], physical=True)
