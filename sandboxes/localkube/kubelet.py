"""Runs the Pods of the real node as processes, one task for each Pod: pull, start, probe, restart, stop."""

import asyncio
import contextlib
import ipaddress
import logging
import os
import re
import secrets
import shutil
import signal
import socket
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sandboxes.localkube import linux, podstatus
from sandboxes.localkube.cluster import Cluster
from sandboxes.localkube.launcher import Exit, Launcher, LaunchError, Process
from sandboxes.localkube.objects import Json, quantity
from sandboxes.localkube.podlog import PodLog
from sandboxes.localkube.store import Key

log = logging.getLogger("localkube")
PORT = 49983
PROCESSES = 1024
STARTUP_PROBE_SECONDS = 0.05
SCRATCH_BYTES = 1 << 30
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Addresses:
    """Loopback addresses of 127.64.0.0/10 in turn from a random one on, so none comes back soon and two localkubes
    on one machine hardly meet; a listening socket on PORT proves that an address is free."""

    def __init__(self) -> None:
        self._network = ipaddress.ip_network("127.64.0.0/10")
        self._next = secrets.randbelow(self._network.num_addresses - 2)

    def take(self) -> tuple[str, socket.socket]:
        for _ in range(1000):
            self._next = self._next % (self._network.num_addresses - 2) + 1
            with contextlib.suppress(OSError):
                return str(self._network[self._next]), listen(str(self._network[self._next]))
        raise LaunchError(f"no free address in {self._network}")

    def again(self, address: str) -> socket.socket:
        """A socket on an address that a restarted container keeps."""
        try:
            return listen(address)
        except OSError as error:
            raise LaunchError(f"{address}:{PORT}: {error.strerror}") from None


def listen(address: str) -> socket.socket:
    found = socket.socket()
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind((address, PORT))
        found.listen(1024)
    except OSError:
        found.close()
        raise
    return found


@dataclass
class RealPod:
    key: Key
    uid: str
    pod: Json
    changed: asyncio.Event = field(default_factory=asyncio.Event)  # something below has changed
    grace: float | None = None  # set once it has to stop
    image: str = ""
    address: str = ""
    listener: socket.socket | None = None
    process: Process | None = None
    logs: list[PodLog] = field(default_factory=list)
    restarts: int = 0

    @property
    def container(self) -> Json:
        found: Json = self.pod["spec"]["containers"][podstatus.MAIN]
        return found


class Kubelet:
    def __init__(self, cluster: Cluster, launcher: Launcher, state: Path, images: set[str], mounts: list[tuple[Path, Path]]) -> None:
        self._cluster = cluster
        self.launcher = launcher
        self._state = state
        self._images = images
        self._mounts = mounts
        self._null = os.open(os.devnull, os.O_RDWR)
        self.addresses = Addresses()
        self.pods: dict[str, RealPod] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    # ---- Runtime -------------------------------------------------------------------------------------------------------

    def start(self, pod: Json) -> None:
        meta = pod["metadata"]
        real = RealPod((meta["namespace"], meta["name"]), meta["uid"], pod)
        self.pods[real.uid] = real
        task = asyncio.get_running_loop().create_task(self._live(real))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def stop(self, key: Key, uid: str, grace: float) -> None:
        if real := self.pods.get(uid):
            real.grace = grace
            real.changed.set()
        else:
            self._cluster.gone(key, uid)

    def image_changed(self, pod: Json) -> None:
        if real := self.pods.get(pod["metadata"]["uid"]):
            real.pod = pod
            real.changed.set()

    # ---- one Pod's life ------------------------------------------------------------------------------------------------

    async def _live(self, real: RealPod) -> None:
        try:
            while real.grace is None and await self._run_once(real):
                pass
        except Exception:
            log.exception("Pod %s/%s was given up", *real.key)
        finally:
            self._forget(real)

    async def _run_once(self, real: RealPod) -> bool:
        """One run of the container, from pull to end; False when there is nothing more to run."""
        if not await self._pulled(real):
            return True
        try:
            await self._begin(real)
        except LaunchError as error:
            return await self._not_begun(real, error)
        probe = asyncio.create_task(self._probe(real))
        try:
            end, replaced = await self._until_ended(real)
        finally:
            probe.cancel()
            real.logs[-1].close()
        return await self._ended(real, end, replaced)

    async def _pulled(self, real: RealPod) -> bool:
        """Waits, with the real back-off, until the image exists. False when the Pod changed meanwhile."""
        for attempt in range(1000):
            real.image = image = real.container["image"]
            real.changed.clear()
            if "*" in self._images or image in self._images:
                self._event(real, "Pulled", f'Container image "{image}" already present on machine')
                return True
            problem = podstatus.missing_image(image)
            self._event(real, "Pulling", f'Pulling image "{image}"')
            self._event(real, "Failed", f'Failed to pull image "{image}": {problem}', "Warning")
            self._event(real, "Failed", "Error: ErrImagePull", "Warning")
            self._state_of(real, podstatus.waiting("ErrImagePull", problem))
            if await _event_within(real.changed, 1.0):
                return False
            shown = f'Back-off pulling image "{image}"'
            self._event(real, "BackOff", shown)
            self._event(real, "Failed", "Error: ImagePullBackOff", "Warning")
            self._state_of(real, podstatus.waiting("ImagePullBackOff", f"{shown}: ErrImagePull: {problem}"))
            if await _event_within(real.changed, podstatus.BACK_OFF_SECONDS[min(attempt, 5)]):
                return False
        return False

    async def _begin(self, real: RealPod) -> None:
        if real.address:
            real.listener = self.addresses.again(real.address)
        else:
            real.address, real.listener = self.addresses.take()
        output = PodLog(self._state / "logs" / real.uid / f"{real.restarts}.log")
        real.logs = [*real.logs[-1:], output]
        try:
            request = self._request(real)
            real.process = await self.launcher.start(request, [self._null, output.fd, output.fd, real.listener.fileno()])
        finally:
            os.close(output.fd)
            real.listener.close()
        self._event(real, "Created", f"Created container: {real.container['name']}")
        self._event(real, "Started", f"Started container {real.container['name']}")
        ready = "readinessProbe" not in real.container
        self._edit(real, lambda pod: podstatus.started(pod, real.address, ready=ready))

    async def _not_begun(self, real: RealPod, error: LaunchError) -> bool:
        self._event(real, "Failed", f"Error: {error}", "Warning")
        if error.refused or not real.logs:
            self._state_of(real, podstatus.waiting("CreateContainerError", str(error)))
            real.changed.clear()
            await real.changed.wait()
            return True
        real.logs[-1].close()
        self._edit(real, lambda pod: podstatus.started(pod, real.address))
        name = f"failed to create containerd task: OCI runtime create failed: {error}"
        self._edit(real, lambda pod: podstatus.set_state(pod, podstatus.terminated(pod, 128, "StartError", name)))
        return await self._again(real, 128)

    async def _until_ended(self, real: RealPod) -> tuple[Exit, bool]:
        """How the process ended, and whether that was to give way to another image."""
        process, replaced = real.process, False
        assert process
        while not process.exited.done():
            change = asyncio.create_task(real.changed.wait())
            await asyncio.wait({change, process.exited}, return_when=asyncio.FIRST_COMPLETED)
            change.cancel()
            real.changed.clear()
            if not process.exited.done() and (real.grace is not None or real.image != real.container["image"]):
                replaced = real.grace is None
                await self._kill(real, process, replaced=replaced)
        return process.exited.result(), replaced

    async def _kill(self, real: RealPod, process: Process, *, replaced: bool) -> None:
        name = real.container["name"]
        self._event(real, "Killing", f"Container {name} definition changed, will be restarted" if replaced else f"Stopping container {name}")
        grace = real.grace if real.grace is not None else real.pod["spec"]["terminationGracePeriodSeconds"]
        if grace > 0:
            await self.launcher.kill(process, signal.SIGTERM)
            loop = asyncio.get_running_loop()
            end = loop.time() + grace
            while not process.exited.done() and loop.time() < end:
                change = asyncio.create_task(real.changed.wait())
                await asyncio.wait({change, process.exited}, timeout=end - loop.time(), return_when=asyncio.FIRST_COMPLETED)
                change.cancel()
                real.changed.clear()
                if real.grace is not None:
                    end = min(end, loop.time() + real.grace)
        await self.launcher.kill(process, signal.SIGKILL)
        await process.exited

    async def _ended(self, real: RealPod, end: Exit, replaced: bool) -> bool:
        reason = "OOMKilled" if end.out_of_memory else ""
        self._edit(real, lambda pod: podstatus.set_state(pod, podstatus.terminated(pod, end.code, reason)))
        if real.grace is not None:
            return False
        real.restarts += 1
        return True if replaced else await self._again(real, end.code)

    async def _again(self, real: RealPod, code: int) -> bool:
        """Back off before the next run, if the policy wants one."""
        if not podstatus.restarts_after(real.pod, code):
            return False
        seconds, message = podstatus.back_off(real.pod, max(0, real.restarts - 2))
        if real.restarts > 1:
            self._state_of(real, podstatus.waiting("CrashLoopBackOff", message))
            self._event(real, "BackOff", f"Back-off restarting failed container {real.container['name']} in pod {real.key[1]}", "Warning")
            await _event_within(real.changed, seconds)
        return True

    def _forget(self, real: RealPod) -> None:
        """The processes have gone: a Pod that is being deleted leaves the API; an ended one stays there to be read."""
        if real.grace is not None:
            self._cluster.gone(real.key, real.uid)
            del self.pods[real.uid]
            shutil.rmtree(self._state / "logs" / real.uid, ignore_errors=True)
            return
        real.changed.clear()
        task = asyncio.get_running_loop().create_task(self._wait_for_deletion(real))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _wait_for_deletion(self, real: RealPod) -> None:
        while real.grace is None:
            await real.changed.wait()
            real.changed.clear()
        self._forget(real)

    # ---- readiness -----------------------------------------------------------------------------------------------------

    async def _probe(self, real: RealPod) -> None:
        """Until the first success again at once, then as the probe says."""
        probe = real.container.get("readinessProbe")
        if not probe:
            return
        await asyncio.sleep(probe.get("initialDelaySeconds", 0))
        ready, failures = False, 0
        while True:
            problem = await self._probe_once(real, probe)
            failures = failures + 1 if problem else 0
            if problem and (failures == probe.get("failureThreshold", 3)):
                self._event(real, "Unhealthy", f"Readiness probe failed: {problem}", "Warning")
            if ready is bool(problem) and (not problem or failures >= probe.get("failureThreshold", 3)):
                ready = not problem
                self._edit(real, lambda pod, ready=ready: podstatus.set_state(pod, _state(pod), ready=ready))  # type: ignore[misc]
            await asyncio.sleep(probe.get("periodSeconds", 10) if ready or failures > 200 else STARTUP_PROBE_SECONDS)

    async def _probe_once(self, real: RealPod, probe: Json) -> str:
        """What is wrong, or nothing. The listening socket exists before the program runs: a connection waits in it."""
        seconds = max(1, probe.get("timeoutSeconds", 1))
        if "exec" in probe:
            return await self._probe_command(real, probe["exec"]["command"], seconds)
        get = probe.get("httpGet") or {}
        if get.get("port") != PORT:
            return f"localkube reaches a Pod only at port {PORT}"
        url = f"http://{real.address}:{PORT}{get.get('path', '/')}"
        try:
            status = await asyncio.wait_for(_http_status(real.address, get.get("path", "/")), seconds)
        except (OSError, ValueError, IndexError, TimeoutError) as error:
            return f'Get "{url}": {error or "context deadline exceeded"}'
        return "" if 200 <= status < 400 else f"HTTP probe failed with statuscode: {status}"

    async def _probe_command(self, real: RealPod, command: list[str], seconds: float) -> str:
        try:
            process = await self.execute(real, command, [self._null, self._null, self._null])
            end = await asyncio.wait_for(asyncio.shield(process.exited), seconds)
        except (LaunchError, TimeoutError) as error:
            return str(error or "command timed out")
        return "" if end.code == 0 else f"command exited with code {end.code}"

    # ---- requests to the fork server -----------------------------------------------------------------------------------

    async def execute(self, real: RealPod, command: list[str], fds: list[int], *, terminal: bool = False) -> Process:
        """Another process inside a running container."""
        if real.process is None or real.process.exited.done():
            raise LaunchError("the container is not running")
        request = {**self._request(real), "do": "exec", "pod": real.process.id, "argv": command, "terminal": terminal}
        request["env"] = {**request["env"], **({"TERM": "xterm"} if terminal else {})}
        return await self.launcher.start(request, fds)

    def _request(self, real: RealPod) -> Json:
        container, limits = real.container, real.container["resources"].get("limits") or {}
        argv = [*(container.get("command") or ()), *(container.get("args") or ())]
        if not argv:
            raise LaunchError("localkube has no images to take a command from: give spec.containers[0].command", refused=True)
        memory = int(quantity(str(limits["memory"]))) if "memory" in limits else 0
        environment = self._environment(real)
        home = self._state / "pods" / real.uid
        return {
            "do": "start", "name": f"{real.key[1]}-{real.uid[:8]}", "host": real.key[1][:63], "env": environment,
            "argv": [_expand(word, environment) for word in argv], "cwd": container.get("workingDir") or "/", "bare": str(home),
            "user": self._security(real, "runAsUser"), "capabilities": self._capabilities(real),
            "limits": {"memory": memory, "pids": PROCESSES}, "size": memory or SCRATCH_BYTES, "scratch": self._scratch(real),
        }  # fmt: skip

    def _environment(self, real: RealPod) -> dict[str, str]:
        """The container's variables as Kubernetes makes them, and systemd's way to hand over a listening socket."""
        environment = {"PATH": _PATH, "HOSTNAME": real.key[1]}
        meta = {**real.pod["metadata"]}
        known = {f"metadata.{name}": meta.get(name, "") for name in ("name", "namespace", "uid")}
        known |= {"status.podIP": real.address, "spec.nodeName": real.pod["spec"].get("nodeName", "")}
        for each in real.container.get("env") or ():
            path = (each.get("valueFrom") or {}).get("fieldRef", {}).get("fieldPath", "")
            value = known.get(path, "") if path else str(each.get("value") or "")
            environment[each["name"]] = _expand(value, environment)
        return environment | {"LISTEN_FDS": "1", "LISTEN_PID": "1", "LISTEN_FDNAMES": "envd"}

    def _security(self, real: RealPod, name: str) -> Any:
        own, pods = real.container.get("securityContext") or {}, real.pod["spec"].get("securityContext") or {}
        return own.get(name, pods.get(name))

    def _capabilities(self, real: RealPod) -> list[int]:
        change = (real.container.get("securityContext") or {}).get("capabilities") or {}
        dropped, added = set(change.get("drop") or ()), set(change.get("add") or ())
        known = linux.KEEP_CAPABILITIES.items()
        return [number for name, number in known if name in added or not dropped & {name, "ALL"}]

    def _scratch(self, real: RealPod) -> list[str]:
        """Where emptyDir volumes are; other volumes must be covered by --mount."""
        kinds = {volume["name"]: volume for volume in real.pod["spec"].get("volumes") or ()}
        given, scratch = {str(destination) for _, destination in self._mounts}, []
        for wanted in real.container.get("volumeMounts") or ():
            path = wanted["mountPath"]
            if path in given:
                continue
            if "emptyDir" not in kinds.get(wanted["name"], {}):
                raise LaunchError(f"localkube has no volume for {path}: start it with --mount SOURCE:{path}", refused=True)
            scratch.append(path)
        return scratch

    # ---- small words ---------------------------------------------------------------------------------------------------

    def _edit(self, real: RealPod, change: Any) -> None:
        if pod := self._cluster.edit_pod(real.key, real.uid, change):
            real.pod = pod

    def _state_of(self, real: RealPod, state: Json) -> None:
        self._edit(real, lambda pod: podstatus.set_state(pod, state))

    def _event(self, real: RealPod, reason: str, message: str, kind: str = "Normal") -> None:
        self._cluster.event(real.pod, kind, reason, message)


async def _http_status(address: str, path: str) -> int:
    reader, writer = await asyncio.open_connection(address, PORT)
    try:
        writer.write(f"GET {path} HTTP/1.1\r\nHost: {address}:{PORT}\r\nUser-Agent: kube-probe\r\nConnection: close\r\n\r\n".encode())
        return int((await reader.readline()).split()[1])
    finally:
        writer.close()


async def _event_within(event: asyncio.Event, seconds: float) -> bool:
    with contextlib.suppress(TimeoutError):
        return await asyncio.wait_for(event.wait(), seconds)
    return False


def _state(pod: Json) -> Json:
    found: Json = pod["status"]["containerStatuses"][podstatus.MAIN]["state"]
    return found


def _expand(text: str, values: dict[str, str]) -> str:
    """$(NAME) as Kubernetes expands it; unknown names stay as they are."""
    return re.sub(r"\$\(([\w.-]+)\)", lambda match: values.get(match[1], match[0]), text)
