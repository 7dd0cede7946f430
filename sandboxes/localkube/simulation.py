"""Containers without processes, with drawn start times and faults."""

import asyncio
import math
import random
from dataclasses import dataclass

from sandboxes.localkube.addresses import Addresses
from sandboxes.localkube.kubelet import PORT, Exit, Life
from sandboxes.localkube.objects import Json, bad_request
from sandboxes.localkube.stub import Stub

FAULTS = ("image_missing", "crash_loop", "never_ready", "evicted", "slow")


@dataclass
class Settings:
    """Seconds (`slow_factor` apart), and for each fault the share (0..1) of Pods that it befalls."""

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
        """All or nothing; a 400 names what is wrong."""
        numbers = {name: self._number(name, value) for name, value in values.items()}
        for name, number in numbers.items():
            setattr(self, name, number)

    def _number(self, name: str, value: float | str) -> float:
        if name not in vars(self):
            raise bad_request(f"{name}: no such setting; there are {', '.join(vars(self))}")
        try:
            number = float(value)
        except (TypeError, ValueError):
            number = -1.0
        if not 0 <= number <= (1 if name in FAULTS else math.inf):
            raise bad_request(f"{name}: {value!r} must be a number from 0{' to 1' if name in FAULTS else ' on'}")
        return number

    def draw_fault(self) -> str:
        lot = random.random()  # noqa: S311 chance, no secret
        for fault in FAULTS:
            lot -= getattr(self, fault)
            if lot < 0:
                return fault
        return ""

    def draw_start(self) -> float:
        return random.lognormvariate(math.log(max(self.start_median, 1e-6)), self.start_sigma)


@dataclass
class Run:
    fault: str
    turn: object | None = None
    """Of the container that runs now; a restarted one has another."""


class SimulatedContainers:
    def __init__(self, settings: Settings, addresses: Addresses, images: set[str]) -> None:
        self.settings = settings
        self._images = images
        self._addresses = addresses
        self._stub: Stub | None = None

    def has_image(self, life: Life) -> bool:
        life.run = life.run or Run(self.settings.draw_fault())
        known = "*" in self._images or life.container["image"] in self._images
        return known and life.run.fault != "image_missing"

    def connect(self, life: Life) -> None:
        life.address = life.address or self._addresses.reserve()

    async def begin(self, life: Life) -> bool | None:
        run: Run = life.run
        seconds = self.settings.draw_start() * (self.settings.slow_factor if run.fault == "slow" else 1)
        clock = asyncio.get_running_loop().time
        end = clock() + seconds
        while clock() < end:
            await life.pause(end - clock())
        life.address, listener = self._addresses.open(life.address)
        self._stub = self._stub or Stub()
        self._stub.add(life.address, listener)
        run.turn = object()
        if run.fault == "crash_loop":
            self._end_later(life, self.settings.crash_after, Exit(1))
        if run.fault == "evicted":
            self._end_later(life, self.settings.evict_after, Exit(137, "Evicted"))
        if run.fault == "never_ready":
            url = f"http://{life.address}:{PORT}/health"
            life.event("Unhealthy", f'Readiness probe failed: Get "{url}": context deadline exceeded', "Warning")
        return run.fault != "never_ready"

    async def kill(self, life: Life, number: int) -> None:
        self._end_later(life, self.settings.stop_median, Exit(128 + number))

    def _end_later(self, life: Life, seconds: float, end: Exit) -> None:
        asyncio.get_running_loop().call_later(seconds, self._end, life, life.run.turn, end)

    def _end(self, life: Life, turn: object | None, end: Exit) -> None:
        if life.run.turn is turn:  # else this run has ended already
            self.silence(life)
            life.exited(end)

    async def probe(self, life: Life, probe: Json) -> str:
        return ""

    def silence(self, life: Life) -> None:
        if self._stub and life.run and life.run.turn:
            self._stub.remove(life.address)
            life.run.turn = None

    def forget(self, life: Life) -> None:
        self.silence(life)
