"""Starts the parts in their order, waits until Pods can be created, and stops them.

Everything but the pushed images is thrown away at the end: every start is a new, empty cluster. So nobody needs a
goodbye, and a stop takes a second.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import ssl
import time
from collections.abc import Callable
from pathlib import Path
from signal import Signals

from console.up.checks import write_private
from console.up.problem import Problem
from console.up.program import Program, Ready, http_ready
from console.up.programs import when
from console.up.supervisor import Supervisor
from sandboxes.cluster.client import ClusterClient, connect
from sandboxes.cluster.errors import AlreadyExists, ClusterError, Gone

from . import binaries as pinned
from . import certificates, cgroups, control_plane, kernel, network, node, registry, tools
from .binaries import Binaries
from .logs import Logs
from .place import NAMESPACE, NODE, Place, Ports, choose_ports

READY_LIMIT = 120.0
POLL = 0.05
KUBECONFIGS = {"admin": "kubeconfig"} | {
    name: f"{name}.kubeconfig" for name in ("controller-manager", "scheduler", "kubelet")
}


def prepare(place: Place) -> Ports:
    """Everything on the disk and in the kernel that the programs expect."""
    ports = choose_ports()
    kernel.remember(place)
    certificates.make(place)
    for user, file in KUBECONFIGS.items():
        write_private(place.state / file, certificates.kubeconfig(place, user, ports.api))
    registry.prepare(place, ports.registry)
    node.prepare(place, ports)
    cgroups.make()
    network.make(place)
    return ports


def programs(binaries: Binaries, place: Place, ports: Ports) -> list[Program]:
    tls = ssl.create_default_context(cafile=str(place.pki / "ca.crt"))
    environment = {"PATH": tools.path(), "HOME": str(place.state), "LC_ALL": "C.UTF-8"}
    alive = ("apiserver",)

    def program(name: str, command: list[str], ready: Ready, after: tuple[str, ...] = ()) -> Program:
        return Program(name, command, environment, after, ready, stop_signal=Signals.SIGKILL)

    return [
        program("etcd", control_plane.etcd(binaries, place, ports), http_ready(ports.etcd_health, "/readyz")),
        program("registry", registry.command(place), http_ready(ports.registry, "/v2/")),
        program("containerd", node.containerd(place), when(place.containerd_socket.exists)),
        program(
            "apiserver",
            control_plane.apiserver(binaries, place, ports),
            http_ready(ports.api, "/readyz", tls),
            ("etcd",),
        ),
        program(
            "controllers",
            control_plane.controllers(binaries, place, ports),
            http_ready(ports.controllers, "/healthz", tls),
            alive,
        ),
        program(
            "scheduler",
            control_plane.scheduler(binaries, place, ports),
            http_ready(ports.scheduler, "/healthz", tls),
            alive,
        ),
        program("kubelet", node.kubelet(binaries, place), in_thread(node_ready, place), ("containerd", *alive)),
    ]


def in_thread(check: Callable[[Place], bool], place: Place) -> Ready:
    async def ready() -> bool:
        return await asyncio.to_thread(check, place)

    return ready


def api(place: Place) -> ClusterClient:
    return connect(str(place.kubeconfig), NAMESPACE)


def node_ready(place: Place) -> bool:
    try:
        conditions = api(place).call("GET", f"/api/v1/nodes/{NODE}")["status"].get("conditions", [])
    except ClusterError:
        return False
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)


async def run(binaries: Binaries, place: Place) -> None:
    """Until Ctrl-C, or a problem."""
    ports = prepare(place)
    parts = programs(binaries, place, ports)
    screen = Logs([program.name for program in parts], place.logs)
    supervised = Supervisor(parts, place.pid_files, screen)
    asked = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, asked.set)
    screen.start()
    supervised.start()
    up = asyncio.create_task(come_up(binaries, place, ports, supervised, screen))
    supervised.failed.add_done_callback(lambda _: asked.set())
    try:
        await asked.wait()
    finally:
        up.cancel()
        screen.started()
        screen.say("stopping")
        await supervised.stop()
    if supervised.failed.done():
        supervised.failed.result()


async def come_up(binaries: Binaries, place: Place, ports: Ports, supervised: Supervisor, screen: Logs) -> None:
    try:
        await supervised.ready["registry"].wait()
        await asyncio.to_thread(push_pause, f"127.0.0.1:{ports.registry}")
        await supervised.all_ready()
        await asyncio.to_thread(make_namespace, place)
        await asyncio.to_thread(wait_for_account, place)
        write_private(place.facts, json.dumps(facts(binaries, place, ports), indent=2))
        screen.started()
        screen.say(f"Pods can be created ({screen.elapsed():.1f} s)")
        screen.block(summary(place))
    except Exception as error:  # noqa: BLE001 - raised again by whoever waits for `failed`
        supervised.fail(error)


def push_pause(address: str) -> None:
    """What holds a Pod's network namespace: it sleeps."""
    busybox = Path(tools.program("busybox")).read_bytes()
    command = {"Entrypoint": ["/busybox", "sleep", "2147483647"]}
    registry.push(address, node.PAUSE, node.PAUSE_TAG, {"/busybox": busybox}, command)


def make_namespace(place: Place) -> None:
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    try:
        api(place).call("POST", "/api/v1/namespaces", body=body)
    except AlreadyExists:
        return


def wait_for_account(place: Place) -> None:
    """Pods are refused until a controller has made the namespace's service account."""
    deadline = time.monotonic() + READY_LIMIT
    while time.monotonic() < deadline:
        try:
            api(place).call("GET", f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/default")
        except Gone:
            time.sleep(POLL)
        else:
            return
    raise Problem(f"The namespace {NAMESPACE} got no service account within {READY_LIMIT:g} s: see controllers.log.")


def facts(binaries: Binaries, place: Place, ports: Ports) -> dict[str, str]:
    return {
        "pid": str(os.getpid()),
        "version": pinned.kubernetes_version(),
        "kubeconfig": str(place.kubeconfig),
        "api": f"https://127.0.0.1:{ports.api}",
        "registry": f"127.0.0.1:{ports.registry}",
        "node": NODE,
        "namespace": NAMESPACE,
        "etcd": f"https://127.0.0.1:{ports.etcd}",
        "pki": str(place.pki),
        "containerd": str(place.containerd_socket),
        "kubectl": str(binaries.path("kubectl")),
        "kwok": str(binaries.path("kwok")),
        "logs": str(place.logs),
    }


def summary(place: Place) -> str:
    known = place.known_facts()
    return f"""
  Kubernetes {known["version"]} runs on this machine, with one node.

    export KUBECONFIG={known["kubeconfig"]}
    {known["kubectl"]} get nodes

    Registry  {known["registry"]}   images pushed there are pulled by their name without a host, too
    Logs      {known["logs"]}

  Stop it with `manage.py kubernetes down`, or Ctrl-C where it runs in the foreground.
"""
