"""Fixtures around edge processes; conftest files import what they use."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest
from django.db import connection
from e2b import Sandbox as Client

from pools.models import Pool
from sandboxes.models import Claim, Sandbox
from tests.factories import make_env, make_group, make_key, make_pool, make_sandbox, make_team, new_id, sandbox_row
from tests.sandboxes.edges import Daemon, Edge, StandIn, wait_until


class World:
    """A team with a key, one env `base` and one pool; sandboxes come with real daemons or a stand-in."""

    def __init__(self, edge: Edge, pool: Pool, key: str, start_daemon: Callable[[str], Daemon]) -> None:
        self.edge = edge
        self.pool = pool
        self.group = pool.group
        self.team = pool.group.env.team
        self.key = key
        self._start_daemon = start_daemon

    @property
    def options(self) -> dict[str, str]:
        """How the SDK finds us: the API and, by headers, every sandbox."""
        return {"api_key": self.key, "api_url": self.edge.url, "sandbox_url": self.edge.url}

    def create(self, timeout: int = 60, **envs: str) -> Client:
        """By the SDK. A home without profile: its commands run a login shell, and this machine's is none of ours."""
        return Client.create("base", timeout=timeout, envs={"HOME": "/tmp"} | envs, **self.options)

    def idle(self) -> Sandbox:
        """A claimable sandbox with a real envd behind it."""
        sandbox_id = new_id()
        daemon = self._start_daemon(sandbox_id)
        return make_sandbox(self.pool, "idle", id=sandbox_id, pod_ip=daemon.ip)

    def idle_many(self, count: int, ip: str) -> list[Sandbox]:
        rows = [sandbox_row(self.pool, "idle", pod_ip=ip) for _ in range(count)]
        return Sandbox.objects.bulk_create(rows)


@pytest.fixture
def start_edge(transactional_db: None, tmp_path: Path) -> Iterator[Callable[..., Edge]]:
    started: list[Edge] = []

    def start(**variables: str) -> Edge:
        edge = Edge(process_environment() | variables, tmp_path)
        started.append(edge)
        return edge

    yield start
    for edge in started:
        edge.stop()


@pytest.fixture
def start_daemon() -> Iterator[Callable[[str], Daemon]]:
    started: list[Daemon] = []

    def start(sandbox_id: str) -> Daemon:
        daemon = Daemon(sandbox_id)
        started.append(daemon)
        return daemon

    yield start
    for daemon in started:
        daemon.stop()


@pytest.fixture
def stand_in() -> Iterator[StandIn]:
    daemon = StandIn()
    yield daemon
    daemon.stop()


def process_environment() -> dict[str, str]:
    parts = connection.settings_dict
    database = f"postgresql://{parts['USER']}@/{parts['NAME']}?{urlencode({'host': parts['HOST']})}"
    return os.environ | {"DATABASE_URL": database, "DJANGO_SETTINGS_MODULE": "console.settings"}


@pytest.fixture(scope="session")
def shared_edge(django_db_setup: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Edge]:
    """One process for all tests that do not stop or starve theirs; its caches are keyed by ids that never repeat."""
    edge = Edge(process_environment(), tmp_path_factory.mktemp("edge"))
    yield edge
    edge.stop()


@pytest.fixture
def world(transactional_db: None, shared_edge: Edge, start_daemon: Callable[[str], Daemon]) -> Iterator[World]:
    yield make_world(shared_edge, start_daemon)
    wait_until(edge_is_quiet)


def edge_is_quiet() -> bool:
    """Nothing is under way that could meet the emptying of all tables in the middle."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state <> 'idle'"
            " AND pid <> pg_backend_pid()"
        )
        busy = cursor.fetchone()
    return busy == (0,) and not Claim.objects.filter(state__in=["queued", "bound"]).exists()


def make_world(edge: Edge, start_daemon: Callable[[str], Daemon], quota: int = 100) -> World:
    team = make_team(quota=quota)
    _, key = make_key(team)
    pool = make_pool(make_group(env=make_env(team, name="base")))
    return World(edge, pool, key, start_daemon)


__all__ = ["World", "make_world", "shared_edge", "stand_in", "start_daemon", "start_edge", "world"]
