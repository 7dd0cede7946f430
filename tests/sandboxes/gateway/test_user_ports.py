"""Programs in a sandbox that serve a port: HTTP and WebSockets, through envd's relay."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import aiohttp
import httpx
import pytest
from aiohttp import web
from e2b import Sandbox

from tests.sandboxes.edge_fixtures import World
from tests.sandboxes.edges import wait_until


@dataclass
class Program:
    """A user's server on loopback: what it saw, and its port."""

    port: int = 0
    seen: list[Mapping[str, str]] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)

    async def echo(self, request: web.Request) -> web.Response:
        self.seen.append(request.headers)
        body = await request.read()
        self.bodies.append(body)
        headers = {"X-Own": "1", "X-Path": request.raw_path, "Set-Cookie": "a=b"}
        return web.Response(status=201, body=body or b"nothing", headers=headers)

    async def socket(self, request: web.Request) -> web.WebSocketResponse:
        connection = web.WebSocketResponse(protocols=["chat"])
        await connection.prepare(request)
        async for message in connection:
            if message.data == "leave":
                await connection.close(code=4001)
            elif message.type is aiohttp.WSMsgType.TEXT:
                await connection.send_str(message.data[::-1])
            else:
                await connection.send_bytes(message.data)
        return connection


@pytest.fixture
def program() -> Iterator[Program]:
    program, loop, ready = Program(), asyncio.new_event_loop(), threading.Event()

    async def serve() -> None:
        app = web.Application(client_max_size=1 << 30)
        app.router.add_get("/socket", program.socket)
        app.router.add_route("*", "/{path:.*}", program.echo)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        program.port = runner.addresses[0][1]
        ready.set()
        await stop.wait()
        await runner.cleanup()

    stop = asyncio.Event()
    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()), daemon=True)
    thread.start()
    assert ready.wait(5)
    yield program
    loop.call_soon_threadsafe(stop.set)
    thread.join(5)
    loop.close()


@pytest.fixture
def sandbox(world: World) -> Sandbox:
    world.idle()
    return world.create()


def test_a_request_reaches_the_program_unchanged(world: World, sandbox: Sandbox, program: Program) -> None:
    headers = {"Host": f"{program.port}-{sandbox.sandbox_id}.example.com", "X-Mine": "yes", "X-Access-Token": "own"}
    answer = httpx.put(f"{world.edge.url}/a%2Fb/%C3%A9?q=%20&r", content=b"body", headers=headers)
    assert (answer.status_code, answer.content, answer.headers["x-own"]) == (201, b"body", "1")
    assert answer.headers["x-path"] == "/a%2Fb/%C3%A9?q=%20&r"
    assert "access-control-allow-origin" not in answer.headers
    (seen,) = program.seen
    assert seen["Host"] == headers["Host"]
    assert (seen["X-Mine"], seen["X-Access-Token"]) == ("yes", "own")
    assert not [name for name in seen if name.lower().startswith("x-envd")]


def test_a_relayed_connection_is_never_used_for_the_daemon(world: World, sandbox: Sandbox, program: Program) -> None:
    for _ in range(5):
        httpx.get(f"{world.edge.url}/", headers={"Host": f"{program.port}-{sandbox.sandbox_id}.x"})
        assert sandbox.commands.run("echo mine").stdout == "mine\n"
    assert all("X-Access-Token" not in seen for seen in program.seen)


def test_a_body_that_broke_off_does_not_look_complete(world: World, sandbox: Sandbox, program: Program) -> None:
    head = f"POST / HTTP/1.1\r\nHost: {program.port}-{sandbox.sandbox_id}.x\r\nTransfer-Encoding: chunked\r\n\r\n"
    with socket.create_connection(("127.0.0.1", world.edge.port)) as caller:
        caller.sendall(head.encode() + b"4\r\nhalf\r\n")
        wait_until(lambda: program.seen)
    for _ in range(3):
        httpx.put(f"{world.edge.url}/", headers={"Host": f"{program.port}-{sandbox.sandbox_id}.x"}, content=b"whole")
    assert program.bodies == [b"whole"] * 3


def test_a_port_that_nobody_serves_says_so(world: World, sandbox: Sandbox) -> None:
    answer = httpx.get(f"{world.edge.url}/", headers={"Host": f"1-{sandbox.sandbox_id}.x"})
    assert answer.status_code == 502
    assert answer.json()["message"] == "The sandbox is running but port is not open"
    assert answer.json()["port"] == 1


def test_websockets_go_both_ways(world: World, sandbox: Sandbox, program: Program) -> None:
    async def talk() -> int | None:
        headers = {"Host": f"{program.port}-{sandbox.sandbox_id}.x"}
        async with (
            aiohttp.ClientSession() as session,
            session.ws_connect(f"{world.edge.url}/socket", headers=headers, protocols=["chat"]) as connection,
        ):
            assert connection.protocol == "chat"
            await connection.send_str("abc")
            assert await connection.receive_str(timeout=5) == "cba"
            large = bytes(range(256)) * 4096
            await connection.send_bytes(large)
            assert await connection.receive_bytes(timeout=5) == large
            await connection.send_str("leave")
            await connection.receive(timeout=5)
            return connection.close_code

    assert asyncio.run(talk()) == 4001


@pytest.mark.parametrize("number", ["1", "0"])
def test_a_websocket_that_cannot_be_is_refused(world: World, sandbox: Sandbox, number: str) -> None:
    async def refused() -> int:
        async with aiohttp.ClientSession() as session:
            headers = {"Host": f"{number}-{sandbox.sandbox_id}.x"}
            with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
                await session.ws_connect(f"{world.edge.url}/socket", headers=headers)
            return caught.value.status

    assert asyncio.run(refused()) in (403, 502)


def test_a_websocket_ends_when_its_sandbox_is_killed(world: World, sandbox: Sandbox, program: Program) -> None:
    async def killed() -> int | None:
        headers = {"Host": f"{program.port}-{sandbox.sandbox_id}.x"}
        async with (
            aiohttp.ClientSession() as session,
            session.ws_connect(f"{world.edge.url}/socket", headers=headers) as connection,
        ):
            await asyncio.to_thread(sandbox.kill)
            await connection.receive(timeout=5)
            return connection.close_code

    assert asyncio.run(killed()) == 1001
