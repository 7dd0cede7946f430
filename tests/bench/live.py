"""The live feed under load: how old a newborn row is when a browser hears of it."""

from __future__ import annotations

import asyncio
import json
import re
import time
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import aiohttp

from tests.stack import Stack

from .pages import PATH, sign_in
from .table import Row, percentile, show
from .trainers import trainers

VIEWERS, RATE, SECONDS, LIFE = 100, 45.0, 20.0, 2.0
"""A life has about six transitions: 45 a second make some 260."""
QUIET = 5.0
SOCKET = "/ws/t/rl-research/"


@dataclass
class Viewers:
    """What 100 open pages hear; `ages` in seconds."""

    ages: list[float] = field(default_factory=list)
    deltas: int = 0
    resyncs: int = 0

    async def watch(self, session: aiohttp.ClientSession, ids: list[str], until: float) -> None:
        message = {"t": "sub", "epoch": "", "list": True, "query": "", "ids": ids}
        origin = str(session._base_url).rstrip("/")
        async with session.ws_connect(SOCKET, origin=origin) as ws:
            await ws.send_json(message)
            while (left := until - time.monotonic()) > 0:
                try:
                    self.hear(json.loads((await ws.receive(left)).data))
                except TimeoutError:
                    return

    def hear(self, message: dict[str, Any]) -> None:
        self.resyncs += message["t"] == "resync"
        if message["t"] != "delta":
            return
        self.deltas += 1
        now = time.time()
        self.ages += [now - datetime.fromisoformat(row["created"]).timestamp() for row in message["born"]]


async def measure(stack: Stack) -> None:
    demo, viewers = stack.demo(), Viewers()
    jar = aiohttp.CookieJar(unsafe=True)
    async with (
        trainers(demo) as load,
        aiohttp.ClientSession(demo["AGBX_URL"], cookie_jar=jar, connector=aiohttp.TCPConnector(limit=0)) as session,
    ):
        await sign_in(session, demo)
        async with session.get(PATH) as page:
            ids = re.findall(r'<tr id="s-(i[0-9a-z]{20})"', await page.text())
        until = time.monotonic() + SECONDS + QUIET
        async with asyncio.TaskGroup() as group:
            for _ in range(VIEWERS):
                group.create_task(viewers.watch(session, ids, until))
            group.create_task(load.steady(RATE, SECONDS, LIFE))
    report(viewers)


def report(viewers: Viewers) -> None:
    figures = [
        Row("age of a newborn row at the browser, p50", percentile(viewers.ages, 50), None, "s"),
        Row("age of a newborn row at the browser, p95", percentile(viewers.ages, 95), 1.0, "s"),
        Row("deltas", float(viewers.deltas), None, ""),
        Row("pages told to read anew", float(viewers.resyncs), 0.0, ""),
    ]
    show(f"{VIEWERS} open pages while {RATE:.0f} sandboxes a second live for {LIFE:.0f} s", figures)
