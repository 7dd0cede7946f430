"""A real envd process and the ways to talk to it: bare sockets, single HTTP requests, the E2B SDK."""

from __future__ import annotations

import base64
import ctypes
import http.client
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from e2b import AsyncSandbox, Sandbox
from e2b.connection_config import ConnectionConfig
from packaging.version import Version

HERE = Path(__file__).resolve().parent
PACKAGE = HERE.parents[2] / "sandboxes"
PATIENCE = 10.0
TOKEN = "the-access-token"


def until[T](condition: Callable[[], T], seconds: float = PATIENCE) -> T:
    """The first true value of `condition`, looked at every few milliseconds; fails after `seconds`."""
    end = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < end, f"not within {seconds} s: {condition}"
        time.sleep(0.005)
    return value


class Answer:
    def __init__(self, status: int, headers: http.client.HTTPMessage, body: bytes) -> None:
        self.status = status
        self.headers = headers
        self.body = body

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Daemon:
    def __init__(
        self,
        folder: Path,
        uid: int = os.geteuid(),
        starter_signal: int = 0,
        command: list[str] | None = None,
        **settings: str,
    ) -> None:
        self.folder = folder
        listener = socket.create_server(("127.0.0.1", 0))
        self.port = listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.token = ""
        own = {name: value for name, value in os.environ.items() if name.startswith(("COVERAGE", "ENVD_PACK"))}
        self.process = subprocess.Popen(
            command or [sys.executable, "-B", str(HERE / "inside.py"), str(PACKAGE), str(folder), str(uid)],
            env={"PATH": "/usr/bin:/bin", "HOME": str(folder), "LISTEN_FDS": "1", "OURS": "hidden", **own, **settings},
            preexec_fn=lambda: (os.dup2(listener.fileno(), 3), ctypes.CDLL(None).prctl(1, starter_signal)),
            pass_fds=(3,),
            stderr=subprocess.PIPE,
        )
        listener.close()

    @property
    def pid(self) -> int:
        return self.process.pid

    def stop(self) -> bytes:
        """Ends it and returns what it complained about."""
        self.process.terminate()
        _, complaints = self.process.communicate(timeout=PATIENCE)
        return complaints

    def memory(self) -> int:
        """Resident bytes."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        return next(int(line.split()[1]) << 10 for line in status.splitlines() if line.startswith("VmRSS"))

    def open(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE)

    def request(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        """One request on a connection of its own; `_` in header names stands for `-`."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        if self.token and "X-Access-Token" not in names:
            names["X-Access-Token"] = self.token
        connection.request(method, path, body, {name: value for name, value in names.items() if value})
        response = connection.getresponse()
        answer = Answer(response.status, response.headers, response.read())
        connection.close()
        return answer

    def init(self, **body: Any) -> Answer:
        answer = self.request("POST", "/init", json.dumps(body), Content_Type="application/json")
        self.token = body.get("accessToken", self.token)
        return answer

    def call(self, method: str, user: str = "", **message: Any) -> Answer:
        """A unary call, as in `call("filesystem.Filesystem/Stat", path="/")`."""
        return self.request("POST", f"/{method}", json.dumps(message), Content_Type="application/json", **basic(user))

    def stream(self, method: str, message: Any, user: str = "", **headers: str) -> list[dict[str, Any]]:
        """All messages of a server-streaming call; the last one is the trailer."""
        kind = "application/connect+json"
        answer = self.request("POST", f"/{method}", enveloped(message), Content_Type=kind, **basic(user), **headers)
        assert answer.status == 200, answer.body
        return list(unpacked(answer.body))

    def run(self, *command: str, user: str = "", **more: Any) -> list[dict[str, Any]]:
        process = {"cmd": command[0], "args": command[1:], **more.pop("process", {})}
        return self.stream("process.Process/Start", {"process": process, "stdin": False, **more}, user)

    def sdk(self) -> Sandbox:
        return Sandbox(**self._options())

    def async_sdk(self) -> AsyncSandbox:
        return AsyncSandbox(**self._options())

    def _options(self) -> Any:
        headers = {"X-Access-Token": self.token} if self.token else {}
        config = ConnectionConfig(api_key="e2b_" + "0" * 40, sandbox_url=self.url, extra_sandbox_headers=headers)
        return {
            "sandbox_id": "it",
            "sandbox_domain": None,
            "envd_version": Version("0.5.7"),
            "envd_access_token": self.token or None,
            "traffic_access_token": None,
            "connection_config": config,
        }


def basic(user: str) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"{user}:".encode()).decode()} if user else {}


def enveloped(message: Any) -> bytes:
    data = message if isinstance(message, bytes) else json.dumps(message).encode()
    return b"\0" + len(data).to_bytes(4, "big") + data


def unpacked(data: bytes) -> Iterator[dict[str, Any]]:
    while data:
        size = int.from_bytes(data[1:5], "big")
        yield json.loads(data[5 : 5 + size])
        data = data[5 + size :]


def output(messages: list[dict[str, Any]], kind: str = "stdout") -> bytes:
    pieces = [message["event"]["data"].get(kind, "") for message in messages if "data" in message.get("event", {})]
    return b"".join(base64.b64decode(piece) for piece in pieces)


def ending(messages: list[dict[str, Any]]) -> dict[str, Any]:
    return next(message["event"]["end"] for message in messages if "end" in message.get("event", {}))


def start_request(*command: str, headers: str = "", **more: Any) -> bytes:
    """The bytes of a Start call."""
    body = enveloped({"process": {"cmd": command[0], "args": command[1:]}, "stdin": False, **more})
    head = "POST /process.Process/Start HTTP/1.1\r\nHost: it\r\nContent-Type: application/connect+json\r\n"
    return f"{head}{headers}Content-Length: {len(body)}\r\n\r\n".encode() + body


def read_until(connection: socket.socket, end: bytes) -> bytes:
    data = b""
    while end not in data:
        piece = connection.recv(65536)
        assert piece, f"the connection ended before {end!r}: {data[-300:]!r}"
        data += piece
    return data
