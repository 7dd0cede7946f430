"""Trainers as load: the calls of the e2b SDK without the SDK, whose own CPU would be measured too."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import aiohttp

LIMIT = 75.0


@dataclass
class Outcome:
    """`waits`: seconds of every create that succeeded; `at`: when it did, on the monotonic clock."""

    waits: list[float] = field(default_factory=list)
    at: list[float] = field(default_factory=list)
    failures: Counter[str] = field(default_factory=Counter)


class Trainers:
    def __init__(self, session: aiohttp.ClientSession) -> None:
        self.session = session
        self.outcome = Outcome()

    async def create(self, template: str = "base", lifetime: int = 120) -> str:
        """The new sandbox's id, or "" (counted as a failure)."""
        asked = time.monotonic()
        body = {"templateID": template, "timeout": lifetime, "metadata": {"run": "bench"}}
        try:
            async with self.session.post("/sandboxes", json=body) as answer:
                found = await answer.json()
                if answer.status != 201:
                    self.outcome.failures[f"{answer.status} {found.get('message', '')[:80]}"] += 1
                    return ""
        except (aiohttp.ClientError, TimeoutError) as error:
            self.outcome.failures[type(error).__name__] += 1
            return ""
        now = time.monotonic()
        self.outcome.waits.append(now - asked)
        self.outcome.at.append(now)
        return str(found["sandboxID"])

    async def kill(self, sandbox_id: str) -> None:
        try:
            async with self.session.delete(f"/sandboxes/{sandbox_id}") as answer:
                if answer.status != 204:
                    self.outcome.failures[f"kill {answer.status}"] += 1
        except (aiohttp.ClientError, TimeoutError) as error:
            self.outcome.failures[f"kill {type(error).__name__}"] += 1

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
    headers = {"X-API-Key": demo["E2B_API_KEY"]}
    limit = aiohttp.ClientTimeout(total=LIMIT)
    connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=60)
    async with aiohttp.ClientSession(
        demo["E2B_API_URL"], headers=headers, timeout=limit, connector=connector
    ) as session:
        yield Trainers(session)
