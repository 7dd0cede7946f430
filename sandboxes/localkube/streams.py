"""`pods/log` and `pods/exec`: what flows between a client and a running container."""

import asyncio
import contextlib
import fcntl
import json
import os
import pty
import secrets
import signal
import struct
import termios
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from starlette.responses import PlainTextResponse
from starlette.websockets import WebSocket, WebSocketDisconnect

from sandboxes.localkube.kubelet import LaunchError, Life
from sandboxes.localkube.launcher import Process
from sandboxes.localkube.objects import ApiError, Json, bad_request
from sandboxes.localkube.podlog import Ask, PodLog
from sandboxes.localkube.processes import RealContainers, Run

V5 = "v5.channel.k8s.io"
PROTOCOLS = (V5, "v4.channel.k8s.io")
_INTERNAL = "Internal error occurred: "
_STREAMS = ("stdin", "stdout", "stderr", "tty")
STDIN, STDOUT, STDERR, STATUS, RESIZE, CLOSE = b"\0", b"\1", b"\2", b"\3", b"\4", b"\xff"
CHUNK = 32 << 10
LEAVE_SECONDS = 5.0
"""For a command to end by itself when its client has gone; a real one is left alone for ever."""
_NOT_PULLED = {
    "ErrImagePull": "image can't be pulled",
    "ImagePullBackOff": "trying and failing to pull image",
}


def log_of(pod: Json, run: Run | None, query: Mapping[str, str]) -> PodLog | None:
    """The log that a request asks for, None of a Pod without a node; 400 in the kubelet's words when there is none."""
    container, previous = main_container(pod, query), query.get("previous") in ("true", "1")
    if not pod["spec"].get("nodeName"):
        return None
    where = f'container "{container}" in pod "{pod["metadata"]["name"]}"'
    status = pod["status"]["containerStatuses"][0]
    waiting, ended_before = status["state"].get("waiting"), "terminated" in status["lastState"]
    if previous and not ended_before:
        raise bad_request(f"previous terminated {where} not found")
    if waiting and not ended_before:
        raise bad_request(f"{where} is waiting to start: {_NOT_PULLED.get(waiting['reason'], waiting['reason'])}")
    if not run or not run.logs:
        raise bad_request(f"{where} is simulated and has no log")
    return run.logs[0 if previous and not waiting else -1]


def main_container(pod: Json, query: Mapping[str, str]) -> str:
    name = str(pod["spec"]["containers"][0]["name"])
    if query.get("container", name) != name:
        raise bad_request(f"container {query['container']} is not valid for pod {pod['metadata']['name']}")
    return name


def asked(query: Mapping[str, str], pod: str) -> Ask:
    """What a request wants of the log of the Pod of that name; 400 or 422 for what makes no sense."""
    tail, limit = _number(query, pod, "tailLines", 0), _number(query, pod, "limitBytes", 1)
    since, seconds = query.get("sinceTime", ""), _number(query, pod, "sinceSeconds", 1)
    if since and seconds:
        raise _invalid(pod, "[]: Forbidden: at most one of `sinceTime` or `sinceSeconds` may be specified")
    if since:
        since = f"{_time(since):%Y-%m-%dT%H:%M:%S}"
    if seconds:
        since = f"{datetime.now(UTC) - timedelta(seconds=seconds):%Y-%m-%dT%H:%M:%S.%f}"
    stamps = query.get("timestamps") in ("true", "1")
    return Ask(tail, since, stamps, limit)


def _number(query: Mapping[str, str], pod: str, name: str, least: int) -> int | None:
    text = query.get(name)
    if not text:
        return None
    if not text.removeprefix("-").isdigit():
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax')
    if int(text) < least:
        why = "must be greater than 0" if least else "must be greater than or equal to 0"
        raise _invalid(pod, f"{name}: Invalid value: {text}: {why}")
    return int(text)


def _invalid(pod: str, why: str) -> ApiError:
    return ApiError(422, "Invalid", f'PodLogOptions "{pod}" is invalid: {why}', name=pod, kind="PodLogOptions")


def _time(text: str) -> datetime:
    """Of RFC 3339, to whole seconds, as the real API reads it."""
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except ValueError:
        raise bad_request(f'parsing time "{text}" as "2006-01-02T15:04:05Z07:00": cannot parse') from None


@dataclass
class Streams:
    """Our ends of an exec's streams; a terminal has one for everything."""

    inputs: int | None
    outputs: dict[bytes, int]
    theirs: list[int]
    terminal: bool = False

    @classmethod
    def open(cls, query: Mapping[str, str]) -> "Streams":
        """Those that a request asks for; what it does not ask for goes nowhere."""
        stdin, stdout, stderr, terminal = (query.get(each) in ("true", "1") for each in _STREAMS)
        if terminal:
            ours, theirs = pty.openpty()
            return cls(ours, {STDOUT: ours}, [theirs, os.dup(theirs), os.dup(theirs)], terminal=True)
        read_in, write_in = os.pipe()
        streams = cls(write_in, {}, [read_in])
        for channel, wanted in ((STDOUT, stdout), (STDERR, stderr)):
            streams.theirs.append(streams._output(channel) if wanted else os.open(os.devnull, os.O_WRONLY))
        if not stdin:
            streams.close_input()
        return streams

    def _output(self, channel: bytes) -> int:
        self.outputs[channel], theirs = os.pipe()
        return theirs

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


def protocol_of(websocket: WebSocket) -> str | None:
    return next((each for each in PROTOCOLS if each in websocket.scope["subprotocols"]), None)


async def refuse(websocket: WebSocket, container: str) -> None:
    """No such container runs. With v5 the API server has agreed before it asks the kubelet."""
    problem = f'container not found ("{container}")'
    if protocol_of(websocket) != V5:
        await websocket.send_denial_response(PlainTextResponse(problem, 500))
        return
    await websocket.accept(V5)
    await _conclude(websocket, _internal(f"unable to upgrade connection: {problem}"))


async def execute(websocket: WebSocket, containers: RealContainers, life: Life, command: list[str]) -> None:
    """Run `command` and carry its streams until it ends; the client's going ends it."""
    streams, protocol, process, status = Streams.open(websocket.query_params), protocol_of(websocket), None, b""
    try:
        process = await containers.execute(life, command, streams.theirs, terminal=streams.terminal)
    except LaunchError as error:
        status = _not_executed(error, protocol)
    streams.close_theirs()
    await websocket.accept(protocol)
    try:
        if process and (code := await _carry(websocket, process, streams)) is not None:
            status = _ended(code, command, protocol)
        await _conclude(websocket, status)
    finally:
        streams.close()
        if process:  # what it reads has ended, and what it writes nobody reads
            await asyncio.wait([process.exited], timeout=LEAVE_SECONDS)
            await containers.launcher.kill(process, signal.SIGKILL)


async def _conclude(websocket: WebSocket, status: bytes) -> None:
    with contextlib.suppress(WebSocketDisconnect, RuntimeError):  # the client has gone
        if status:
            await websocket.send_bytes(STATUS + status)
            await websocket.close()


async def _carry(websocket: WebSocket, process: Process, streams: Streams) -> int | None:
    """The command's exit code; None when the client went first."""
    incoming = asyncio.create_task(_from_client(websocket, streams))
    outgoing = [asyncio.create_task(_to_client(websocket, channel, fd)) for channel, fd in streams.outputs.items()]
    try:
        ended: list[asyncio.Future[Any]] = [incoming, process.exited]
        await asyncio.wait(ended, return_when=asyncio.FIRST_COMPLETED)
        if not process.exited.done():
            return None
        await asyncio.wait(outgoing, timeout=2)  # a background child may keep a stream open
    finally:
        for task in (incoming, *outgoing):
            task.cancel()
        await asyncio.gather(incoming, *outgoing, return_exceptions=True)
    return process.exited.result().code


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


def _ended(code: int, command: list[str], protocol: str | None) -> bytes:
    if code == 0:
        return b'{"metadata":{},"status":"Success"}'
    how = f"error executing command [{' '.join(command)}], exit code {code}"
    message = f"command terminated with exit code {code}" if protocol == V5 else how
    causes = [{"reason": "ExitCode", "message": str(code)}]
    return _failure(f"command terminated with non-zero exit code: {message}", "NonZeroExitCode", causes=causes)


def _not_executed(error: LaunchError, protocol: str | None) -> bytes:
    """In the words of runc, containerd and the kubelet; with v5 the API server adds its own."""
    tried = "" if error.config else "unable to start container process: "
    runtime = f"OCI runtime exec failed: exec failed: {tried}{error}: unknown"
    exec_id = secrets.token_hex(32)
    problem = f'error executing command in container: failed to exec in container: failed to start exec "{exec_id}"'
    return _internal(f"{_INTERNAL if protocol == V5 else ''}{problem}: {runtime}")


def _internal(cause: str) -> bytes:
    return _failure(f"{_INTERNAL}{cause}", "InternalError", causes=[{"message": cause}], code=500)


def _failure(message: str, reason: str, *, causes: list[Json], **more: int) -> bytes:
    status = {"metadata": {}, "status": "Failure", "message": message, "reason": reason, "details": {"causes": causes}}
    return json.dumps(status | more).encode()
