"""The small client towards daemons: several requests in one write, and every way it can go wrong."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from sandboxes.serving.wire import Answer, Broken, ask, request

OK = b"HTTP/1.1 204 No Content\r\n\r\n"


@asynccontextmanager
async def daemon(*answers: bytes) -> AsyncIterator[int]:
    """Waits for the first bytes, then sends each answer by itself and closes."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(65536)
        for answer in answers:
            writer.write(answer)
            await writer.drain()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]


REQUESTS = [request("POST", "/init", "x", b"{}", "Bearer t"), request("GET", "/health", "x")]


async def test_all_answers_are_collected_however_they_arrive() -> None:
    whole = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi" + OK
    for pieces in ([whole], [whole[:10], whole[10:40], whole[40:]]):
        async with daemon(*pieces) as port:
            assert await ask("127.0.0.1", port, REQUESTS) == [Answer(200, b"hi"), Answer(204, b"")]


async def test_an_error_ends_it_whatever_follows() -> None:
    async with daemon(b"HTTP/1.1 401 No\r\nContent-Length: 3\r\n\r\nbad" + OK) as port:
        assert await ask("127.0.0.1", port, REQUESTS) == [Answer(401, b"bad")]


async def test_a_daemon_that_breaks_off_is_broken() -> None:
    for answers in ((), (OK,), (b"nonsense\r\n\r\n",)):
        async with daemon(*answers) as port:
            with pytest.raises(Broken):
                await ask("127.0.0.1", port, REQUESTS)


def test_a_request_looks_as_http_wants_it() -> None:
    assert REQUESTS[0] == (
        b"POST /init HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer t\r\n"
        b"Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
    )
    assert REQUESTS[1] == b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"
