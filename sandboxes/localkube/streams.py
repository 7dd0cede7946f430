"""`pods/log` and `pods/exec`: what flows between a client and a running container."""

import asyncio
import contextlib
import fcntl
import json
import os
import pty
import signal
import struct
import termios
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from starlette.websockets import WebSocket, WebSocketDisconnect

from sandboxes.localkube.kubelet import LaunchError, Life
from sandboxes.localkube.launcher import Process
from sandboxes.localkube.objects import Json, bad_request
from sandboxes.localkube.podlog import Ask, PodLog
from sandboxes.localkube.processes import RealContainers, Run

PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
STDIN, STDOUT, STDERR, STATUS, RESIZE, CLOSE = b"\0", b"\1", b"\2", b"\3", b"\4", b"\xff"
CHUNK = 32 << 10


def log_of(pod: Json, run: Run | None, query: Mapping[str, str]) -> PodLog:
    """The log that a request asks for; 400 in the API's words when there is none."""
    name, container = pod["metadata"]["name"], main_container(pod, query)
    previous = query.get("previous") in ("true", "1")
    if run and len(run.logs) > previous:
        return run.logs[-1 - previous]
    if previous:
        raise bad_request(f'previous terminated container "{container}" in pod "{name}" not found')
    status = (pod["status"].get("containerStatuses") or [{"state": {}}])[0]
    reason = status["state"].get("waiting", {}).get("reason", "ContainerCreating")
    why = "simulated and has no log" if status.get("containerID") else f"waiting to start: {reason}"
    raise bad_request(f'container "{container}" in pod "{name}" is {why}')


def main_container(pod: Json, query: Mapping[str, str]) -> str:
    name = str(pod["spec"]["containers"][0]["name"])
    if query.get("container", name) != name:
        raise bad_request(f"container {query['container']} is not valid for pod {pod['metadata']['name']}")
    return name


def asked(query: Mapping[str, str]) -> Ask:
    tail = query.get("tailLines")
    if tail and not tail.isdigit():
        raise bad_request(f"tailLines: {tail!r} must be a number not below 0")
    stamps = query.get("timestamps") in ("true", "1")
    return Ask(int(tail) if tail else None, query.get("sinceTime", "").rstrip("Z"), stamps)


@dataclass
class Streams:
    """Our ends of an exec's streams; a terminal has one for everything."""

    inputs: int | None
    outputs: dict[bytes, int]
    theirs: list[int]
    terminal: bool = False

    @classmethod
    def open(cls, *, stdin: bool, terminal: bool) -> "Streams":
        if terminal:
            ours, theirs = pty.openpty()
            return cls(ours, {STDOUT: ours}, [theirs, os.dup(theirs), os.dup(theirs)], terminal=True)
        (read_in, write_in), (read_out, write_out), (read_err, write_err) = os.pipe(), os.pipe(), os.pipe()
        streams = cls(write_in, {STDOUT: read_out, STDERR: read_err}, [read_in, write_out, write_err])
        if not stdin:
            streams.close_input()
        return streams

    def close_theirs(self) -> None:
        for fd in self.theirs:
            os.close(fd)

    def close_input(self) -> None:
        if self.inputs is not None and not self.terminal:
            os.close(self.inputs)
            self.inputs = None

    def close(self) -> None:
        self.close_input()
        for fd in self.outputs.values():
            os.close(fd)

    def resize(self, data: bytes) -> None:
        with contextlib.suppress(ValueError, KeyError, OSError, TypeError):
            size = json.loads(data)
            if self.terminal and self.inputs is not None:
                fcntl.ioctl(self.inputs, termios.TIOCSWINSZ, struct.pack("HHHH", size["Height"], size["Width"], 0, 0))


async def execute(websocket: WebSocket, containers: RealContainers, life: Life, command: list[str]) -> None:
    """Run `command` and carry its streams until it ends; the client's going ends it."""
    query, problem, process = websocket.query_params, "", None
    streams = Streams.open(stdin=query.get("stdin") in ("true", "1"), terminal=query.get("tty") in ("true", "1"))
    try:
        process = await containers.execute(life, command, streams.theirs, terminal=streams.terminal)
    except LaunchError as error:
        problem = f"error executing command in container: {error}"
    streams.close_theirs()
    await websocket.accept(next((each for each in PROTOCOLS if each in websocket.scope["subprotocols"]), None))
    try:
        status = await _carry(websocket, process, streams) if process else _failure(problem, "InternalError", 126)
        if status:
            await websocket.send_bytes(STATUS + status)
            await websocket.close()
    except (WebSocketDisconnect, RuntimeError):
        pass  # the client has gone
    finally:
        if process:
            await containers.launcher.kill(process, signal.SIGKILL)
        streams.close()


async def _carry(websocket: WebSocket, process: Process, streams: Streams) -> bytes:
    """The closing status; none when the client went first."""
    incoming = asyncio.create_task(_from_client(websocket, streams))
    outgoing = [asyncio.create_task(_to_client(websocket, channel, fd)) for channel, fd in streams.outputs.items()]
    try:
        ended: list[asyncio.Future[Any]] = [incoming, process.exited]
        await asyncio.wait(ended, return_when=asyncio.FIRST_COMPLETED)
        if not process.exited.done():
            return b""
        await asyncio.wait(outgoing, timeout=2)  # a background child may keep a stream open
    finally:
        for task in (incoming, *outgoing):
            task.cancel()
        await asyncio.gather(incoming, *outgoing, return_exceptions=True)
    code = process.exited.result().code
    if code == 0:
        return b'{"metadata":{},"status":"Success"}'
    return _failure(f"command terminated with non-zero exit code: exit status {code}", "NonZeroExitCode", code)


async def _from_client(websocket: WebSocket, streams: Streams) -> None:
    with contextlib.suppress(WebSocketDisconnect, RuntimeError):
        while True:
            message = await websocket.receive()
            if message["type"] == "websocket.disconnect":
                return
            data = message.get("bytes") or (message.get("text") or "").encode()
            channel, data = data[:1], data[1:]
            if channel == STDIN and streams.inputs is not None:
                await _write(streams.inputs, data)
            elif channel == RESIZE:
                streams.resize(data)
            elif channel == CLOSE and data[:1] == STDIN:
                streams.close_input()


async def _to_client(websocket: WebSocket, channel: bytes, fd: int) -> None:
    os.set_blocking(fd, False)
    while True:
        try:
            chunk = os.read(fd, CHUNK)
        except BlockingIOError:
            await _until(asyncio.get_running_loop().add_reader, asyncio.get_running_loop().remove_reader, fd)
            continue
        except OSError:
            return  # a terminal answers EIO when its last user has gone
        if not chunk:
            return
        await websocket.send_bytes(channel + chunk)


async def _write(fd: int, data: bytes) -> None:
    os.set_blocking(fd, False)
    while data:
        try:
            data = data[os.write(fd, data) :]
        except BlockingIOError:
            await _until(asyncio.get_running_loop().add_writer, asyncio.get_running_loop().remove_writer, fd)
        except OSError:
            return  # nobody reads it any more


async def _until(add: Callable[..., None], remove: Callable[[int], bool], fd: int) -> None:
    ready = asyncio.Event()
    add(fd, ready.set)
    try:
        await ready.wait()
    finally:
        remove(fd)


def _failure(message: str, reason: str, code: int) -> bytes:
    causes = {"causes": [{"reason": "ExitCode", "message": str(code)}]}
    status = {"metadata": {}, "status": "Failure", "message": message, "reason": reason, "details": causes}
    return json.dumps(status).encode()
