"""A rollout succeeds, also while processes are killed under it (Done-when 1 and 10 of the first issue, in small)."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator

import psycopg
import pytest

from tests.stack import Stack, until

pytestmark = [pytest.mark.namespaces, pytest.mark.stack, pytest.mark.timeout(240)]
LIFE = 40
"""Seconds after which a sandbox whose caller lost it ends itself."""


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    with Stack() as stack:
        yield stack


def test_every_episode_succeeds_and_nothing_is_left(stack: Stack) -> None:
    rollout = stack.rollout("--episodes", "60", "--in-flight", "24")
    said, _ = rollout.communicate(timeout=120)
    assert rollout.returncode == 0, said + stack.said()
    assert "60/60 succeeded" in said
    assert re.search(r"claim wait +p50 \d+\.\d+ s +p99 \d+\.\d+ s", said)
    assert re.search(r"left over +0", said)


def test_ctrl_c_ends_the_run_and_its_sandboxes(stack: Stack) -> None:
    rollout = stack.rollout("--episodes", "500", "--in-flight", "12")
    until(lambda: stack.count("claimed") >= 4, 30, stack.said)
    rollout.send_signal(signal.SIGINT)
    said, _ = rollout.communicate(timeout=60)
    assert rollout.returncode == 1
    assert "stopped by Ctrl-C" in said
    assert re.search(r"left over +0", said), said
    until(lambda: stack.count("claimed") == 0, 20)


def test_work_goes_on_while_processes_that_no_call_goes_through_are_killed(stack: Stack) -> None:
    rollout = stack.rollout("--episodes", "120", "--in-flight", "16")
    for name in ("worker", "watcher", "beat", "web"):
        killed_at = count_claims(stack)
        stack.kill(name)
        until(lambda at=killed_at: count_claims(stack) >= at + 10 or rollout.poll() is not None, 60, stack.said)
    said, _ = rollout.communicate(timeout=120)
    assert "120/120 succeeded" in said, said + stack.said()
    assert re.search(r"left over +0", said)


def test_a_killed_edge_costs_only_the_calls_that_were_in_flight(stack: Stack) -> None:
    in_flight = 12
    rollout = stack.rollout("--episodes", "100", "--in-flight", str(in_flight), "--timeout", str(LIFE))
    for name in ("edge-1", "edge-2"):
        at = count_claims(stack)
        until(lambda at=at: count_claims(stack) >= at + 20 or rollout.poll() is not None, 60, stack.said)
        stack.kill(name)
    said, _ = rollout.communicate(timeout=150)
    succeeded = int(re.search(r"(\d+)/100 succeeded", said)[1])
    assert succeeded >= 100 - 2 * in_flight, said + stack.said()
    until(lambda: stack.count("claimed") == 0, LIFE + 15, stack.said)


def test_all_is_well_again_after_servers_were_killed(stack: Stack) -> None:
    rollout = stack.rollout("--episodes", "60", "--in-flight", "8", "--timeout", str(LIFE))
    until(lambda: stack.count("claimed") >= 4, 30, stack.said)
    for name in ("valkey", "localkube", "postgresql"):
        pid = stack.pid(name)
        stack.kill(name)
        until(lambda name=name, pid=pid: restarted(stack, name, pid), 30, stack.said)
    rollout.communicate(timeout=150)  # what it could do meanwhile is not the point
    until(lambda: idle(stack) >= 8, 60, stack.said)
    again = stack.rollout("--episodes", "16", "--in-flight", "8")
    said, _ = again.communicate(timeout=120)
    assert "16/16 succeeded" in said, said + stack.said()
    until(lambda: stack.count("claimed") == 0, LIFE + 15, stack.said)


def restarted(stack: Stack, name: str, pid: int) -> bool:
    try:
        return stack.pid(name) != pid
    except FileNotFoundError:
        return False


def idle(stack: Stack) -> int:
    try:
        return stack.count("idle")
    except psycopg.OperationalError:
        return 0


def count_claims(stack: Stack) -> int:
    return int(stack.query("SELECT count(*) FROM sandboxes_claim WHERE state = 'delivered'")[0][0])
