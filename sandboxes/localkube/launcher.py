"""localkube's end of the fork server: starts it, asks it for processes, hears how they ended."""

import asyncio
import contextlib
import itertools
import json
import os
import resource
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from sandboxes.localkube.kubelet import Exit, LaunchError
from sandboxes.localkube.objects import Json

MESSAGE_SIZE = 160_000
START_SECONDS = 30.0
_ROOT = Path(__file__).parents[2]


class Process:
    def __init__(self, name: str) -> None:
        self.id = name
        self.exited: asyncio.Future[Exit] = asyncio.get_running_loop().create_future()


class Launcher:
    def __init__(self, options: Json) -> None:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for end in (self._control, theirs):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 * MESSAGE_SIZE)
        command = [sys.executable, "-S", "-m", f"{__package__}.zygote", str(theirs.fileno())]
        environment = {"PYTHONPATH": str(_ROOT), "PATH": os.environ.get("PATH", os.defpath)}
        arguments = json.dumps({**options, "parent": os.getpid()})
        self._popen = subprocess.Popen([*command, arguments], pass_fds=[theirs.fileno()], env=environment, cwd="/")
        theirs.close()
        self._processes: dict[str, Process] = {}
        self._numbers = itertools.count(1)
        self._sending = asyncio.Lock()
        self._control.settimeout(START_SECONDS)
        hello = json.loads(self._control.recv(MESSAGE_SIZE) or b'{"refused": "the process that starts Pods has died"}')
        self.refused: str = hello.get("refused", "")
        self.root: bool = hello.get("ready", {}).get("root", False)
        self.limits: bool = hello.get("ready", {}).get("limits", False)
        self._control.setblocking(False)

    def listen(self) -> None:
        if not self.refused:
            asyncio.get_running_loop().add_reader(self._control.fileno(), self._hear)

    async def start(self, request: Json, fds: Sequence[int]) -> Process:
        """Returns once the program has been executed; LaunchError says why it was not. `fds` become 0, 1, 2, ..."""
        if self.refused:
            raise LaunchError(self.refused, config=True)
        report, theirs = os.pipe()
        process = Process(f"{next(self._numbers)}-{request['name']}")
        self._processes[process.id] = process
        try:
            await self._send({**request, "id": process.id}, [theirs, *fds])
        finally:
            os.close(theirs)
        if problem := await _until_closed(report):
            self._processes.pop(process.id, None)
            raise LaunchError(problem)
        return process

    async def kill(self, process: Process, signal: int) -> None:
        if not process.exited.done():
            await self._send({"do": "kill", "id": process.id, "signal": signal}, [])

    async def _send(self, request: Json, fds: Sequence[int]) -> None:
        data = json.dumps(request).encode()
        if len(data) > MESSAGE_SIZE:
            raise LaunchError("command, arguments and environment are larger than 160 kB together")
        async with self._sending:
            for _ in range(3000):
                with contextlib.suppress(BlockingIOError):
                    socket.send_fds(self._control, [data], fds)
                    return
                await asyncio.sleep(0.01)
        raise LaunchError("the process that starts Pods does not answer")

    def _hear(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while data := self._control.recv(MESSAGE_SIZE):
                message = json.loads(data)
                if "code" in message and (process := self._processes.pop(message["id"], None)):
                    process.exited.set_result(Exit(message["code"], "OOMKilled" if message["oom"] else ""))
            asyncio.get_running_loop().remove_reader(self._control.fileno())
            self.refused = "the process that starts Pods has ended; restart localkube"

    def close(self) -> None:
        """Ends every Pod: the fork server takes the closed socket for its cue."""
        self._control.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._popen.wait(10)
        self._popen.kill()


async def _until_closed(fd: int) -> str:
    """What was written to a pipe before its writers closed it."""
    loop, told = asyncio.get_running_loop(), bytearray()
    done: asyncio.Future[None] = loop.create_future()

    def read() -> None:
        if chunk := os.read(fd, 4096):
            told.extend(chunk)
        elif not done.done():
            done.set_result(None)

    loop.add_reader(fd, read)
    try:
        await asyncio.wait_for(done, START_SECONDS)
    except TimeoutError:
        return f"the process did not start within {START_SECONDS:.0f} s"
    finally:
        loop.remove_reader(fd)
        os.close(fd)
    return told.decode(errors="replace")


def raise_file_limit() -> int:
    """Each Pod and each watcher holds a few descriptors: use all that this machine allows."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard
