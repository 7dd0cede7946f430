"""One envd for all tests of a module, and a way to start others."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.sandboxes.envd.daemon import Daemon

collect_ignore = [] if os.geteuid() == 0 else ["test_users.py", "test_in_a_pod.py"]
"""These need several user ids or a mount namespace, which an ordinary user has not."""

StartDaemon = Callable[..., Daemon]


@pytest.fixture(scope="module")
def daemons(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StartDaemon]:
    started: list[Daemon] = []

    def start(**settings: str) -> Daemon:
        started.append(Daemon(tmp_path_factory.mktemp("envd"), **settings))
        return started[-1]

    yield start
    complaints = b"".join(daemon.stop() for daemon in started)
    assert not complaints, complaints.decode()


@pytest.fixture(scope="module")
def envd(daemons: StartDaemon) -> Daemon:
    return daemons()


@pytest.fixture
def start_envd(daemons: StartDaemon) -> StartDaemon:
    """An envd of the test's own: `start_envd(ENVD_DEADLINE_MARGIN="1")`."""
    return daemons


@pytest.fixture
def work(envd: Daemon, request: pytest.FixtureRequest) -> Iterator[str]:
    """An empty folder of the default user's, removed afterwards."""
    path = f"work-{request.node.name.partition('[')[0][:80]}"
    home = Path(envd.call("filesystem.Filesystem/MakeDir", path=path).json["entry"]["path"])
    yield str(home)
    envd.call("filesystem.Filesystem/Remove", path=path)
