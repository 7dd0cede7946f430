"""Pods of simulated nodes: statuses without processes, with drawn start times and faults. One stub daemon inside localkube
answers for all their addresses, each with a listening socket of its own, so an address without a live Pod refuses."""

import asyncio
import contextlib
import logging
import math
import random
import select
import socket
from collections.abc import Callable
from dataclasses import dataclass

from sandboxes.localkube import podstatus
from sandboxes.localkube.cluster import Cluster
from sandboxes.localkube.kubelet import Addresses
from sandboxes.localkube.launcher import LaunchError
from sandboxes.localkube.objects import Json, bad_request
from sandboxes.localkube.store import Key

log = logging.getLogger("localkube")
FAULTS = ("image_missing", "crash_loop", "never_ready", "evicted", "slow")
_EVICTED = "The node was low on resource: memory. Threshold quantity: 100Mi, available: 64Mi."
_ANSWER = b"HTTP/1.1 204 No Content\r\n\r\n"
_UNKNOWN = b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n"


@dataclass
class Settings:
    """Seconds, except the faults: each the share (0..1) of Pods that it befalls."""

    start_median: float = 1.0
    start_sigma: float = 0.3
    stop_median: float = 0.2
    slow_factor: float = 20.0
    crash_after: float = 1.0
    evict_after: float = 5.0
    node_eviction: float = 5.0
    slow: float = 0.0
    never_ready: float = 0.0
    image_missing: float = 0.0
    crash_loop: float = 0.0
    evicted: float = 0.0

    def change(self, values: Json) -> None:
        for name, value in values.items():
            if name not in vars(self):
                raise bad_request(f"{name}: no such setting; there are {', '.join(sorted(vars(self)))}")
            number = float(value) if isinstance(value, int | float | str) and _is_number(value) else -1
            if number < 0 or (name in FAULTS and number > 1):
                raise bad_request(f"{name}: {value!r} must be a number {'from 0 to 1' if name in FAULTS else 'not below 0'}")
        for name, value in values.items():
            setattr(self, name, float(value))

    def draw(self) -> str:
        """The fault of a new Pod, or nothing."""
        lot = random.random()  # noqa: S311 chance, no secret
        for fault in FAULTS:
            lot -= getattr(self, fault)
            if lot < 0:
                return fault
        return ""

    def start_seconds(self) -> float:
        return random.lognormvariate(math.log(max(self.start_median, 1e-6)), self.start_sigma)


@dataclass(slots=True)
class SimulatedPod:
    key: Key
    uid: str
    fault: str
    address: str = ""
    listener: socket.socket | None = None
    timer: asyncio.TimerHandle | None = None
    restarts: int = 0


class Simulation:
    def __init__(self, cluster: Cluster, settings: Settings, addresses: Addresses, images: set[str]) -> None:
        self._cluster = cluster
        self.settings = settings
        self._addresses = addresses
        self._images = images
        self._stub = Stub()
        self._pods: dict[str, SimulatedPod] = {}

    def start(self, pod: Json) -> None:
        meta, image = pod["metadata"], pod["spec"]["containers"][podstatus.MAIN]["image"]
        fault = self.settings.draw() if "*" in self._images or image in self._images else "image_missing"
        simulated = self._pods[meta["uid"]] = SimulatedPod((meta["namespace"], meta["name"]), meta["uid"], fault)
        seconds = self.settings.start_seconds() * (self.settings.slow_factor if fault == "slow" else 1)
        self._later(simulated, seconds, self._no_image if fault == "image_missing" else self._run)

    def stop(self, key: Key, uid: str, grace: float) -> None:
        simulated = self._pods.get(uid)
        if simulated is None:
            self._cluster.gone(key, uid)
        elif grace <= 0:
            self._end(simulated)
        else:
            self._later(simulated, min(grace, self.settings.stop_median), self._end)

    def image_changed(self, pod: Json) -> None:
        if (simulated := self._pods.get(pod["metadata"]["uid"])) and "deletionTimestamp" not in pod["metadata"]:
            image = pod["spec"]["containers"][podstatus.MAIN]["image"]
            known = "*" in self._images or image in self._images
            self._close(simulated)
            if "running" in pod["status"]["containerStatuses"][podstatus.MAIN]["state"]:
                self._state(simulated, podstatus.terminated(pod, 0))
            self._later(simulated, self.settings.start_seconds(), self._run if known else self._no_image)

    def node_down(self, name: str) -> None:
        """Its addresses fall silent; after a while its Pods are removed, as happens when a cloud takes a machine away."""
        lost = [self._pods[entry.uid] for entry in self._cluster.node_down(name) if entry.uid in self._pods]
        for simulated in lost:
            self._close(simulated)
            self._later(simulated, self.settings.node_eviction, self._end)

    # ---- stages of a life ----------------------------------------------------------------------------------------------

    def _run(self, simulated: SimulatedPod) -> None:
        try:
            self._open(simulated)
        except LaunchError as error:
            log.warning("%s", error)
            return
        ready = simulated.fault != "never_ready"
        pod = self._edit(simulated, lambda item: podstatus.started(item, simulated.address, ready=ready))
        if pod is None:
            return
        for reason, message in _STARTED:
            self._cluster.event(pod, "Normal", reason, message)
        if not ready:
            problem = f'Get "http://{simulated.address}:49983/health": dial tcp {simulated.address}:49983: connect: connection refused'
            self._cluster.event(pod, "Warning", "Unhealthy", f"Readiness probe failed: {problem}")
        elif simulated.fault == "crash_loop":
            self._later(simulated, self.settings.crash_after, self._crash)
        elif simulated.fault == "evicted":
            self._later(simulated, self.settings.evict_after, self._evict)

    def _crash(self, simulated: SimulatedPod) -> None:
        self._close(simulated)
        pod = self._edit(simulated, lambda item: podstatus.set_state(item, podstatus.terminated(item, 1)))
        if pod is None or not podstatus.restarts_after(pod, 1):
            return
        seconds, message = podstatus.back_off(pod, simulated.restarts)
        simulated.restarts += 1
        self._state(simulated, podstatus.waiting("CrashLoopBackOff", message))
        name = pod["spec"]["containers"][podstatus.MAIN]["name"]
        shown = f"Back-off restarting failed container {name} in pod {simulated.key[1]}"
        self._cluster.event(pod, "Warning", "BackOff", shown)
        self._later(simulated, seconds, self._run)

    def _evict(self, simulated: SimulatedPod) -> None:
        self._close(simulated)
        if pod := self._edit(simulated, lambda item: podstatus.evicted(item, _EVICTED)):
            self._cluster.event(pod, "Warning", "Evicted", _EVICTED)

    def _no_image(self, simulated: SimulatedPod) -> None:
        entry = self._cluster.pods.entries.get(simulated.key)
        image = entry.load()["spec"]["containers"][podstatus.MAIN]["image"] if entry else ""
        problem = podstatus.missing_image(image)
        if pod := self._state(simulated, podstatus.waiting("ErrImagePull", problem)):
            self._cluster.event(pod, "Warning", "Failed", f'Failed to pull image "{image}": {problem}')
            self._later(simulated, 1.0, lambda each: self._back_off_image(each, image, problem))

    def _back_off_image(self, simulated: SimulatedPod, image: str, problem: str) -> None:
        shown = f'Back-off pulling image "{image}"'
        if pod := self._state(simulated, podstatus.waiting("ImagePullBackOff", f"{shown}: ErrImagePull: {problem}")):
            self._cluster.event(pod, "Normal", "BackOff", shown)

    def _end(self, simulated: SimulatedPod) -> None:
        self._close(simulated)
        if simulated.timer:
            simulated.timer.cancel()
        self._pods.pop(simulated.uid, None)
        self._cluster.gone(simulated.key, simulated.uid)

    # ---- small words ---------------------------------------------------------------------------------------------------

    def _later(self, simulated: SimulatedPod, seconds: float, stage: Callable[[SimulatedPod], None]) -> None:
        if simulated.timer:
            simulated.timer.cancel()
        simulated.timer = asyncio.get_running_loop().call_later(seconds, stage, simulated)

    def _edit(self, simulated: SimulatedPod, change: Callable[[Json], None]) -> Json | None:
        return self._cluster.edit_pod(simulated.key, simulated.uid, change)

    def _state(self, simulated: SimulatedPod, state: Json) -> Json | None:
        return self._edit(simulated, lambda pod: podstatus.set_state(pod, state))

    def _open(self, simulated: SimulatedPod) -> None:
        if not simulated.address:
            simulated.address, simulated.listener = self._addresses.take()
        elif simulated.listener is None:
            simulated.listener = self._addresses.again(simulated.address)
        if simulated.listener:
            self._stub.add(simulated.listener)

    def _close(self, simulated: SimulatedPod) -> None:
        if simulated.listener:
            self._stub.remove(simulated.listener)
            simulated.listener.close()
            simulated.listener = None


_STARTED = (
    ("Pulled", "Container image already present on machine"),
    ("Created", "Created container"),
    ("Started", "Started container"),
)


class Stub:
    """The daemon of all simulated Pods: their listening sockets in one epoll set, which the loop watches as one file."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._listeners: dict[int, socket.socket] = {}
        asyncio.get_running_loop().add_reader(self._epoll.fileno(), self._accept)

    def add(self, listener: socket.socket) -> None:
        listener.setblocking(False)
        self._listeners[listener.fileno()] = listener
        self._epoll.register(listener.fileno(), select.EPOLLIN)

    def remove(self, listener: socket.socket) -> None:
        if self._listeners.pop(listener.fileno(), None):
            self._epoll.unregister(listener.fileno())

    def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        for fd, _ in self._epoll.poll(0, 64):
            with contextlib.suppress(OSError, KeyError):
                connection, _ = self._listeners[fd].accept()
                connection.setblocking(False)
                task = loop.create_task(_answer(connection))
                _answering.add(task)
                task.add_done_callback(_answering.discard)


_answering: set[asyncio.Task[None]] = set()
IDLE_SECONDS = 60.0


async def _answer(connection: socket.socket) -> None:
    """GET /health and POST /init get 204, as from the real daemon; a connection may carry several requests."""
    loop, rest = asyncio.get_running_loop(), b""
    with connection, contextlib.suppress(OSError, ValueError, TimeoutError):
        while True:
            chunk = await asyncio.wait_for(loop.sock_recv(connection, 65536), IDLE_SECONDS)
            rest += chunk
            head, end, body = rest.partition(b"\r\n\r\n")
            if not chunk or len(rest) > 1 << 20:
                return
            size = _body_size(head)
            if end and len(body) >= size:
                rest = body[size:]
                path = head.split(b" ", 2)[1].partition(b"?")[0]
                await loop.sock_sendall(connection, _ANSWER if path in (b"/health", b"/init") else _UNKNOWN)


def _body_size(head: bytes) -> int:
    for line in head.lower().split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name == b"content-length":
            return int(value)
    return 0


def _is_number(value: float | str) -> bool:
    try:
        return math.isfinite(float(value))
    except ValueError:
        return False
