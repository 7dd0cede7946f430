"""A Pod's life, whatever gives it a process: pull, start, probe, restart, stop, in the kubelet's order and words."""

import asyncio
import logging
import signal
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from sandboxes.localkube import images, podstatus
from sandboxes.localkube.cluster import Cluster
from sandboxes.localkube.objects import Json
from sandboxes.localkube.store import Key

log = logging.getLogger("localkube")
PORT = 49983  # the one port of a Pod that can be reached
STARTUP_PROBE_SECONDS = 0.05
STARTUP_PROBES = 400  # then the probe's own period, as there seems to be no hurry
SYNC_SECONDS = 10.0  # between two looks of a kubelet at a Pod that is in trouble


class LaunchError(Exception):
    """A container that cannot be started, with the reason. `config`: it was not even tried."""

    def __init__(self, reason: str, *, config: bool = False) -> None:
        super().__init__(reason)
        self.config = config


class Stopped(Exception):
    """Raised inside a life when its Pod is deleted while nothing runs."""


@dataclass(frozen=True)
class Exit:
    code: int
    reason: str = ""  # OOMKilled, Evicted


class Containers(Protocol):
    """What gives a life its container: processes, or a simulation. Calls `life.exited` when the container ends."""

    def has_image(self, life: "Life") -> bool: ...
    def connect(self, life: "Life") -> None:
        """Give it an address, if it has none."""

    async def begin(self, life: "Life") -> bool | None:
        """Start it. Whether it is ready, or None: ask `probe`."""

    async def kill(self, life: "Life", number: int) -> None: ...
    async def probe(self, life: "Life", probe: Json) -> str: ...
    def silence(self, life: "Life") -> None: ...
    def forget(self, life: "Life") -> None: ...


class Kubelet:
    """The lives on one node."""

    def __init__(self, cluster: Cluster, containers: Containers) -> None:
        self.cluster = cluster
        self.containers = containers
        self.lives: dict[str, Life] = {}

    def start(self, pod: Json) -> None:
        life = self.lives[pod["metadata"]["uid"]] = Life(self, pod)
        life.task = asyncio.get_running_loop().create_task(life.live())

    def stop(self, key: Key, uid: str, grace: float) -> None:
        if life := self.lives.get(uid):
            life.stop(grace)
        else:
            self.cluster.gone(key, uid)

    def image_changed(self, pod: Json) -> None:
        if life := self.lives.get(pod["metadata"]["uid"]):
            life.change(pod)

    def node_lost(self, uids: list[str], eviction_seconds: float) -> None:
        """Its Pods fall silent at once and are removed later, as happens when a cloud takes a machine away."""
        for life in [self.lives[uid] for uid in uids if uid in self.lives]:
            self.containers.silence(life)
            asyncio.get_running_loop().call_later(eviction_seconds, life.stop, 0)


class Life:
    def __init__(self, kubelet: Kubelet, pod: Json) -> None:
        meta = pod["metadata"]
        self.key, self.uid, self.pod = (meta["namespace"], meta["name"]), meta["uid"], _slim(pod)
        self.address = ""
        self.starts = 0
        self.run: Any = None  # what the containers keep about this life
        self.task: asyncio.Task[None] | None = None
        self.containers = kubelet.containers
        self._kubelet = kubelet
        self._grace: float | None = None
        self._exit: Exit | None = None
        self._former: Exit | None = None  # of the container that gave way to one of another image, until it is told
        self._image = ""
        self._changed = asyncio.Event()

    @property
    def container(self) -> Json:
        found: Json = self.pod["spec"]["containers"][podstatus.MAIN]
        return found

    # ---- news from outside -------------------------------------------------------------------------------------

    def stop(self, grace: float) -> None:
        self._grace = grace if self._grace is None else min(grace, self._grace)
        self._changed.set()

    def change(self, pod: Json) -> None:
        self.pod = _slim(pod)
        self._changed.set()

    def exited(self, end: Exit) -> None:
        self._exit = end
        self._changed.set()

    # ---- the life ----------------------------------------------------------------------------------------------

    async def live(self) -> None:
        try:
            while await self._run_once():
                pass
            while True:
                await self.pause(None)  # an ended Pod stays to be read, until it is deleted
        except Stopped:
            pass
        except Exception:
            log.exception("Pod %s/%s was given up", *self.key)
        finally:
            self.containers.forget(self)
            del self._kubelet.lives[self.uid]
            self._kubelet.cluster.gone(self.key, self.uid)

    async def pause(self, seconds: float | None) -> bool:
        """Sleep, cut short by a change of the Pod (True) and by its deletion (Stopped)."""
        if self._grace is None and not await self._wait(seconds):
            return False
        if self._grace is not None:
            self.edit(podstatus.stopped)
            raise Stopped
        return True

    async def _wait(self, seconds: float | None) -> bool:
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            return False
        self._changed.clear()
        return True

    async def _run_once(self) -> bool:
        """One run of the container, from pull to end; False when no other is to follow."""
        if not await self._pull():
            return False
        self._exit = None
        try:
            ready = await self.containers.begin(self)
        except LaunchError as error:
            return await self._not_begun(error)
        self.starts += 1
        self.event("Created", f"Created container: {self.container['name']}")
        self.event("Started", f"Started container {self.container['name']}")
        probe = self.container.get("readinessProbe") if ready is None else None
        self._tell_started(ready=not probe if ready is None else ready)
        probing = asyncio.create_task(self._probe(probe)) if probe else None
        try:
            replaced = await self._until_exit()
        finally:
            if probing:
                probing.cancel()
        return await self._ended(replaced)

    async def _pull(self) -> bool:
        """Waits, with the real back-off, until the image exists; False when the Pod ends instead."""
        attempt = 0
        while True:
            self._image = self.container["image"]
            refusal = images.refusal(self.container, present=self.containers.has_image(self))
            if not refusal:
                self._tell_pulled()
                return True
            if refusal.reason == "ErrImagePull":
                self.event("Pulling", f'Pulling image "{self._image}"')
            self.event(refusal.event, refusal.told, "Warning")
            self.event("Failed", f"Error: {refusal.reason}", "Warning")
            if self._ends_with_former():
                return False
            self._tell_refused(refusal)
            if refusal.reason != "ErrImagePull":
                await self.pause(SYNC_SECONDS)
            elif not await self.pause(1.0):
                await self._back_off_pulling(refusal, podstatus.back_off_seconds(attempt))
                attempt += 1

    def _tell_pulled(self) -> None:
        if images.always_pulled(self.container):
            self.event("Pulling", f'Pulling image "{self._image}"')
            size = "(1ms including waiting). Image size: 1 bytes."
            self.event("Pulled", f'Successfully pulled image "{self._image}" in 1ms {size}')
        else:
            self.event("Pulled", f'Container image "{self._image}" already present on machine')

    def _tell_refused(self, refusal: images.Refusal) -> None:
        """A Pod has its network before its images are asked for."""
        self.containers.connect(self)

        def change(pod: Json) -> None:
            podstatus.connected(pod, self.address)
            podstatus.set_state(pod, podstatus.waiting(refusal.reason, refusal.message))

        self.edit(change)

    async def _back_off_pulling(self, refusal: images.Refusal, seconds: int) -> None:
        shown = f'Back-off pulling image "{self._image}"'
        self.event("BackOff", shown)
        self.event("Failed", "Error: ImagePullBackOff", "Warning")
        self.state(podstatus.waiting("ImagePullBackOff", f"{shown}: {refusal.reason}: {refusal.message}"))
        await self.pause(seconds)

    async def _not_begun(self, error: LaunchError) -> bool:
        if error.config:
            self.event("Failed", f"Error: {error}", "Warning")
            if self._ends_with_former():
                return False
            self.state(podstatus.waiting("CreateContainerError", str(error)))
            await self.pause(podstatus.back_off_seconds(0))
            return True
        message = podstatus.start_error(str(error))
        self.starts += 1
        self.event("Created", f"Created container: {self.container['name']}")
        self.event("Failed", f"Error: {message}", "Warning")
        self.edit(lambda pod: self._tell_not_started(pod, message))
        return await self._again(128)

    def _tell_not_started(self, pod: Json, message: str) -> None:
        self._tell_former(pod)
        podstatus.not_started(pod, self.address, message)

    async def _until_exit(self) -> bool:
        """Whether the container was ended to give way to one of another image."""
        replaced = False
        while self._exit is None:
            if self._grace is None and self._image == self.container["image"]:
                await self._wait(None)
                continue
            replaced = self._grace is None
            name = self.container["name"]
            changed = f"Container {name} definition changed, will be restarted"
            self.event("Killing", changed if replaced else f"Stopping container {name}")
            await self._kill(self.pod["spec"]["terminationGracePeriodSeconds"] if self._grace is None else self._grace)
        self._changed.clear()  # seen; it must not cut the back-off short
        return replaced

    async def _kill(self, grace: float) -> None:
        clock = asyncio.get_running_loop().time
        end = clock() + grace
        await self.containers.kill(self, signal.SIGTERM)
        while self._exit is None and clock() < end:
            await self._wait(end - clock())
            end = end if self._grace is None else min(end, clock() + self._grace)
        while self._exit is None:
            await self.containers.kill(self, signal.SIGKILL)
            await self._wait(5.0)

    async def _ended(self, replaced: bool) -> bool:
        end = self._exit or Exit(0)
        if self._grace is not None:
            self.edit(lambda pod: podstatus.over(pod, end.code, end.reason))
            raise Stopped
        if end.reason == "Evicted":
            self.edit(podstatus.evicted)
            self.event("Evicted", podstatus.EVICTED, "Warning")
            return False
        if replaced:
            self._former = end  # a kubelet is silent between the old container and the new one, whatever the policy
            return True
        self.edit(lambda pod: podstatus.set_state(pod, podstatus.terminated(pod, end.code, end.reason)))
        return await self._again(end.code)

    def _ends_with_former(self) -> bool:
        """Whether the Pod is over, because its next container cannot start and the policy wants no second try."""
        if not (former := self._former):
            return False
        self.edit(self._tell_former)
        return not podstatus.restarts_after(self.pod, former.code)

    def _tell_former(self, pod: Json) -> None:
        if end := self._former:
            podstatus.set_state(pod, podstatus.terminated(pod, end.code, end.reason))
            self._former = None

    def _tell_started(self, *, ready: bool = False) -> None:
        def change(pod: Json) -> None:
            self._tell_former(pod)
            podstatus.started(pod, self.address, ready=ready)

        self.edit(change)

    async def _again(self, code: int) -> bool:
        """Back off before the next run, if the restart policy wants one."""
        if not podstatus.restarts_after(self.pod, code):
            return False
        if self.starts > 1:
            seconds = podstatus.back_off_seconds(self.starts - 2)
            self.state(podstatus.waiting("CrashLoopBackOff", podstatus.back_off_message(self.pod, seconds)))
            where = f"{self.container['name']} in pod {podstatus.full_name(self.pod)}"
            self.event("BackOff", f"Back-off restarting failed container {where}", "Warning")
            await self.pause(seconds)
        return True

    async def _probe(self, probe: Json) -> None:
        """Without a rest until the first success, then as the probe says."""
        await asyncio.sleep(probe.get("initialDelaySeconds", 0))
        period, threshold = probe.get("periodSeconds", 10), probe.get("failureThreshold", 3)
        ready, failures, tries = False, 0, 0
        while True:
            problem, tries = await self.containers.probe(self, probe), tries + 1
            failures = failures + 1 if problem else 0
            if failures == threshold:
                self.event("Unhealthy", f"Readiness probe failed: {problem}", "Warning")
            if ready is bool(problem) and (not problem or failures >= threshold):
                ready = not problem
                self.edit(lambda pod, ready=ready: podstatus.set_ready(pod, ready))  # type: ignore[misc]
            await asyncio.sleep(STARTUP_PROBE_SECONDS if not ready and tries < STARTUP_PROBES else period)

    # ---- small words -------------------------------------------------------------------------------------------

    def edit(self, change: Callable[[Json], None]) -> None:
        self._kubelet.cluster.edit_pod(self.key, self.uid, change)

    def state(self, state: Json) -> None:
        self.edit(lambda pod: podstatus.set_state(pod, state))

    def event(self, reason: str, message: str, kind: str = "Normal") -> None:
        self._kubelet.cluster.event(self.pod, kind, reason, message)


def _slim(pod: Json) -> Json:
    """What a life has to know of its Pod: there may be thousands."""
    meta = {name: pod["metadata"][name] for name in ("name", "namespace", "uid")}
    return {"metadata": meta, "spec": pod["spec"]}
