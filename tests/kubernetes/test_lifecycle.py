"""A cluster goes without a trace, however it ends."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from console.kubernetes import machine
from tests.kubernetes.single_node import get, host_settings, left, manage, start, until

pytestmark = pytest.mark.timeout(300)


def test_a_stop_leaves_nothing(state: Path) -> None:
    before = host_settings()
    cluster = start(state)
    cluster.run_pod("one", cluster.push_web_image())
    assert any("httpd" in trace for trace in left(state))
    done = manage("down")
    assert (done.returncode, done.stdout) == (0, "The cluster is stopped.\n"), done.stderr
    assert left(state) == []
    assert host_settings() == before
    assert sorted(path.name for path in state.iterdir()) == ["logs", "registry"]


def test_what_a_killed_cluster_leaves_is_removed_by_down(state: Path) -> None:
    before = host_settings()
    cluster = start(state)
    cluster.run_pod("one", cluster.push_web_image())
    os.kill(int(cluster.facts["pid"]), signal.SIGKILL)
    until(lambda: machine.running() is None, "the killed process has ended")
    assert any("httpd" in trace for trace in left(state))
    done = manage("down")
    assert done.returncode == 0, done.stderr
    assert left(state) == []
    assert host_settings() == before


def test_a_killed_cluster_is_followed_by_a_new_one_that_has_the_images(state: Path) -> None:
    first = start(state)
    first.run_pod("one", first.push_web_image())
    os.kill(int(first.facts["pid"]), signal.SIGKILL)
    until(lambda: machine.running() is None, "the killed process has ended")
    second = start(state)
    assert not second.client.exists("one")
    pod = second.run_pod("two", "tests/web:1")
    assert get(f"http://{pod['status']['podIP']}:8080/") == "hello from a Pod\n"


def test_a_second_cluster_is_refused_with_a_sentence(state: Path) -> None:
    cluster = start(state)
    done = manage("up", "--state", f"{state}/other")
    assert done.returncode == 1
    assert f"A cluster of ours already runs on this machine in {state} (process {cluster.facts['pid']})" in done.stderr


def test_ctrl_c_stops_it(state: Path) -> None:
    cluster = start(state)
    os.kill(int(cluster.facts["pid"]), signal.SIGINT)
    until(lambda: machine.running() is None, "it has ended")
    until(lambda: left(state) == [], "nothing is left", limit=5)
    assert manage("status").returncode == 3
