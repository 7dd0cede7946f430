"""Real edge processes, real envd processes and a light stand-in for thousands of them."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

from console.up.child import before_exec
from sandboxes import tokens
from sandboxes.models import Sandbox
from tests.conftest import ROOT
from tests.factories import make_sandbox

ENVD_PORT = 49983
START_SECONDS = 60.0
ADDRESSES = itertools.count(os.getpid() % 200 * 1000 + 1)


class Edge:
    """A uvicorn process serving sandboxes.edge:app, as `manage.py up` starts it."""

    def __init__(self, environment: dict[str, str], folder: Path) -> None:
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            listener.listen(4096)
            self.port: int = listener.getsockname()[1]
            self.name = f"edge-{self.port}"
            """Of its connections in pg_stat_activity."""
            own = {"AGENTBOX_SANDBOX_DOMAIN": f"localhost:{self.port}", "PGAPPNAME": self.name}
            self.log = folder / f"edge-{self.port}.log"
            self.process = self._start(listener, environment | own)
        self.url = f"http://127.0.0.1:{self.port}"
        wait_until(lambda: answers(f"{self.url}/readyz"), START_SECONDS, self.output)

    def _start(self, listener: socket.socket, environment: dict[str, str]) -> subprocess.Popen[bytes]:
        number = str(listener.fileno())
        options = ["--loop", "uvloop", "--http", "httptools", "--no-access-log", "--ws-per-message-deflate", "false"]
        options += ["--no-server-header", "--no-proxy-headers", "--timeout-graceful-shutdown", "2"]
        with self.log.open("wb") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "uvicorn", "sandboxes.edge:app", "--fd", number, *options],
                env=environment,
                cwd=ROOT,
                pass_fds=[listener.fileno()],
                preexec_fn=before_exec(signal.SIGTERM),
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def output(self) -> str:
        return self.log.read_text()

    def threads(self) -> int:
        return psutil.Process(self.process.pid).num_threads()

    def memory(self) -> int:
        return int(psutil.Process(self.process.pid).memory_info().rss)

    def stop(self, number: int = signal.SIGTERM, seconds: float = 15.0) -> int:
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise


class Daemon:
    """A real envd for one sandbox's row, on a loopback address of its own."""

    def __init__(self, sandbox_id: str) -> None:
        self.ip = loopback_address()
        with socket.socket() as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((self.ip, ENVD_PORT))
            listener.listen(512)
            self.process = self._start(listener, sandbox_id)

    def _start(self, listener: socket.socket, sandbox_id: str) -> subprocess.Popen[bytes]:
        start = "import os, sys; os.dup2(int(sys.argv[1]), 3); from envd.main import main; main()"
        digest = tokens.bootstrap_digest(sandbox_id)
        return subprocess.Popen(
            [sys.executable, "-SB", "-c", start, str(listener.fileno())],
            env={"PATH": os.environ["PATH"], "LISTEN_FDS": "1", "ENVD_BOOTSTRAP_SHA256": digest},
            cwd=ROOT / "sandboxes",
            pass_fds=[listener.fileno(), 3] if listener.fileno() != 3 else [3],
            preexec_fn=before_exec(signal.SIGTERM),
        )

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()


class StandIn:
    """Answers /init and /health for any number of rows, as fast as can be; `refuse` makes it fail to arm."""

    def __init__(self) -> None:
        self.ip = loopback_address()
        self.armed: list[str] = []
        self.refuse = 0
        self.delay = 0.0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._ready = threading.Event()
        self._thread.start()
        self._ready.wait(5)

    def _run(self) -> None:
        async def serve() -> None:
            server = await asyncio.start_server(self._serve, self.ip, ENVD_PORT, backlog=4096)
            self._ready.set()
            async with server:
                await server.serve_forever()

        try:
            self._loop.run_until_complete(serve())
        except (asyncio.CancelledError, RuntimeError):
            self._loop.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                writer.write(await self._answer(reader, head.decode("latin-1")))
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, head: str) -> bytes:
        fields = dict(line.lower().split(": ", 1) for line in head.split("\r\n")[1:] if ": " in line)
        await reader.readexactly(int(fields.get("content-length", 0)))
        if head.startswith("POST /init"):
            await asyncio.sleep(self.delay)
            if self.refuse:
                self.refuse -= 1
                return b"HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n"
            self.armed.append(fields["authorization"])
        return b"HTTP/1.1 204 No Content\r\n\r\n"

    def stop(self) -> None:
        def end() -> None:
            for task in asyncio.all_tasks(self._loop):
                task.cancel()

        self._loop.call_soon_threadsafe(end)
        self._thread.join(5)


def loopback_address() -> str:
    """One of 127.80.0.0/12 that no other test process uses."""
    number = next(ADDRESSES)
    return f"127.{80 + number // 62500 % 16}.{number // 250 % 250}.{number % 250 + 1}"


def make_idle(pool: Any, ip: str) -> Sandbox:
    return make_sandbox(pool, "idle", pod_ip=ip)


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as response:
            return bool(response.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def wait_until(true: Callable[[], object], seconds: float = 10.0, why: Callable[[], str] = lambda: "") -> None:
    """Look every 20 ms; after `seconds` the test fails and says why."""
    until = time.monotonic() + seconds
    while not true():
        if time.monotonic() > until:
            raise AssertionError(f"not within {seconds} s. {why()}")
        time.sleep(0.02)
