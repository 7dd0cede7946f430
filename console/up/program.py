"""One supervised process, described."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from signal import Signals

Ready = Callable[[], Awaitable[bool]]


async def at_once() -> bool:
    return True


@dataclass(frozen=True)
class Program:
    """What to run and when.

    `after` names programs that must be ready first. `stage` is the order of stopping, lowest first. A program that
    runs `once` is ready when it has ended well; any other is started again whenever it ends.
    """

    name: str
    command: list[str]
    environment: dict[str, str]
    after: tuple[str, ...] = ()
    ready: Ready = at_once
    stage: int = 0
    stop_signal: Signals = Signals.SIGTERM
    once: bool = False
    ordinary: bool = False
    nice: int = 0
    sockets: tuple[int, ...] = field(default=())


def http_ready(port: int, path: str, tls: ssl.SSLContext | None = None) -> Ready:
    """Ready when a GET of `path` on loopback answers 200 within a second."""

    async def ready() -> bool:
        with contextlib.suppress(OSError, TimeoutError, asyncio.IncompleteReadError):
            async with asyncio.timeout(1):
                return await answers(port, path, tls)
        return False

    return ready


async def answers(port: int, path: str, tls: ssl.SSLContext | None) -> bool:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=tls)
    try:
        writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost:{port}\r\nConnection: close\r\n\r\n".encode())
        status = await reader.readline()
        return b" 200 " in status
    finally:
        writer.close()
