"""`make bench-kubernetes`: bursts on a real API server with fake nodes, beside what a peer needs on such a machine.

Every run is: 500 Pods without us, as a measure of the machine; fill a pool of 500; 500 claims at once, the pool being
refilled meanwhile; kill those; 2,000 claims at once on a full pool; and, on a full pool without refill, one claim after
another. Then, on the real node, claims of real Pods. Nothing is asserted.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from statistics import median

import aiohttp
import psycopg

from console.up import postgresql
from sandboxes.cluster.client import ClusterClient
from sandboxes.cluster.errors import Transient
from tests.kubernetes import single_node
from tests.kubernetes.crowded import crowded
from tests.kubernetes.make_run import make_run
from tests.kubernetes.single_node import SingleNode
from tests.stack import Stack, until

from . import bare, cpu, real_pods
from .sizes import left
from .table import Row, console, percentile, show
from .trainers import Trainers, trainers

RUNS = 3
POOL, MANY, SINGLE = 500, 2000, 200
CREATE_RATE = 1000
"""More than the machine can do: the API server itself sets the pace, by its answers' time and its 429s."""
LIMIT = 120.0
LIFETIME = 600
QUIET_SECONDS = 5.0
GROUP = "/v1/envs/base/autoscaling/groups/small"
WRITE = re.compile(r'apiserver_request_total\{.*resource="pods".*verb="(POST|PUT|PATCH|DELETE)"')
REFUSED = re.compile(r'apiserver_request_total\{.*code="429"')
OWNERS = "SELECT count(*) FROM sandboxes_sandbox WHERE claim_id IS NOT NULL GROUP BY claim_id"


@dataclass
class Figures:
    """A list a figure, one entry a run; times in seconds, CPU in seconds a sandbox."""

    seen: dict[str, list[float]] = field(default_factory=dict)
    failures: Counter[str] = field(default_factory=Counter)

    def add(self, name: str, value: float) -> None:
        self.seen.setdefault(name, []).append(value)

    def of(self, name: str) -> float:
        return median(self.seen.get(name, [float("nan")]))

    def add_burst(self, name: str, began: float, load: Trainers, count: int) -> None:
        usable = sorted(at - began for at in load.outcome.at)
        usable += [float("nan")] * (count - len(usable))
        self.add(f"{name}: half", usable[count // 2 - 1])
        self.add(f"{name}: all", usable[-1])
        self.add(f"{name}: p99", percentile(usable, 99))
        self.failures += load.outcome.failures


@dataclass(frozen=True)
class Bench:
    cluster: SingleNode
    stack: Stack
    api: ClusterClient
    database: psycopg.Connection[tuple[int]]
    """Kept, because one connection a question would take a part of the machine."""
    figures: Figures = field(default_factory=Figures)

    async def run(self) -> None:
        before = self.requests(REFUSED)
        await self.measure()
        self.figures.add("refused", self.requests(REFUSED) - before)

    async def measure(self) -> None:
        quiet = await self.quiet()
        self.bare(quiet)
        await self.fill(quiet)
        async with trainers(self.stack.demo()) as load:
            ids = await self.claims_on_a_full_pool(load)
            await self.delete(load, ids)
        await self.many_claims()
        await self.empty()
        await self.fill(quiet)
        await self.one_after_another(quiet)
        await self.empty()

    async def quiet(self) -> float:
        """CPU seconds a second of an API server that has nothing to do."""
        before = self.spent()
        await asyncio.sleep(QUIET_SECONDS)
        return (self.spent() - before) / QUIET_SECONDS

    def spent(self) -> float:
        return cpu.of_process(self.cluster.pid("apiserver"))

    def bare(self, quiet: float) -> None:
        with self.cost("bare: CPU", quiet, POOL):
            self.figures.add("bare", bare.fill(self.api, POOL))
        until(lambda: not self.delete_pods(), LIMIT)

    async def fill(self, quiet: float) -> None:
        with self.cost("fill: CPU", quiet, POOL):
            began = time.monotonic()
            await self.bounds(ceiling=POOL, idle=POOL)
            await self.idle(POOL)
            self.figures.add("fill", time.monotonic() - began)

    async def claims_on_a_full_pool(self, load: Trainers) -> list[str]:
        await self.bounds(ceiling=2 * POOL, idle=POOL)
        began = time.monotonic()
        ids = await asyncio.gather(*(load.create(lifetime=LIFETIME) for _ in range(POOL)))
        self.figures.add_burst("burst", began, load, POOL)
        await self.idle(POOL)
        return ids

    async def delete(self, load: Trainers, ids: list[str]) -> None:
        began = time.monotonic()
        await asyncio.gather(*(load.kill(id_) for id_ in ids))
        await self.true(lambda: self.living(ids) == 0)
        self.figures.add("delete", time.monotonic() - began)
        self.check_owners()

    def living(self, ids: list[str]) -> int:
        return self.count("state <> 'ended' AND id = ANY(%s)", ids)

    def count(self, which: str, *values: object) -> int:
        """Sandboxes."""
        rows = self.database.execute(f"SELECT count(*) FROM sandboxes_sandbox WHERE {which}", values)
        return rows.fetchall()[0][0]

    async def many_claims(self) -> None:
        await self.bounds(ceiling=MANY + POOL, idle=POOL)
        await self.idle(POOL)
        async with trainers(self.stack.demo()) as load:
            began = time.monotonic()
            await asyncio.gather(*(load.create(lifetime=LIFETIME) for _ in range(MANY)))
            self.figures.add_burst("many", began, load, MANY)
        await self.idle(POOL)
        self.check_owners()

    async def one_after_another(self, quiet: float) -> None:
        waits = []
        async with trainers(self.stack.demo()) as load:
            before = self.requests(WRITE)
            with self.cost("single: CPU", quiet, SINGLE):
                for _ in range(SINGLE):
                    await load.create(lifetime=LIFETIME)
            self.figures.add("single: writes", self.requests(WRITE) - before)
            waits = load.outcome.waits
            self.figures.failures += load.outcome.failures
        self.figures.add("single: p50", percentile(waits, 50))
        self.figures.add("single: p99", percentile(waits, 99))
        self.check_owners()

    @contextlib.contextmanager
    def cost(self, name: str, quiet: float, count: int) -> Iterator[None]:
        """The API server's CPU for each of `count`, without what it spends anyway."""
        before, began = self.spent(), time.monotonic()
        yield
        self.figures.add(name, (self.spent() - before - quiet * (time.monotonic() - began)) / count)

    def requests(self, which: re.Pattern[str]) -> float:
        """How many the API server has answered."""
        with self.api.send("GET", "/metrics") as answer:
            lines = answer.read().decode().splitlines()
        return sum(float(line.rpartition(" ")[2]) for line in lines if which.match(line))

    def check_owners(self) -> None:
        doubles = sum(count > 1 for (count,) in self.database.execute(OWNERS))
        self.figures.add("doubles", doubles)

    async def empty(self) -> None:
        """All Pods go at once, as if the cluster had lost them: only what is measured has to be the product's work."""
        await self.bounds(ceiling=0, idle=0)
        await self.true(lambda: self.lose_pods() == 0 and left(self.stack) == 0)

    def lose_pods(self) -> int:
        """Living sandboxes afterwards."""
        self.delete_pods()
        return self.count("state <> 'ended'")

    def delete_pods(self) -> bool:
        """All of the namespace; whether there were any."""
        try:
            return bool(self.api.call("DELETE", self.api.pods)["items"])
        except Transient:  # thousands take longer than our client waits for an answer
            return True

    async def bounds(self, *, ceiling: int, idle: int) -> None:
        """As people do it: through the API."""
        demo = self.stack.demo()
        wanted = {"minReplicas": 0, "maxReplicas": ceiling, "minIdle": idle}
        async with aiohttp.ClientSession(demo["AGBX_URL"], headers={"X-API-Key": demo["E2B_API_KEY"]}) as session:
            async with session.get(GROUP) as answer:
                tag = answer.headers["ETag"]
            async with session.put(GROUP, json=wanted, headers={"If-Match": tag}) as answer:
                assert answer.ok, await answer.text()

    async def idle(self, count: int) -> None:
        await self.true(lambda: self.count("state = 'idle'") >= count)

    async def true(self, condition: Callable[[], object]) -> None:
        await asyncio.to_thread(until, condition, LIMIT, self.stack.said)


PEERS = ("agent-sandbox", "same, tuned", "bare Pods")
"""Its defaults, tuned by us, and the machine's limit without any controller."""


def rows(figures: Figures) -> list[Row]:
    of = figures.of
    return [
        Row(f"{POOL} bare Pods, no controller", of("bare"), None, "s", ("", "", "3 s")),
        Row("    API server's CPU, a Pod", 1000 * of("bare: CPU"), None, "ms", ("", "", "6 ms")),
        Row(f"fill a pool of {POOL}", of("fill"), 5.0, "s", ("23-25 s", "16-20 s", "3 s")),
        Row(f"{POOL} claims, pool of {POOL}: all usable", of("burst: all"), 3.0, "s", ("17-18 s", "12-18 s", "")),
        Row("    p50", of("burst: half"), 1.5, "s", ("8-10 s", "5-10 s", "")),
        Row("    p99", of("burst: p99"), 3.0, "s", ("15 s", "9-14 s", "")),
        Row(f"{MANY} claims, pool of {POOL}: half usable", of("many: half"), 12.0, "s", ("92-123 s", "85 s", "")),
        Row("    all usable", of("many: all"), 30.0, "s", ("153-161 s", "113-117 s", "11-12 s")),
        Row("one warm claim after another: p50", 1000 * of("single: p50"), 15.0, "ms", ("39 ms", "47 ms", "")),
        Row("    p99", 1000 * of("single: p99"), 100.0, "ms", ("91 ms", "91 ms", "")),
        Row(f"{POOL} claims killed until no Pod is left", of("delete"), 4.0, "s", ("7-9 s", "8-10 s", "")),
        Row("API server's CPU: fill, a Pod", 1000 * of("fill: CPU"), 10.0, "ms", ("63-68 ms", "40-51 ms", "6 ms")),
        Row("    a warm claim", 1000 * of("single: CPU"), 1.0, "ms", ("46-49 ms", "33-48 ms", "")),
        Row(f"writes of Pods, {SINGLE} warm claims", of("single: writes"), 0.0, "", (f"{7 * SINGLE}", "", "")),
        Row("requests answered 429, in a run", of("refused"), None, "", ("", "", "")),
        Row("claims that own two sandboxes", max(figures.seen["doubles"]), 0.0, "", ("0-296", "0", "")),
    ]


def connected(stack: Stack) -> psycopg.Connection[tuple[int]]:
    return psycopg.connect(postgresql.url(stack.folder / "postgresql", "agentbox"), autocommit=True)


def main() -> int:
    console.print(f"{datetime.now(UTC):%Y-%m-%d}, {os.cpu_count()} CPUs, Python {sys.version.split()[0]}")
    with single_node.shared() as cluster:
        measure_bursts(cluster)
        with make_run(cluster) as stack:
            asyncio.run(real_pods.measure(stack))
    return 0


def measure_bursts(cluster: SingleNode) -> None:
    with crowded(cluster) as (stack, api), connected(stack) as database:
        bench = Bench(cluster, stack, api, database)
        stack.execute("UPDATE pools_quota SET max_sandboxes = 50000")
        stack.execute("UPDATE pools_cluster SET create_rate = %s", [CREATE_RATE])
        stack.execute("UPDATE pools_scalinggroup SET max_starting = %s", [POOL])
        for number in range(RUNS):
            began = time.monotonic()
            asyncio.run(bench.run())
            console.print(f"Run {number + 1} of {RUNS} took {time.monotonic() - began:.0f} s")
    version = cluster.facts["version"]
    title = f"Kubernetes {version} with 60 fake nodes, createRate {CREATE_RATE}, median of {RUNS} runs"
    show(title, rows(bench.figures), PEERS)
    for reason, count in bench.figures.failures.items():
        console.print(f"  [red]{count} x {reason}[/]")


if __name__ == "__main__":
    sys.exit(main())
