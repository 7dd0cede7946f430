"""What is under way ends with the sandbox, within a second, as the protocol says, whatever else is down."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from e2b import Sandbox, SandboxNotRunningException
from e2b.exceptions import SandboxException

from sandboxes import models, transitions
from sandboxes.lifecycle import EndReason
from sandboxes.tokens import access_token
from tests.sandboxes.edge_fixtures import World, make_world
from tests.sandboxes.edges import Daemon, Edge, wait_until
from tests.sandboxes.outage import database_outage

REDIS_DOWN = {"REDIS_URL": "unix:///nonexistent/valkey.sock?db=0"}


@pytest.fixture
def deaf_world(start_edge: Callable[..., Edge], start_daemon: Callable[[str], Daemon]) -> World:
    """Its edge hears nothing from Redis, and there is neither collector nor watcher."""
    return make_world(start_edge(**REDIS_DOWN), start_daemon)


def test_a_stream_open_at_the_deadline_ends_without_redis(deaf_world: World) -> None:
    row = deaf_world.idle()
    sandbox = deaf_world.create(timeout=2)
    with pytest.raises(SandboxNotRunningException, match="was not found"):
        sandbox.commands.run("sleep 30", timeout=60)
    late = time.time() - models.Sandbox.objects.get().end_at.timestamp()
    assert 0 <= late < 1
    assert sandbox.is_running() is False
    row.refresh_from_db()
    assert row.state == "claimed"


def test_a_running_command_hears_of_the_kill(world: World) -> None:
    world.idle()
    sandbox = world.create()
    handle = sandbox.commands.run("sleep 30", background=True, timeout=60)
    Sandbox.kill(sandbox.sandbox_id, api_key=world.key, api_url=world.edge.url)
    started = time.monotonic()
    with pytest.raises(SandboxNotRunningException, match="was not found"):
        handle.wait()
    assert time.monotonic() - started < 1
    assert sandbox.is_running() is False


def test_a_kill_elsewhere_is_seen_without_redis(deaf_world: World) -> None:
    deaf_world.idle()
    sandbox = deaf_world.create()
    handle = sandbox.commands.run("sleep 30", background=True, timeout=60)
    transitions.stop([sandbox.sandbox_id], EndReason.KILLED, "test")
    started = time.monotonic()
    with pytest.raises(SandboxNotRunningException):
        handle.wait()
    assert time.monotonic() - started < 1.5


def test_a_shorter_deadline_counts_at_once_for_what_is_open(world: World) -> None:
    world.idle()
    sandbox = world.create()
    handle = sandbox.commands.run("sleep 30", background=True, timeout=60)
    sandbox.set_timeout(1)
    started = time.monotonic()
    with pytest.raises(SandboxNotRunningException):
        handle.wait()
    assert 0.5 < time.monotonic() - started < 2


def test_a_longer_deadline_keeps_what_is_open(world: World) -> None:
    world.idle()
    sandbox = world.create(timeout=2)
    handle = sandbox.commands.run("sleep 3; echo survived", background=True, timeout=60)
    sandbox.set_timeout(60)
    assert handle.wait().stdout == "survived\n"


def test_timeout_zero_ends_it_now(world: World) -> None:
    world.idle()
    sandbox = world.create()
    sandbox.set_timeout(0)
    assert sandbox.is_running() is False
    with pytest.raises(SandboxException):
        sandbox.get_info()


def test_known_sandboxes_go_on_while_the_database_is_away(
    start_edge: Callable[..., Edge], start_daemon: Callable[[str], Daemon]
) -> None:
    """The role's connections are broken and refused for a while, which is how a restart looks."""
    world = make_world(start_edge(), start_daemon)
    world.idle()
    sandbox = world.create()
    assert sandbox.is_running()
    with database_outage():
        for _ in range(8):
            assert sandbox.commands.run("echo still").stdout == "still\n"
            time.sleep(0.2)
        answer = httpx.get(f"{world.edge.url}/v2/sandboxes", headers={"X-API-Key": world.key}, timeout=10)
        assert answer.status_code == 503
        assert answer.json()["code"] == 503
        assert answer.headers["should-retry"] == "true"
    wait_until(lambda: httpx.get(f"{world.edge.url}/readyz").status_code == 200)
    assert sandbox.kill() is True


def test_a_body_that_is_no_connect_stream_breaks_off(world: World) -> None:
    """Cut short must not look complete."""
    world.idle()
    sandbox = world.create()
    path = Path(f"/tmp/sparse-{sandbox.sandbox_id}")
    sandbox.commands.run(f"truncate -s 4G {path}")
    headers = {"E2b-Sandbox-Id": sandbox.sandbox_id, "X-Access-Token": access_token(sandbox.sandbox_id)}
    try:
        with httpx.stream("GET", f"{world.edge.url}/files?path={path}", headers=headers) as answer:
            pieces = answer.iter_raw(65536)
            assert next(pieces)
            sandbox.kill()
            with pytest.raises(httpx.RemoteProtocolError):
                deque(pieces, maxlen=0)
    finally:
        path.unlink()
