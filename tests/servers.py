"""Real servers for the tests: PostgreSQL once a run, Valkey once a test process.

A pytest plugin (named in pyproject.toml), because the environment must be complete before Django reads its settings.
xdist workers inherit PostgreSQL by the environment (pytest-django gives each its own database) and start a Valkey of
their own, so that neither keys nor channels are shared. All of it dies with its process, whatever ends that.
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Generator
from pathlib import Path
from signal import Signals

import pytest

from console.up import postgresql, valkey
from console.up.child import before_exec

READY_LIMIT = 30.0
STOP_LIMIT = 10.0
FAST = ["fsync=off", "full_page_writes=off", "synchronous_commit=off", "shared_buffers=64MB", "max_wal_size=256MB"]

started: list[tuple[subprocess.Popen[bytes], Signals]] = []
folders: list[Path] = []


@pytest.hookimpl(wrapper=True)
def pytest_load_initial_conftests() -> Generator[None]:
    os.environ["AGENTBOX_VAR"] = str(new_folder("var"))
    if "PYTEST_XDIST_WORKER" not in os.environ:
        os.environ["SECRET_KEY"] = secrets.token_hex(32)
        os.environ["DATABASE_URL"] = start_postgresql()
    os.environ["REDIS_URL"] = start_valkey()
    return (yield)


def pytest_unconfigure() -> None:
    for process, signal in reversed(started):
        process.send_signal(signal)
    for process, _ in started:
        stop(process)
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)
    started.clear()
    folders.clear()


def start_postgresql() -> str:
    folder = new_folder("postgresql")
    postgresql.prepare(folder)
    start(postgresql.command(folder, FAST), postgresql.STOP, lambda: postgresql.ready(folder), folder)
    return postgresql.url(folder, "agentbox")


def start_valkey() -> str:
    folder = new_folder("valkey")
    start(valkey.command(folder), valkey.STOP, lambda: valkey.ready(folder), folder)
    return valkey.url(folder)


def new_folder(purpose: str) -> Path:
    """A short path: a Unix socket's has to fit into 107 bytes."""
    folder = Path(tempfile.mkdtemp(prefix=f"agentbox-test-{purpose}-"))
    folders.append(folder)
    return folder


def start(command: list[str], stop_signal: Signals, ready: Callable[[], bool], folder: Path) -> None:
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            command,
            preexec_fn=before_exec(stop_signal, ordinary=True),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    started.append((process, stop_signal))
    deadline = time.monotonic() + READY_LIMIT
    while not ready():
        if process.poll() is not None or time.monotonic() > deadline:
            raise pytest.UsageError(f"{command[0]} does not start:\n{(folder / 'log').read_text()}")
        time.sleep(0.02)


def stop(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(STOP_LIMIT)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
