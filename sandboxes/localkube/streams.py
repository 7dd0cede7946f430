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
from collections.abc import Mapping
from dataclasses import dataclass

from starlette.websockets import WebSocket, WebSocketDisconnect

from sandboxes.localkube.kubelet import Kubelet, RealPod
from sandboxes.localkube.launcher import LaunchError, Process
from sandboxes.localkube.objects import Json, bad_request
from sandboxes.localkube.podlog import Ask, PodLog

PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
STDIN, STDOUT, STDERR, STATUS, RESIZE, CLOSE = b"\0", b"\1", b"\2", b"\3", b"\4", b"\xff"
CHUNK = 32 << 10


def log_of(pod: Json, real: RealPod | None, query: Mapping[str, str]) -> PodLog:
    """The log that a request asks for; 400 in the API's words when there is none."""
    name, container = pod["metadata"]["name"], pod["spec"]["containers"][0]["name"]
    if query.get("container", container) != container:
        raise bad_request(f"container {query['container']} is not valid for pod {name}")
    previous = query.get("previous") in ("true", "1")
    if real and not previous and real.logs:
        return real.logs[-1]
    if real and previous and len(real.logs) > 1:
        return real.logs[-2]
    if previous:
        raise bad_request(f'previous terminated container "{container}" in pod "{name}" not found')
    states = pod["status"].get("containerStatuses") or [{}]
    reason = states[0].get("state", {}).get("waiting", {}).get("reason", "ContainerCreating")
    why = "no log: it is simulated" if states[0].get("containerID") else f"waiting to start: {reason}"
    raise bad_request(f'container "{container}" in pod "{name}" is {why}')


def asked(query: Mapping[str, str]) -> Ask:
    tail = query.get("tailLines")
    if tail is not None and not tail.isdigit():
        raise bad_request(f"tailLines: {tail!r} must be a number not below 0")
    return Ask(int(tail) if tail else 0 if tail == "0" else None, query.get("sinceTime", "").rstrip("Z"), query.get("timestamps") == "true")


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

    def resize(self, data: bytes) -> None:
        with contextlib.suppress(ValueError, KeyError, OSError, TypeError):
            size = json.loads(data)
            if self.terminal and self.inputs is not None:
                fcntl.ioctl(self.inputs, termios.TIOCSWINSZ, struct.pack("HHHH", size["Height"], size["Width"], 0, 0))


async def execute(websocket: WebSocket, kubelet: Kubelet, real: RealPod, command: list[str]) -> None:
    """Run `command` and carry its streams until it ends; the client's going ends it."""
    query = websocket.query_params
    streams = Streams.open(stdin=query.get("stdin") in ("true", "1"), terminal=query.get("tty") in ("true", "1"))
    try:
        process = await kubelet.execute(real, command, streams.theirs, terminal=streams.terminal)
    except LaunchError as error:
        process = None
        problem = str(error)
    finally:
        streams.close_theirs()
    await websocket.accept(next((each for each in PROTOCOLS if each in websocket.scope["subprotocols"]), None))
    if process is None:
        await websocket.send_bytes(STATUS + _failure(f"error executing command in container: {problem}", "InternalError", 126))
        return await websocket.close()
    await _carry(websocket, kubelet, process, streams)


async def _carry(websocket: WebSocket, kubelet: Kubelet, process: Process, streams: Streams) -> None:
    incoming = asyncio.create_task(_from_client(websocket, streams))
    outgoing = [asyncio.create_task(_to_client(websocket, channel, fd)) for channel, fd in streams.outputs.items()]
    try:
        await asyncio.wait({incoming, process.exited}, return_when=asyncio.FIRST_COMPLETED)
        if not process.exited.done():
            return
        await asyncio.wait(outgoing, timeout=2)  # a background child may keep a stream open
        code = process.exited.result().code
        told = f"command terminated with non-zero exit code: exit status {code}"
        await websocket.send_bytes(STATUS + (_failure(told, "NonZeroExitCode", code) if code else b'{"metadata":{},"status":"Success"}'))
        await websocket.close()
    except (WebSocketDisconnect, RuntimeError):
        return
    finally:
        for task in (incoming, *outgoing):
            task.cancel()
        await kubelet.launcher.kill(process, signal.SIGKILL)
        await asyncio.gather(incoming, *outgoing, return_exceptions=True)
        streams.close_input()
        for fd in streams.outputs.values():
            os.close(fd)


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


async def _until(add, remove, fd: int) -> None:  # type: ignore[no-untyped-def]
    ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    add(fd, lambda: ready.done() or ready.set_result(None))
    try:
        await ready
    finally:
        remove(fd)


def _failure(message: str, reason: str, code: int) -> bytes:
    causes = {"causes": [{"reason": "ExitCode", "message": str(code)}]}
    status = {"metadata": {}, "status": "Failure", "message": message, "reason": reason, "details": causes}
    return json.dumps(status).encode()
