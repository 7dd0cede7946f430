"""What the machine can do without us: Pods like a sandbox's, created side by side, with no controller behind them."""

from __future__ import annotations

import functools
import time
from concurrent.futures import ThreadPoolExecutor

from sandboxes.cluster.client import ClusterClient
from sandboxes.cluster.manifest import PodSpec, manifest
from tests.kubernetes.fake_nodes import PLACEMENT
from tests.stack import until

WORKERS = 32
LIMIT = 120.0
SPEC = PodSpec(
    name="",
    sandbox_id="",
    team="bare",
    env="bare",
    pool="bare",
    image="agentbox/base:1",
    cpu_millis=1000,
    memory_mib=1024,
    disk_mib=1024,
    bootstrap_digest="0" * 64,
    command=["/opt/agentbox/bin/envd"],
    envd_port=49983,
    template=PLACEMENT,
)


def fill(api: ClusterClient, count: int) -> float:
    """Seconds until `count` Pods run, our client's own work included. They stay."""
    began = time.monotonic()
    with ThreadPoolExecutor(WORKERS) as workers:
        list(workers.map(functools.partial(create, api), range(count)))
    until(lambda: not waiting(api), LIMIT)
    return time.monotonic() - began


def create(api: ClusterClient, number: int) -> None:
    pod = manifest(SPEC)
    pod["metadata"] = {"name": f"bare-{number}"}  # without our label, so that no watcher of ours looks at it
    api.create(pod)


def waiting(api: ClusterClient) -> list[object]:
    query = {"fieldSelector": "status.phase!=Running", "resourceVersion": "0"}
    return list(api.call("GET", api.pods, query=query)["items"])
