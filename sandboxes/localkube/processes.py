"""Containers as processes: what the fork server is asked for, and how a running container is reached."""

import asyncio
import contextlib
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sandboxes.localkube import linux
from sandboxes.localkube.addresses import Addresses, status_of
from sandboxes.localkube.kubelet import PORT, Exit, LaunchError, Life
from sandboxes.localkube.launcher import Launcher, Process
from sandboxes.localkube.objects import Json, quantity
from sandboxes.localkube.podlog import PodLog

PROCESSES = 1024  # of one Pod, where control groups can be written
SCRATCH_BYTES = 1 << 30  # what a Pod without a memory limit may write into its own folders
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Run:
    """The processes and logs of one life: the present run of its container and the one before."""

    def __init__(self) -> None:
        self.logs: list[PodLog] = []
        self.process: Process | None = None

    @property
    def running(self) -> Process | None:
        return self.process if self.process and not self.process.exited.done() else None


class RealContainers:
    def __init__(self, launcher: Launcher, state: Path, images: set[str], mounts: list[str], free: Addresses) -> None:
        self.launcher = launcher
        self._state = state
        self._images = images
        self._mounts = mounts
        self._addresses = free
        self._null = os.open(os.devnull, os.O_RDWR)

    def has_image(self, life: Life) -> bool:
        return "*" in self._images or life.container["image"] in self._images

    def connect(self, life: Life) -> None:
        life.address = life.address or self._addresses.reserve()

    async def begin(self, life: Life) -> bool | None:
        run: Run = life.run or Run()
        life.run = run
        life.address, listener = self._addresses.open(life.address)
        with listener:
            request = self._request(life)
            output = PodLog(self._state / "logs" / life.uid / f"{life.starts}.log")
            run.logs = [*run.logs[-1:], output]
            try:
                run.process = await self.launcher.start(request, [self._null, output.fd, output.fd, listener.fileno()])
            except LaunchError:
                output.close()
                raise
            finally:
                os.close(output.fd)
        run.process.exited.add_done_callback(lambda exited: _report(life, output, exited.result()))
        return None

    async def kill(self, life: Life, number: int) -> None:
        if process := life.run.running:
            await self.launcher.kill(process, number)

    async def probe(self, life: Life, probe: Json) -> str:
        """What is wrong, or nothing. The listening socket is older than the program: a connection waits in it."""
        get = probe.get("httpGet") or {}
        if get.get("port") != PORT:
            return f"localkube reaches a Pod only by httpGet at port {PORT}"
        url = f"http://{life.address}:{PORT}{get.get('path', '/')}"
        try:
            async with asyncio.timeout(max(1, probe.get("timeoutSeconds", 1))):
                status = await status_of(life.address, get.get("path", "/"))
        except (OSError, ValueError, IndexError, TimeoutError) as error:
            return f'Get "{url}": {error or "context deadline exceeded"}'
        return "" if 200 <= status < 400 else f"HTTP probe failed with statuscode: {status}"

    def silence(self, life: Life) -> None:
        """A node that is lost takes its processes with it, when its Pods are removed."""

    def forget(self, life: Life) -> None:
        for folder in ("logs", "pods"):
            with contextlib.suppress(OSError):
                shutil.rmtree(self._state / folder / life.uid)

    async def execute(self, life: Life, command: list[str], fds: Sequence[int], *, terminal: bool = False) -> Process:
        """Another process inside a running container."""
        if not life.run.running:
            raise LaunchError("the container is not running")
        if not command:
            raise LaunchError("args must not be empty", config=True)
        request = {**self._request(life), "do": "exec", "pod": life.run.process.id, "argv": command}
        request |= {"terminal": terminal, "env": request["env"] | ({"TERM": "xterm"} if terminal else {})}
        return await self.launcher.start(request, fds)

    def _request(self, life: Life) -> Json:
        container, meta = life.container, life.pod["metadata"]
        argv = [*(container.get("command") or ()), *(container.get("args") or ())]
        if not argv:
            why = "localkube has no images to take a command from: give spec.containers[0].command"
            raise LaunchError(why, config=True)
        limit = container["resources"].get("limits", {}).get("memory")
        memory = int(quantity(str(limit))) if limit else 0
        return {
            "do": "start", "name": f"{meta['name']}-{life.uid[:8]}", "host": meta["name"][:63], "argv": argv,
            "env": _environment(life), "cwd": container.get("workingDir") or "/", "user": _security(life, "runAsUser"),
            "capabilities": _capabilities(_security(life, "capabilities") or {}), "scratch": self._scratch(life),
            "limits": {"memory": memory, "pids": PROCESSES}, "size": memory or SCRATCH_BYTES,
            "bare": str(self._state / "pods" / life.uid),
        }  # fmt: skip

    def _scratch(self, life: Life) -> list[str]:
        """Where emptyDir volumes are; what else is mounted must come from --mount."""
        empty = {volume["name"] for volume in life.pod["spec"].get("volumes") or () if "emptyDir" in volume}
        wanted = {each["mountPath"]: each["name"] for each in life.container.get("volumeMounts") or ()}
        wanted = {path: name for path, name in wanted.items() if path not in self._mounts}
        for path in [path for path, name in wanted.items() if name not in empty]:
            raise LaunchError(f"localkube has no volume for {path}: start it with --mount SOURCE:{path}", config=True)
        return list(wanted)


def _report(life: Life, output: PodLog, end: Exit) -> None:
    output.close()
    life.exited(end)


def _environment(life: Life) -> dict[str, str]:
    """The container's variables, and systemd's way to hand over a listening socket as descriptor 3."""
    meta, spec = life.pod["metadata"], life.pod["spec"]
    fields = {f"metadata.{name}": meta[name] for name in ("name", "namespace", "uid")}
    fields |= {"status.podIP": life.address, "spec.nodeName": spec["nodeName"]}
    environment = {"PATH": _PATH, "HOSTNAME": meta["name"]}
    for each in life.container.get("env") or ():
        path = ((each.get("valueFrom") or {}).get("fieldRef") or {}).get("fieldPath")
        environment[each["name"]] = fields.get(path, "") if path else str(each.get("value") or "")
    return environment | {"LISTEN_FDS": "1", "LISTEN_PID": "1", "LISTEN_FDNAMES": "envd"}


def _security(life: Life, name: str) -> Any:
    own, pods = life.container.get("securityContext") or {}, life.pod["spec"].get("securityContext") or {}
    return own.get(name, pods.get(name))


def _capabilities(change: Json) -> list[int]:
    dropped, added = set(change.get("drop") or ()), set(change.get("add") or ())
    known = linux.KEEP_CAPABILITIES.items()
    return [number for name, number in known if name in added or not dropped & {name, "ALL"}]
