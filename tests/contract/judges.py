"""The two clusters that the contract suite holds side by side."""

from __future__ import annotations

import base64
import json
import ssl
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
COMPACTED = b"compact_rev_key"
"""Where API servers tell one another up to which revision etcd was compacted."""


@contextmanager
def localkube(folder: Path) -> Iterator[Judge]:
    with localkube_process.start(folder, image=IMAGES, node_name="here", node_cpu=8, max_pods=100) as running:
        version = running.call("GET", "/version")["gitVersion"]
        yield Judge(
            "localkube",
            version,
            str(running.kubeconfig),
            *IMAGES,
            compact=lambda: running.call("POST", "/localkube/compact"),
        )


def kubernetes(cluster: SingleNode) -> Judge:
    from tests.kubernetes.images import busybox

    images = [push(busybox(name), f"{cluster.registry}/contract/{name}:1") for name in ("first", "other")]
    etcd = Etcd(cluster.facts)
    version = cluster.client.call("GET", "/version")["gitVersion"]
    return Judge("kubernetes", version, cluster.kubeconfig, *images, compact=etcd.compact)


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
