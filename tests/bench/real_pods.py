"""Claims of real Pods, one after another: of an idle one, of an idle one that gets another image, of none."""

from __future__ import annotations

import json
import time

import aiohttp

from deploy.oci.registry import push
from tests.kubernetes.images import busybox
from tests.stack import Stack, until

from .table import Row, percentile, show

REPEATS = 10
IDLE = 8
OTHER = "bench/other:1"
TEMPLATES = {
    "warm: an idle sandbox": "base",
    "in place: an idle sandbox gets another image": f"base//{OTHER}",
    "cold: a new Pod, its image on the node": "base//large",
}


async def measure(stack: Stack) -> None:
    """Needs a stack on the single-node cluster (`--cluster kubernetes`)."""
    registry = json.loads((stack.folder / "kubernetes" / "cluster.json").read_text())["registry"]
    push(busybox("other"), f"{registry}/{OTHER}")
    headers = {"X-API-Key": stack.demo()["E2B_API_KEY"]}
    async with aiohttp.ClientSession(stack.demo()["E2B_API_URL"], headers=headers) as session:
        rows = [row for label, template in TEMPLATES.items() for row in await claims(stack, session, label, template)]
    show(f"Claims of real Pods, {REPEATS} one after another", rows)


async def claims(stack: Stack, session: aiohttp.ClientSession, label: str, template: str) -> list[Row]:
    await claim(stack, session, template)  # the node pulls the image, once
    waits = [await claim(stack, session, template) for _ in range(REPEATS)]
    return [Row(f"{label}: p50", percentile(waits, 50), unit="s"), Row(f"{label}: worst", max(waits), unit="s")]


async def claim(stack: Stack, session: aiohttp.ClientSession, template: str) -> float:
    """Seconds until it can be used, on a full and quiet pool."""
    until(
        lambda: stack.count("idle") == IDLE and all(stack.count(state) == 0 for state in ("starting", "stopping")), 60
    )
    began = time.monotonic()
    async with session.post("/sandboxes", json={"templateID": template, "timeout": 60}) as answer:
        made = await answer.json()
        answer.raise_for_status()
    waited = time.monotonic() - began
    async with session.delete(f"/sandboxes/{made['sandboxID']}") as answer:
        answer.raise_for_status()
    return waited
