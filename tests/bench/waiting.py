"""Five thousand creates that wait at once for sandboxes that never come."""

from __future__ import annotations

import asyncio

import psutil

from tests.stack import Stack, until

from .sizes import left, resize
from .table import Row, show
from .trainers import trainers

WAITING = 5000
EDGES = ("edge-1", "edge-2")
ARRIVAL_LIMIT = 40.0
CONNECTIONS = """
    SELECT application_name, count(*) FROM pg_stat_activity
    WHERE datname = 'agentbox' AND pid <> pg_backend_pid() GROUP BY 1
"""


async def measure(stack: Stack) -> None:
    resize(stack, "large", ceiling=0, idle=0)
    async with trainers(stack.demo()) as load:
        creates = [asyncio.create_task(load.create("base//large")) for _ in range(WAITING)]
        await asyncio.to_thread(until, lambda: queued(stack) == WAITING, ARRIVAL_LIMIT, lambda: queued(stack))
        rows = observe(stack)
        for create in creates:
            create.cancel()
        await asyncio.gather(*creates, return_exceptions=True)
    await asyncio.to_thread(until, lambda: left(stack) == 0, 60.0, lambda: left(stack))
    show(f"{WAITING} waiting creates", rows)


def queued(stack: Stack) -> int:
    return int(stack.query("SELECT count(*) FROM sandboxes_claim WHERE state = 'queued'")[0][0])


def observe(stack: Stack) -> list[Row]:
    edges = [psutil.Process(stack.pid(name)) for name in EDGES]
    connections = dict(stack.query(CONNECTIONS))
    return [
        Row("waiting", queued(stack), None, "claims"),
        Row("threads, the larger edge", max(edge.num_threads() for edge in edges), 30, ""),
        Row("database connections, both edges", sum(connections.get(name, 0) for name in EDGES), 20, ""),
        Row("database connections, all processes", sum(connections.values()), None, ""),
        Row("memory, the larger edge", max(edge.memory_info().rss for edge in edges) / 2**20, 1024, "MiB"),
    ]
