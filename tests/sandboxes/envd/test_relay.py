"""The relay to user ports: plain requests, streams, WebSockets, and what is refused."""

from __future__ import annotations

import asyncio
import base64
import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import websockets

from tests.sandboxes.envd.conftest import StartDaemon
from tests.sandboxes.envd.daemon import TOKEN, Daemon, read_until

MIB = 1 << 20


class Echo(BaseHTTPRequestHandler):
    """Tells the request's head, then its body."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        head = f"{self.requestline}\n{self.headers}\n".encode()
        self.send_response(201)
        self.send_header("Content-Length", str(len(head) + len(body)))
        self.end_headers()
        self.wfile.write(head + body)

    do_GET = do_POST

    def log_message(self, *arguments: object) -> None:
        pass


class SixServer(ThreadingHTTPServer):
    address_family = socket.AF_INET6


@contextmanager
def serving(server: ThreadingHTTPServer) -> Iterator[int]:
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture(scope="module")
def secured(daemons: StartDaemon) -> Daemon:
    daemon = daemons()
    daemon.init(accessToken=TOKEN)
    return daemon


@contextmanager
def bare_server(serve: Callable[[socket.socket], None]) -> Iterator[int]:
    """A server for one connection."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(10)

        def accept() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.settimeout(10)
                serve(connection)

        thread = threading.Thread(target=accept)
        thread.start()
        yield listener.getsockname()[1]
        thread.join()


def head(port: int | str, method: str = "GET", path: str = "/x?y=1", more: str = "", token: str = TOKEN) -> bytes:
    relay = f"X-Envd-Relay-Port: {port}\r\nX-Envd-Relay-Token: {token}\r\n"
    return f"{method} {path} HTTP/1.1\r\nHost: 8000-it.example\r\n{relay}{more}\r\n".encode()


def test_a_request_reaches_the_port_without_our_headers(secured: Daemon) -> None:
    with serving(ThreadingHTTPServer(("127.0.0.1", 0), Echo)) as port, secured.open() as connection:
        connection.sendall(
            head(port, "POST", more="Cookie: a=b\r\nConnection: keep-alive\r\nContent-Length: 4\r\n") + b"four"
        )
        data = read_until(connection, b"four")
        assert b"201 Created" in data
        assert b"POST /x?y=1 HTTP/1.1" in data
        assert b"Cookie: a=b" in data
        assert b"Host: 8000-it.example" in data
        assert b"Connection: close" in data
        assert b"envd-relay" not in data.lower()
        assert b"keep-alive" not in data
        assert connection.recv(1) == b""


def test_a_port_that_listens_on_ipv6_only_is_reached(secured: Daemon) -> None:
    with serving(SixServer(("::1", 0), Echo)) as port:
        answer = secured.request("GET", "/six", X_Envd_Relay_Port=str(port), X_Envd_Relay_Token=TOKEN)
        assert b"GET /six" in answer.body


def test_a_large_body_and_a_large_answer_go_through_in_bounded_memory(secured: Daemon) -> None:
    body = os.urandom(50 * MIB)
    with serving(ThreadingHTTPServer(("127.0.0.1", 0), Echo)) as port:
        answer = secured.request("POST", "/", body, X_Envd_Relay_Port=str(port), X_Envd_Relay_Token=TOKEN)
    assert answer.body.endswith(body)
    assert secured.memory() < 48 * MIB


def test_an_answer_arrives_as_it_is_written(secured: Daemon) -> None:
    went_on = threading.Event()

    def serve(connection: socket.socket) -> None:
        read_until(connection, b"\r\n\r\n")
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\ndata: first\n\n")
        assert went_on.wait(10)
        connection.sendall(b"data: second\n\n")

    with bare_server(serve) as port, secured.open() as connection:
        connection.sendall(head(port))
        read_until(connection, b"first\n\n")
        went_on.set()
        read_until(connection, b"second\n\n")
        assert connection.recv(1) == b""


def test_the_server_notices_that_the_client_has_left(secured: Daemon) -> None:
    noticed = threading.Event()

    def serve(connection: socket.socket) -> None:
        read_until(connection, b"\r\n\r\n")
        if connection.recv(1) == b"":
            noticed.set()

    with bare_server(serve) as port:
        with secured.open() as connection:
            connection.sendall(head(port))
        assert noticed.wait(10)


def test_websockets_work_both_ways(secured: Daemon) -> None:
    async def shout(connection: websockets.ServerConnection) -> None:
        async for message in connection:
            await connection.send(message.upper())

    async def talk() -> list[object]:
        async with websockets.serve(shout, "127.0.0.1", 0) as server:
            port = str(next(iter(server.sockets)).getsockname()[1])
            headers = {"X-Envd-Relay-Port": port, "X-Envd-Relay-Token": TOKEN}
            url = f"ws://127.0.0.1:{secured.port}/chat"
            async with websockets.connect(url, additional_headers=headers, proxy=None) as client:
                await client.send("hello")
                first = await client.recv()
                await client.send(b"x" * MIB)
                return [first, len(await client.recv())]

    assert asyncio.run(talk()) == ["HELLO", MIB]


def test_a_closed_port_is_said_so(secured: Daemon) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    answer = secured.request("GET", "/", X_Envd_Relay_Port=str(port), X_Envd_Relay_Token=TOKEN)
    assert answer.status == 502
    assert answer.json == {"code": 502, "message": "The sandbox is running but port is not open", "port": port}


@pytest.mark.parametrize("port", ["", "x", "0", "65536", "-1", "123456", "8000, 8001"])
def test_an_impossible_port_is_refused(secured: Daemon, port: str) -> None:
    with secured.open() as connection:
        connection.sendall(head(port))
        assert b"400 Bad Request" in read_until(connection, b"1 to 65535")


def test_without_the_token_nothing_is_relayed(secured: Daemon) -> None:
    with serving(ThreadingHTTPServer(("127.0.0.1", 0), Echo)) as port:
        for token in ("", "wrong"):
            answer = secured.request("GET", "/health", X_Envd_Relay_Port=str(port), X_Envd_Relay_Token=token)
            assert (answer.status, answer.json["code"]) == (401, 401)


def test_a_key_exchange_is_not_touched(secured: Daemon) -> None:
    """What follows the head of an upgrade in the same packet reaches the server too."""
    key = base64.b64encode(os.urandom(16)).decode()

    def serve(connection: socket.socket) -> None:
        data = read_until(connection, b"early")
        assert f"Key: {key}".encode() in data
        assert b"Connection: Upgrade" in data
        connection.sendall(b"HTTP/1.1 101 Switching Protocols\r\n\r\nlate")

    with bare_server(serve) as port, secured.open() as connection:
        connection.sendall(head(port, more=f"Upgrade: it\r\nConnection: Upgrade\r\nKey: {key}\r\n") + b"early")
        read_until(connection, b"late")
