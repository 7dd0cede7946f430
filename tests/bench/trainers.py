"""Trainers as load: the calls of the e2b SDK without the SDK, whose own CPU would be measured too."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from urllib.parse import SplitResult, urlsplit

LIMIT = 75.0

type Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass
class Outcome:
    """`waits`: seconds of every create that succeeded; `at`: when it did, on the monotonic clock."""

    waits: list[float] = field(default_factory=list)
    at: list[float] = field(default_factory=list)
    failures: Counter[str] = field(default_factory=Counter)


class Connections:
    """HTTP/1.1 with kept connections and nothing else: a general client would take a tenth of the machine."""

    def __init__(self, place: SplitResult, key: str) -> None:
        self._place = place
        self._head = f"Host: {place.netloc}\r\nX-API-Key: {key}\r\nContent-Type: application/json\r\n"
        self._idle: list[Stream] = []

    async def ask(self, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        """Status and body. A connection that met an error is not used again."""
        stream = self._idle.pop() if self._idle else await self._connect()
        try:
            answer = await self._exchange(stream, method, path, body)
        except BaseException:
            stream[1].close()
            raise
        self._idle.append(stream)
        return answer

    async def _connect(self) -> Stream:
        return await asyncio.open_connection(self._place.hostname, self._place.port)

    async def _exchange(self, stream: Stream, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        reader, writer = stream
        writer.write(f"{method} {path} HTTP/1.1\r\n{self._head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        _, found, rest = head.partition(b"content-length: ")
        return int(head[9:12]), await reader.readexactly(int(rest.split(b"\r", 1)[0]) if found else 0)

    def close(self) -> None:
        for _, writer in self._idle:
            writer.close()


class Trainers:
    def __init__(self, connections: Connections) -> None:
        self.connections = connections
        self.outcome = Outcome()

    async def create(self, template: str = "base", lifetime: int = 120) -> str:
        """The new sandbox's id, or "" (counted as a failure)."""
        asked = time.monotonic()
        body = {"templateID": template, "timeout": lifetime, "metadata": {"run": "bench"}}
        status, answer = await self.ask("POST", "/sandboxes", json.dumps(body).encode())
        if status != 201:
            self.outcome.failures[f"create {status} {answer[:80].decode()}"] += 1
            return ""
        now = time.monotonic()
        self.outcome.waits.append(now - asked)
        self.outcome.at.append(now)
        return str(json.loads(answer)["sandboxID"])

    async def kill(self, sandbox_id: str) -> None:
        status, answer = await self.ask("DELETE", f"/sandboxes/{sandbox_id}")
        if status != 204:
            self.outcome.failures[f"kill {status} {answer[:80].decode()}"] += 1

    async def ask(self, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
        try:
            async with asyncio.timeout(LIMIT):
                return await self.connections.ask(method, path, body)
        except (OSError, TimeoutError, EOFError) as error:
            return 0, type(error).__name__.encode()

    async def life(self, seconds: float) -> None:
        """Claim, hold for a while, kill."""
        if sandbox_id := await self.create():
            await asyncio.sleep(seconds)
            await self.kill(sandbox_id)

    async def steady(self, rate: float, seconds: float, life: float) -> None:
        """`rate` lives begin each second, evenly, whatever the earlier ones do."""
        began = time.monotonic()
        async with asyncio.TaskGroup() as group:
            for number in range(round(rate * seconds)):
                await asyncio.sleep(max(0.0, began + number / rate - time.monotonic()))
                group.create_task(self.life(life))


@asynccontextmanager
async def trainers(demo: dict[str, str]) -> AsyncIterator[Trainers]:
    """Clients of one stack, named by its demo.env; any number of connections."""
    connections = Connections(urlsplit(demo["E2B_API_URL"]), demo["E2B_API_KEY"])
    try:
        yield Trainers(connections)
    finally:
        connections.close()
