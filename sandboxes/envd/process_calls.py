"""The service process.Process (e2b-protocol.md 3.2)."""

from __future__ import annotations

import os
from binascii import Error as Base64Error
from binascii import a2b_base64

from . import fields, identity, jsontext, spawn
from .connect import Frames, Stream, frame, keepalive_seconds, read_message, read_only_frame, time_limit
from .errors import RpcError, rpc_error
from .loop import Wait, now
from .processes import Feed, Process

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .accounts import Account
    from .connect import Message
    from .http1 import Request
    from .processes import Processes
    from .sandbox import Sandbox
    from .spawn import Action

_KEEPALIVE = frame(b'{"event":{"keepalive":{}}}')
_SIGNALS = {"SIGNAL_SIGTERM": 15, "SIGNAL_SIGKILL": 9, 15: 15, 9: 9}
_MOST_PROCESSES = 4096
_INPUT_SECONDS = 60.0


def caller(sandbox: Sandbox, request: Request) -> Account:
    """The user named by `Authorization: Basic base64("user:")`, else the default user."""
    kind, _, value = request.headers.get("authorization", "").partition(" ")
    if kind.lower() != "basic":
        return sandbox.account()
    try:
        name = a2b_base64(value.strip(), strict_mode=True).decode().partition(":")[0]
    except (Base64Error, ValueError):
        raise RpcError("unauthenticated", "the Authorization header is not Basic base64(user:)") from None
    return sandbox.account(name)


async def start(sandbox: Sandbox, table: Processes, request: Request, stream: Stream) -> None:
    message = await read_only_frame(request)
    until = time_limit(request)
    process = _launch(sandbox, table, caller(sandbox, request), message)
    process.starter = feed = process.listen()
    process.limit(until)
    await _follow(stream, process, feed, keepalive_seconds(request))


async def connect(table: Processes, request: Request, stream: Stream) -> None:
    pid, tag = _selector(await read_only_frame(request))
    until = time_limit(request)
    if pid not in table.running and (ending := table.ending(pid, tag)):
        return await stream.end(frames=_started(ending[0]) + ending[1])
    process = table.find(pid, tag)
    feed = process.listen()
    timer = until and table.loop.at(until, lambda: feed.end(RpcError("deadline_exceeded", "the time limit has passed")))
    try:
        await _follow(stream, process, feed, keepalive_seconds(request))
    finally:
        if timer:
            table.loop.cancel(timer)


async def list_processes(table: Processes) -> Message:
    processes = []
    for process in table.running.values():
        tag = {"tag": process.tag} if process.tag is not None else {}
        processes.append({"config": process.config, "pid": process.pid, **tag})
    return {"processes": processes} if processes else {}


async def send_input(table: Processes, request: Request) -> Message:
    message = await read_message(request)
    await _write(table.find(*_selector(message)), message, time_limit(request) or now() + _INPUT_SECONDS)
    return {}


async def stream_input(table: Processes, request: Request, stream: Stream) -> None:
    frames = Frames(request)
    process: Process | None = None
    while (message := await frames.next()) is not None:
        if "start" in message:
            process = table.find(*_selector(fields.inner(message, "start")))
        elif "data" in message and process is None:
            raise RpcError("invalid_argument", "the first message must be a start with the process")
        elif "data" in message and process:
            await _write(process, fields.inner(message, "data"), time_limit(request) or now() + _INPUT_SECONDS)
    await stream.end(frames=frame(b"{}"))


async def close_stdin(table: Processes, request: Request) -> Message:
    process = table.find(*_selector(await read_message(request)))
    if process.terminal >= 0:
        raise RpcError("internal", "a terminal has no stdin to close: send Ctrl+D (0x04) as input instead")
    process.close_stdin()
    return {}


async def update(table: Processes, request: Request) -> Message:
    message = await read_message(request)
    process = table.find(*_selector(message))
    if fields.pick(message, "pty") is None:
        return {}
    if process.terminal < 0:
        raise RpcError("internal", f"process {process.pid} has no terminal")
    from . import terminal

    terminal.resize(process.terminal, *_size(message))
    return {}


async def send_signal(table: Processes, request: Request) -> Message:
    message = await read_message(request)
    process = table.find(*_selector(message))
    wanted = message.get("signal")
    if not isinstance(wanted, str | int) or wanted not in _SIGNALS:
        raise RpcError("invalid_argument", "signal must be SIGNAL_SIGTERM or SIGNAL_SIGKILL")
    process.signal(_SIGNALS[wanted])
    return {}


async def _follow(stream: Stream, process: Process, feed: Feed, keepalive: float) -> None:
    """Sends what the process prints until it ends; the client may leave at any time, the process goes on."""
    feed.frames.insert(0, _started(process.pid))
    try:
        while not feed.ended:
            if feed.frames:
                await stream.send(process.take(feed))
                continue
            feed.wait = Wait(process.table.loop)
            if not await stream.park(feed.wait, now() + keepalive):
                await stream.send(_KEEPALIVE)
        await stream.end(feed.error, process.take(feed))
    finally:
        process.leave(feed)


async def _write(process: Process, message: Message, until: float) -> None:
    data = fields.inner(message, "input")
    kind = "pty" if "pty" in data else "stdin"
    if (kind == "pty") != (process.terminal >= 0):
        raise RpcError("internal", f"process {process.pid} takes its input as {'stdin' if kind == 'pty' else 'pty'}")
    await process.write(fields.blob(data, kind), until)


def _launch(sandbox: Sandbox, table: Processes, account: Account, message: Message) -> Process:
    if len(table.running) >= _MOST_PROCESSES:
        raise RpcError("resource_exhausted", f"there are {_MOST_PROCESSES} processes already")
    config = fields.inner(message, "process")
    program = _program(sandbox, account, config)
    tag = fields.text(message, "tag") if fields.pick(message, "tag") is not None else None
    size = _size(message) if fields.pick(message, "pty") is not None else None
    with_stdin = fields.flag(message, "stdin", True)
    start = _terminal_starter(size) if size else _start_in_pipes
    identity.hide_memory()
    try:
        with identity.acting_as(account, wholly=True):
            pid, ends = start(program, with_stdin)
    except OSError as error:
        raise rpc_error(error, f"starting {program.arguments[0]!r}") from None
    spawn.prefer_to_kill(pid)
    process = Process(table, pid, _shown(config), tag)
    table.add(process)
    process.stdin, process.terminal = ends.get("stdin", -1), ends.get("pty", -1)
    for kind in ends.keys() - {"stdin"}:
        process.read_from(ends[kind], kind)
    return process


def _program(sandbox: Sandbox, account: Account, config: Message) -> spawn.Program:
    command = fields.text(config, "cmd")
    if not command:
        raise RpcError("invalid_argument", "process.cmd must name a program")
    arguments = [spawn.shell(command), *fields.texts(config, "args")]
    variables = sandbox.environment(account, fields.variables(config, "envs"))
    return spawn.Program(arguments, variables, sandbox.folder(account, fields.text(config, "cwd")))


def _start_in_pipes(program: spawn.Program, with_stdin: bool) -> tuple[int, dict[str, int]]:
    """Pipes are made with the user's rights too: a command that opens /dev/stdout opens them anew."""
    mine: dict[str, int] = {}
    theirs: list[int] = []
    actions: list[Action] = []
    try:
        for number, kind in enumerate(("stdin", "stdout", "stderr")):
            if kind == "stdin" and not with_stdin:
                actions.append((os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0))
                continue
            near, far = os.pipe2(os.O_CLOEXEC)
            mine[kind], end = (far, near) if kind == "stdin" else (near, far)
            theirs.append(end)
            os.set_blocking(mine[kind], False)
            actions.append((os.POSIX_SPAWN_DUP2, end, number))
        return spawn.spawn(program, actions), mine
    except BaseException:
        for fd in mine.values():
            os.close(fd)
        raise
    finally:
        for fd in theirs:
            os.close(fd)


def _terminal_starter(size: tuple[int, int]) -> Callable[[spawn.Program, bool], tuple[int, dict[str, int]]]:
    """A session leader that opens a terminal gets it as its controlling one: no code has to run in the child."""
    from . import terminal

    def start(program: spawn.Program, _: bool) -> tuple[int, dict[str, int]]:
        mine, path, theirs = terminal.open_terminal(*size)
        actions: list[Action] = [(os.POSIX_SPAWN_OPEN, 0, path, os.O_RDWR, 0)]
        actions += [(os.POSIX_SPAWN_DUP2, 0, 1), (os.POSIX_SPAWN_DUP2, 0, 2)]
        try:
            return spawn.spawn(program, actions), {"pty": mine}
        except BaseException:
            os.close(mine)
            raise
        finally:
            os.close(theirs)

    return start


def _selector(message: Message) -> tuple[int, str]:
    process = fields.inner(message, "process")
    pid = fields.number(process, "pid", 2**31 - 1)
    if not pid and fields.pick(process, "tag") is None:
        raise RpcError("invalid_argument", "process must have a pid or a tag")
    return pid, fields.text(process, "tag")


def _size(message: Message) -> tuple[int, int]:
    size = fields.inner(fields.inner(message, "pty"), "size")
    return fields.number(size, "cols", 65535), fields.number(size, "rows", 65535)


def _shown(config: Message) -> Message:
    return {name: config[name] for name in ("cmd", "args", "envs", "cwd") if config.get(name)}


def _started(pid: int) -> bytes:
    return frame(jsontext.dump({"event": {"start": {"pid": pid}}}))
