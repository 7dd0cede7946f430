"""A command that does nothing: in envd, through the gateway, and in the shape that the SDK gives it."""

from __future__ import annotations

import json
import struct
import time
from statistics import median

import aiohttp

from tests.stack import Stack

from .table import Row, show

REPEATS = 300
TRUE = {"cmd": "/bin/true", "args": []}
SDK_TRUE = {"cmd": "/bin/bash", "args": ["-l", "-c", "true"]}


async def measure(stack: Stack) -> None:
    """Needs a stack with real Pods."""
    demo = stack.demo()
    headers = {"X-API-Key": demo["E2B_API_KEY"]}
    async with aiohttp.ClientSession(headers=headers) as session:
        body = {"templateID": "base", "timeout": 300}
        async with session.post(f"{demo['E2B_API_URL']}/sandboxes", json=body) as answer:
            made = await answer.json()
        direct, gateway = ways_in(stack, demo, made)
        figures = {}
        for shape, process in (("argv true", TRUE), ("bash -l -c true", SDK_TRUE)):
            figures[shape] = await alternate(session, direct, gateway, process)
        async with session.delete(f"{demo['E2B_API_URL']}/sandboxes/{made['sandboxID']}"):
            pass
    show("No-op in a sandbox (medians)", rows(figures))


def ways_in(stack: Stack, demo: dict[str, str], made: dict[str, str]) -> list[tuple[str, dict[str, str]]]:
    sandbox_id = made["sandboxID"]
    address = stack.query("SELECT pod_ip FROM sandboxes_sandbox WHERE id = %s", sandbox_id)[0][0]
    headers = {"X-Access-Token": made["envdAccessToken"], "Content-Type": "application/connect+json"}
    routed = headers | {"E2b-Sandbox-Id": sandbox_id, "E2b-Sandbox-Port": "49983"}
    return [(f"http://{address}:49983", headers), (demo["E2B_SANDBOX_URL"], routed)]


async def alternate(
    session: aiohttp.ClientSession,
    direct: tuple[str, dict[str, str]],
    gateway: tuple[str, dict[str, str]],
    process: object,
) -> tuple[list[float], list[float]]:
    """Milliseconds by each way, taken in turns so that both see the same machine."""
    taken: tuple[list[float], list[float]] = ([], [])
    for _ in range(REPEATS):
        for way, (url, headers) in enumerate((direct, gateway)):
            began = time.perf_counter()
            await run(session, url, headers, process)
            taken[way].append(1000 * (time.perf_counter() - began))
    return taken


async def run(session: aiohttp.ClientSession, url: str, headers: dict[str, str], process: object) -> None:
    message = json.dumps({"process": process, "stdin": False}).encode()
    frame = struct.pack(">BI", 0, len(message)) + message
    async with session.post(f"{url}/process.Process/Start", data=frame, headers=headers) as answer:
        said = await answer.read()
    if answer.status != 200 or b'"end"' not in said or b'"error"' in said:
        raise RuntimeError(f"{url}: {answer.status} {said[:300]!r}")


def rows(figures: dict[str, tuple[list[float], list[float]]]) -> list[Row]:
    found = []
    for shape, (direct, gateway) in figures.items():
        promised = shape == "argv true"
        found.append(Row(f"{shape}: in envd", median(direct), 2.0 if promised else None))
        found.append(Row(f"{shape}: through the gateway", median(gateway)))
        found.append(Row(f"{shape}: added by the gateway", median(gateway) - median(direct), 1.5 if promised else None))
    return found
