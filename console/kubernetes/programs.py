"""The parts as programs for the supervisor: what each waits for, and when it is ready."""

from __future__ import annotations

import asyncio
import functools
import ssl
from collections.abc import Callable
from signal import Signals

from console.up.program import Program, Ready, http_ready
from console.up.programs import when

from . import contents, control_plane, node, registry, tools
from .binaries import Binaries
from .place import Place, Ports


def programs(binaries: Binaries, place: Place, ports: Ports) -> list[Program]:
    tls = ssl.create_default_context(cafile=str(place.pki / "ca.crt"))
    environment = {"PATH": tools.path(), "HOME": str(place.state), "LC_ALL": "C.UTF-8"}

    def program(name: str, command: list[str], ready: Ready, *after: str) -> Program:
        return Program(name, command, environment, after, ready, stop_signal=Signals.SIGKILL)

    def healthy(port: int, path: str) -> Ready:
        return http_ready(port, path, tls)

    etcd = control_plane.etcd(binaries, place, ports)
    apiserver = control_plane.apiserver(binaries, place, ports)
    controllers = control_plane.controllers(binaries, place, ports)
    scheduler = control_plane.scheduler(binaries, place, ports)
    node_ready = in_thread(functools.partial(contents.node_ready, place))
    return [
        program("etcd", etcd, http_ready(ports.etcd_health, "/readyz")),
        program("registry", registry.command(place), http_ready(ports.registry, "/v2/")),
        program("containerd", node.containerd(place), when(place.containerd_socket.exists)),
        program("apiserver", apiserver, healthy(ports.api, "/readyz"), "etcd"),
        program("controllers", controllers, healthy(ports.controllers, "/healthz"), "apiserver"),
        program("scheduler", scheduler, healthy(ports.scheduler, "/healthz"), "apiserver"),
        program("kubelet", node.kubelet(binaries, place), node_ready, "containerd", "apiserver"),
    ]


def in_thread(check: Callable[[], bool]) -> Ready:
    """`check` may take as long as a request."""

    async def ready() -> bool:
        return await asyncio.to_thread(check)

    return ready
