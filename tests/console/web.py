"""The web process as it really runs, and a live socket towards it."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from django.db import connection
from django.test import Client
from websockets.sync.client import ClientConnection, connect

from pools.models import Team, User

READY_LIMIT = 30.0
QUICK = {"LIVE_FLUSH": "0.05", "LIVE_BEAT": "0.5", "LIVE_RECHECK": "0.5"}
UVICORN = [
    *("-m", "uvicorn", "console.asgi:application", "--ws", "websockets", "--ws-max-size", "65536"),
    *("--ws-max-queue", "16", "--ws-per-message-deflate", "false", "--ws-ping-interval", "20"),
    *("--no-access-log", "--log-level", "warning"),
]


@dataclass
class Web:
    """A running web process."""

    address: str
    process: subprocess.Popen[bytes]
    log: Path

    def said(self, text: str) -> bool:
        """Whether its log has the text by now."""
        return text in self.log.read_text()

    @property
    def host(self) -> str:
        return self.address.removeprefix("http://")


def environment() -> dict[str, str]:
    """Of a process that shares this run's test database and Valkey."""
    parts = connection.settings_dict
    database = f"postgresql://{parts['USER']}@/{parts['NAME']}?{urlencode({'host': parts['HOST']})}"
    return os.environ | {"DATABASE_URL": database, "DJANGO_SETTINGS_MODULE": "console.settings", "LOG_LEVEL": "INFO"}


@contextmanager
def serve(**extra: str) -> Iterator[Web]:
    """Starts the web process and waits until it is ready; ends it."""
    listener = socket.create_server(("127.0.0.1", 0))
    command = [sys.executable, "-W", "ignore", *UVICORN, "--fd", str(listener.fileno())]
    log = Path(tempfile.mkstemp(prefix="agentbox-web-", suffix=".log")[1])
    with log.open("wb") as out:
        fds = [listener.fileno()]
        process = subprocess.Popen(command, env=environment() | extra, pass_fds=fds, stdout=out, stderr=out)
    web = Web(f"http://127.0.0.1:{listener.getsockname()[1]}", process, log)
    listener.close()
    try:
        wait_for(lambda: answers(f"{web.address}/healthz"), READY_LIMIT)
        yield web
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        log.unlink()


def answers(address: str) -> bool:
    with suppress(OSError), urllib.request.urlopen(address, timeout=2) as answer:
        return bool(answer.status == 200)
    return False


def wait_for(condition: Callable[[], Any], limit: float = 10.0) -> Any:
    """The first true value of the condition."""
    deadline = time.monotonic() + limit
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not so within {limit} s")
        time.sleep(0.02)
    return value


def session_of(user: User) -> str:
    client = Client()
    client.force_login(user)
    return client.cookies["sessionid"].value


@contextmanager
def live(web: Web, user: User, team: Team, **options: Any) -> Iterator[ClientConnection]:
    """A socket of the user on the team's feed, not yet subscribed."""
    values = {"origin": web.address, "additional_headers": {"Cookie": f"sessionid={session_of(user)}"}} | options
    with connect(f"ws://{web.host}/ws/t/{team.name}/", open_timeout=10, **values) as ws:
        yield ws


def subscribe(ws: ClientConnection, ids: list[str] | None = None, **view: Any) -> dict[str, Any]:
    """Its snapshot."""
    ws.send(json.dumps({"t": "sub", "epoch": "", "list": True, "query": "", "ids": ids or [], **view}))
    return hear(ws, "snap")


def hear(ws: ClientConnection, kind: str, limit: float = 10.0, **fields: Any) -> dict[str, Any]:
    """The next message of this kind that has these fields; others are passed over."""
    deadline = time.monotonic() + limit
    while True:
        message: dict[str, Any] = json.loads(ws.recv(timeout=max(0.01, deadline - time.monotonic())))
        if message["t"] == kind and all(message.get(name) == value for name, value in fields.items()):
            return message
