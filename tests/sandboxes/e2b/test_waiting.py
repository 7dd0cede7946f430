"""Creates that wait: thousands of them, in order, until their deadline, and without trace when their callers leave."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from django.db import connection

from sandboxes import matcher
from sandboxes.models import Claim, Sandbox
from tests.factories import make_decision
from tests.sandboxes.edge_fixtures import World, make_world
from tests.sandboxes.edges import Daemon, Edge, StandIn, wait_until

BODY = {"templateID": "base"}
CLIENTS = """
import asyncio, sys
host, port, key, count = "127.0.0.1", int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
body = b'{"templateID":"base"}'
head = f"POST /v2/sandboxes HTTP/1.1\\r\\nHost: x\\r\\nX-API-Key: {key}\\r\\nContent-Length: {len(body)}\\r\\n\\r\\n"
async def one():
    reader, writer = await asyncio.open_connection(host, port)
    writer.write(head.encode() + body)
    print(await reader.readline())
async def all_():
    await asyncio.gather(*(one() for _ in range(count)))
asyncio.run(all_())
"""


def queued() -> int:
    return Claim.objects.filter(state="queued").count()


def connections(edge: Edge) -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_stat_activity WHERE application_name = %s", [edge.name])
        return int(cursor.fetchone()[0])


def test_two_thousand_wait_without_threads_and_leave_without_trace(
    start_edge: Callable[..., Edge], start_daemon: Callable[[str], Daemon]
) -> None:
    edge = start_edge()
    world = make_world(edge, start_daemon, quota=5000)
    command = [sys.executable, "-c", CLIENTS, str(edge.port), world.key, "1000"]
    clients = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) for _ in range(2)]
    try:
        wait_until(lambda: queued() == 2000, 60, lambda: f"{queued()} queued")
        assert edge.threads() < 30
        assert 1 <= connections(edge) <= 10
        assert edge.memory() < 1 << 30
        assert httpx.get(f"{edge.url}/readyz", timeout=5).status_code == 200
    finally:
        for client in clients:
            client.send_signal(signal.SIGINT)
        for client in clients:
            client.communicate(timeout=20)
    wait_until(lambda: Claim.objects.filter(state="cancelled").count() == 2000, 20)
    world.idle_many(3, "127.0.0.1")
    assert matcher.match(world.group.id) == {}
    assert Sandbox.objects.filter(state="idle").count() == 3


def create(edge: Edge, key: str, body: dict[str, Any] = BODY) -> httpx.Response:
    return httpx.post(f"{edge.url}/v2/sandboxes", json=body, headers={"X-API-Key": key}, timeout=60)


@pytest.fixture
def callers() -> Iterator[ThreadPoolExecutor]:
    """Clients wait in threads, so that the database stays the main thread's."""
    with ThreadPoolExecutor(80) as pool:
        yield pool


def arrive(callers: ThreadPoolExecutor, edges: list[Edge], key: str, count: int) -> list[Future[httpx.Response]]:
    """One after the other, at each process in turn, so that their order is known."""
    waiting = []
    for number in range(count):
        before = Claim.objects.count()
        waiting.append(callers.submit(create, edges[number % len(edges)], key))
        wait_until(lambda: Claim.objects.count() > before)  # noqa: B023 - called at once
    return waiting


def test_the_first_thirty_of_seventy_are_served_across_two_processes(
    start_edge: Callable[..., Edge],
    start_daemon: Callable[[str], Daemon],
    stand_in: StandIn,
    callers: ThreadPoolExecutor,
) -> None:
    world = make_world(start_edge(), start_daemon)
    edges = [world.edge, start_edge()]
    waiting = arrive(callers, edges, world.key, 50)
    world.idle_many(30, stand_in.ip)
    turning = threading.Thread(target=in_thread, args=(lambda: matcher.match(world.group.id),))
    turning.start()
    waiting += arrive(callers, edges, world.key, 20)
    turning.join()
    answers = [future.result(20) for future in waiting[:30]]
    assert [answer.status_code for answer in answers] == [201] * 30
    assert len({answer.json()["sandboxID"] for answer in answers}) == 30
    assert not any(future.done() for future in waiting[30:])
    assert list(Claim.objects.order_by("id").values_list("state", flat=True)) == ["delivered"] * 30 + ["queued"] * 40
    for edge in edges:
        edge.process.terminate()
    assert {future.result(20).status_code for future in waiting[30:]} == {503}


def in_thread(function: Callable[[], object]) -> None:
    try:
        function()
    finally:
        connection.close()


def test_no_sandbox_in_time_says_why_and_keeps_nothing(world: World) -> None:
    make_decision(world.group, sentence="The quota of 4 sandboxes is used up.")
    started = time.monotonic()
    answer = create(world.edge, world.key, BODY | {"metadata": {"startup-timeout": "1"}})
    assert 0.9 < time.monotonic() - started < 5
    assert answer.status_code == 503
    assert answer.json() == {
        "code": 503,
        "message": "No sandbox became free within 1 s. The quota of 4 sandboxes is used up.",
        "error_code": "sandbox_capacity_unavailable",
    }
    assert int(answer.headers["retry-after"]) >= 1
    assert Claim.objects.get().state == "expired"


def test_a_sandbox_that_comes_late_is_delivered_without_redis(
    start_edge: Callable[..., Edge],
    start_daemon: Callable[[str], Daemon],
    stand_in: StandIn,
    callers: ThreadPoolExecutor,
) -> None:
    edge = start_edge(REDIS_URL="unix:///nonexistent/valkey.sock?db=0")
    world = make_world(edge, start_daemon)

    (waiting,) = arrive(callers, [edge], world.key, 1)
    world.idle_many(1, stand_in.ip)
    matcher.match(world.group.id)
    assert waiting.result(10).status_code == 201


def test_sigterm_answers_those_who_wait(
    start_edge: Callable[..., Edge], start_daemon: Callable[[str], Daemon], callers: ThreadPoolExecutor
) -> None:
    edge = start_edge()
    world = make_world(edge, start_daemon)

    (waiting,) = arrive(callers, [edge], world.key, 1)
    edge.process.terminate()
    answer = waiting.result(10)
    assert (answer.status_code, answer.headers["should-retry"]) == (503, "true")
    assert "restarting" in answer.json()["message"]
    assert edge.stop() == -signal.SIGTERM
    assert Claim.objects.get().state == "cancelled"


def test_a_quota_that_is_claimed_is_said_at_once(world: World) -> None:
    world.team.quota.max_sandboxes = 0
    world.team.quota.save()
    answer = create(world.edge, world.key)
    assert (answer.status_code, answer.headers["should-retry"]) == (429, "false")
    assert "All 0 sandboxes of your team's quota are claimed" in answer.json()["message"]
