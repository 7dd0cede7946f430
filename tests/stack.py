"""All of AgentBox, as `make run` starts it, in a folder and on ports of its own."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import psycopg

from console.up import postgresql
from console.up.child import before_exec

ROOT = Path(__file__).resolve().parent.parent
READY = "AgentBox is ready"
READY_LIMIT = 120.0
STOP_LIMIT = 30.0
FOREIGN = ("DATABASE_URL", "REDIS_URL", "KUBECONFIG", "SECRET_KEY")
"""Variables of the test run that a stack of its own must not see."""


class Stack:
    """Use `start()` and `stop()`, or `with Stack() as stack`. `folder` is its `var/`; it survives until `remove()`."""

    def __init__(self, *arguments: str, folder: Path | None = None) -> None:
        self.folder = folder or Path(tempfile.mkdtemp(prefix="agentbox-stack-"))
        self.port = two_free_ports()
        self.arguments = arguments
        self.log = self.folder / "up.log"
        self.process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Stack:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self.remove()

    def start(self, **environment: str) -> float:
        """Returns the seconds until it said that it is ready."""
        began = time.monotonic()
        self.launch(**environment)
        try:
            until(lambda: READY in self.said() or self.ended(), READY_LIMIT, self.said)
            assert not self.ended(), f"manage.py up ended:\n{self.said()}"
        except AssertionError:
            self.stop()
            raise
        return time.monotonic() - began

    def launch(self, **environment: str) -> None:
        """Start `manage.py up` and return at once."""
        clean = {name: value for name, value in os.environ.items() if name not in FOREIGN}
        own = {"AGENTBOX_VAR": str(self.folder), "PORT": str(self.port)}
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "manage.py", "up", *self.arguments],
                cwd=ROOT,
                env=clean | own | environment,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=before_exec(signal.SIGTERM),
            )

    def said(self) -> str:
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def ended(self) -> bool:
        return self.process is None or self.process.poll() is not None

    def stop(self) -> int:
        """Ctrl-C; returns the exit code."""
        return self.end(signal.SIGINT)

    def end(self, number: signal.Signals) -> int:
        assert self.process is not None
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            return self.process.wait(STOP_LIMIT)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise

    def remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def demo(self) -> dict[str, str]:
        """The variables of demo.env."""
        words = shlex.split((self.folder / "demo.env").read_text())
        return dict(word.split("=", 1) for word in words)

    def pid(self, name: str) -> int:
        """Of the program `name` (console.up.programs)."""
        return int(json.loads((self.folder / "run" / f"{name}.pid").read_text())["pid"])

    def kill(self, name: str) -> None:
        os.kill(self.pid(name), signal.SIGKILL)

    def query(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        with psycopg.connect(postgresql.url(self.folder / "postgresql", "agentbox"), connect_timeout=5) as connection:
            return connection.execute(sql, values).fetchall()

    def execute(self, sql: str, values: Sequence[object] | Mapping[str, object] | None = None) -> None:
        with psycopg.connect(postgresql.url(self.folder / "postgresql", "agentbox"), connect_timeout=5) as connection:
            connection.execute(sql, values)

    def count(self, state: str) -> int:
        return int(self.query("SELECT count(*) FROM sandboxes_sandbox WHERE state = %s", state)[0][0])

    def rollout(self, *arguments: str) -> subprocess.Popen[str]:
        """The example, with its output to be read."""
        return subprocess.Popen(
            [sys.executable, "docs/examples/rollout.py", *arguments],
            cwd=ROOT,
            env=os.environ | self.demo() | {"COLUMNS": "120"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def processes(self) -> dict[int, str]:
        """Everything that runs for this stack: whatever names its folder in its command, environment or mounts."""
        mark = str(self.folder).encode()
        found = {}
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and any(
                mark in readable(entry / name) for name in ("cmdline", "environ", "mountinfo")
            ):
                found[int(entry.name)] = readable(entry / "cmdline").replace(b"\0", b" ").decode()
        return {pid: command for pid, command in found.items() if command and pid != os.getpid()}


def readable(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError:
        return b""


def until(condition: Callable[[], object], limit: float, explain: Callable[[], object] = str) -> None:
    """Wait for a condition, bounded; what `explain` returns is shown if it does not come true."""
    deadline = time.monotonic() + limit
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"not true within {limit:g} s:\n{explain()}")
        time.sleep(0.05)


def two_free_ports() -> int:
    """A free port whose successor is free, too. Below the range that outgoing connections use."""
    for port in range(20000 + os.getpid() % 500 * 20, 32000, 2):
        with socket.socket() as first, socket.socket() as second:
            try:
                first.bind(("127.0.0.1", port))
                second.bind(("127.0.0.1", port + 1))
            except OSError:
                continue
            return port
    raise AssertionError("no two free ports in a row")
