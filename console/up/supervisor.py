"""Starts programs when what they need is ready, starts them again when they end, stops them stage by stage."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path
from signal import Signals
from typing import Protocol

from . import leftovers
from .child import before_exec
from .options import ROOT
from .problem import Problem
from .program import Program

FIRST_BACKOFF, LONGEST_BACKOFF = 0.5, 30.0
STEADY = 30.0
"""After this many seconds of running the backoff begins anew."""
READY_LIMIT = 120.0
FIRST_POLL, LONGEST_POLL = 0.05, 0.5
STOP_LIMIT = 4.0
DRAIN_LIMIT = 1.0
"""For the last lines of a process that has ended."""
LONGEST_LINE = 64 * 1024

Process = subprocess.Popen[bytes]


class Log(Protocol):
    """Where lines go (console.up.screen)."""

    def line(self, name: str, text: str, style: str = "") -> None: ...
    def say(self, text: str, style: str = "bold") -> None: ...
    def ready(self, name: str) -> None: ...


class Supervisor:
    """Use: `start()`, then wait for `failed` or a signal, then `await stop()`."""

    def __init__(self, programs: Iterable[Program], pid_files: Path, log: Log) -> None:
        self.programs = {program.name: program for program in programs}
        self.pid_files = pid_files
        self.log = log
        self.ready = {name: asyncio.Event() for name in self.programs}
        self.running: dict[str, Process] = {}
        self.keepers: dict[str, asyncio.Task[None]] = {}
        self.stopping = False
        self.failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def start(self) -> None:
        for program in self.programs.values():
            self.keepers[program.name] = asyncio.create_task(self.keep(program))

    async def all_ready(self) -> None:
        for event in self.ready.values():
            await event.wait()

    async def keep(self, program: Program) -> None:
        """Run a program for as long as we run. Problems end up in `failed`."""
        try:
            for name in program.after:
                await self.ready[name].wait()
            await (self.run_once(program) if program.once else self.run_always(program))
        except Exception as error:  # noqa: BLE001 - whoever waits for `failed` raises it again
            self.fail(error)

    def fail(self, error: Exception) -> None:
        if not self.failed.done():
            self.failed.set_exception(error)

    async def run_once(self, program: Program) -> None:
        code = await self.run(program)
        if code != 0 and not self.stopping:
            raise Problem(f"{program.name} failed with exit code {code}; its last lines above say why.")
        self.is_ready(program)

    async def run_always(self, program: Program) -> None:
        backoff = FIRST_BACKOFF
        while True:
            began = time.monotonic()
            code = await self.run(program)
            if self.stopping:
                return
            if time.monotonic() - began > STEADY:
                backoff = FIRST_BACKOFF
            self.log.say(f"{program.name} ended ({how(code)}) and starts again in {backoff:g} s", "yellow")
            await asyncio.sleep(backoff)
            backoff = min(2 * backoff, LONGEST_BACKOFF)

    async def run(self, program: Program) -> int:
        """One run from start to end; returns the exit code, negative for a signal."""
        process = self.spawn(program)
        pump = asyncio.create_task(self.pump(program.name, process))
        watch = None if program.once else asyncio.create_task(self.wait_ready(program))
        await exit_of(process)
        if watch:
            watch.cancel()
        leftovers.signal_all(leftovers.session(process.pid), Signals.SIGKILL)  # what it started ends with it
        await asyncio.wait({pump}, timeout=DRAIN_LIMIT)
        pump.cancel()
        del self.running[program.name]
        leftovers.forget(self.pid_files, program.name)
        return process.wait()

    def spawn(self, program: Program) -> Process:
        process = subprocess.Popen(
            program.command,
            cwd=ROOT,
            env=program.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            bufsize=0,
            pass_fds=program.sockets,
            start_new_session=True,
            preexec_fn=before_exec(program.stop_signal, ordinary=program.ordinary, nice=program.nice),
        )
        self.running[program.name] = process
        leftovers.remember(self.pid_files, program.name, process.pid, program.stop_signal)
        return process

    async def pump(self, name: str, process: Process) -> None:
        """Every line of a process into the log, until it closes its output."""
        reader = asyncio.StreamReader(limit=LONGEST_LINE)
        protocol = asyncio.StreamReaderProtocol(reader)
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, process.stdout)
        try:
            while line := await read_line(reader):
                self.log.line(name, line.decode(errors="replace"))
        finally:
            transport.close()

    async def wait_ready(self, program: Program) -> None:
        began, pause = time.monotonic(), FIRST_POLL
        while not await program.ready():
            if time.monotonic() - began > READY_LIMIT and not self.ready[program.name].is_set():
                self.fail(Problem(f"{program.name} was not ready within {READY_LIMIT:g} s; its lines above say why."))
                return
            await asyncio.sleep(pause)
            pause = min(1.1 * pause, LONGEST_POLL)
        self.is_ready(program)

    def is_ready(self, program: Program) -> None:
        self.ready[program.name].set()
        self.log.ready(program.name)

    async def stop(self) -> None:
        """End all programs, stage by stage."""
        self.stopping = True
        for stage in sorted({program.stage for program in self.programs.values()}):
            names = [program.name for program in self.programs.values() if program.stage == stage]
            await self.stop_these(names)

    async def stop_these(self, names: list[str]) -> None:
        keepers = [self.keepers[name] for name in names if name in self.keepers]
        for name in names:
            self.signal(name, self.programs[name].stop_signal)
            if name not in self.running and name in self.keepers:
                self.keepers[name].cancel()
        if not keepers:
            return
        _, late = await asyncio.wait(keepers, timeout=STOP_LIMIT)
        for name in names:
            self.signal(name, Signals.SIGKILL)
        if late:
            await asyncio.wait(late, timeout=STOP_LIMIT)

    def signal(self, name: str, signal: Signals) -> None:
        if process := self.running.get(name):
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal)


async def read_line(stream: asyncio.StreamReader) -> bytes:
    """A line, or the part of an overlong one that fits."""
    try:
        return await stream.readuntil(b"\n")
    except asyncio.IncompleteReadError as error:
        return error.partial
    except asyncio.LimitOverrunError as error:
        return await stream.readexactly(error.consumed)


async def exit_of(process: Process) -> None:
    """Returns when the process has ended, even if somebody else still holds its output open. Does not reap it."""
    ended = asyncio.Event()
    descriptor = os.pidfd_open(process.pid)
    loop = asyncio.get_running_loop()
    loop.add_reader(descriptor, ended.set)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)


def how(code: int) -> str:
    return f"signal {Signals(-code).name}" if code < 0 else f"exit code {code}"


def clear(pid_files: Path) -> list[str]:
    """End what an earlier supervisor left; returns the names."""
    pid_files.mkdir(mode=0o700, parents=True, exist_ok=True)
    return leftovers.end_all(pid_files)
