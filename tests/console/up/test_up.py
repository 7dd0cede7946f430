"""`manage.py up` as a person meets it: all real processes."""

from __future__ import annotations

import signal
import socket
import stat
import subprocess
from collections.abc import Iterator

import pytest

from tests.stack import Stack, until

pytestmark = pytest.mark.timeout(240)
LIVE = "SELECT count(*) FROM sandboxes_sandbox WHERE state <> 'ended'"


@pytest.fixture
def stack() -> Iterator[Stack]:
    stack = Stack()
    yield stack
    if not stack.ended():
        stack.stop()
    stack.remove()


def pods(stack: Stack) -> list[str]:
    from kubernetes import client, config

    api = client.CoreV1Api(config.new_client_from_config(stack.demo()["KUBECONFIG"]))
    return [pod.metadata.name for pod in api.list_namespaced_pod("agentbox", _request_timeout=5).items]


@pytest.mark.stack
@pytest.mark.namespaces
def test_it_starts_says_how_to_use_it_and_leaves_nothing_after_ctrl_c(stack: Stack) -> None:
    stack.start()
    assert stack.count("idle") >= 8
    known = stack.demo()
    assert stat.S_IMODE((stack.folder / "demo.env").stat().st_mode) == 0o600
    assert known["AGBX_URL"] == f"http://localhost:{stack.port}"
    assert all(value in stack.said() for name, value in known.items() if name not in ("KUBECONFIG", "E2B_SANDBOX_URL"))

    second = Stack()
    second.folder = stack.folder
    second.port, second.log = stack.port + 100, stack.folder / "second.log"
    second.launch()
    until(second.ended, 10)
    assert second.end(signal.SIGINT) == 1
    assert "already runs" in second.said()

    assert stack.stop() == 0
    assert stack.processes() == {}


@pytest.mark.stack
@pytest.mark.namespaces
def test_a_killed_supervisor_is_cleaned_up_after_and_the_data_is_kept(stack: Stack) -> None:
    stack.start()
    known = stack.demo()
    stack.end(signal.SIGKILL)
    stack.start()
    assert stack.demo() == known
    assert stack.count("idle") >= 8
    until(lambda: stack.query(LIVE)[0][0] == len(pods(stack)), 10, lambda: (stack.query(LIVE), pods(stack)))
    assert stack.end(signal.SIGTERM) == 0
    assert stack.processes() == {}


def test_a_taken_port_is_said_in_one_sentence(stack: Stack) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", stack.port))
        taken.listen()
        assert refusal(stack) == (
            f"manage.py up: Port {stack.port} (the web's) is taken by another program: "
            "choose another with PORT=, for example make run PORT=9000.\n"
        )


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("PORT", "http", "PORT='http' is no port number"),
        ("DATABASE_URL", "postgresql://nobody@127.0.0.1:1/x", "DATABASE_URL does not work"),
        ("REDIS_URL", "redis://127.0.0.1:1/0", "REDIS_URL does not work"),
        ("KUBECONFIG", "/nonexistent", "KUBECONFIG=/nonexistent does not work"),
        ("AGENTBOX_VAR", "/proc/agentbox", "/proc/agentbox cannot be written"),
        ("AGENTBOX_VAR", "/tmp/" + "x" * 100, "is too long for Unix sockets"),
    ],
)
def test_what_cannot_work_is_said_in_one_sentence_with_the_way_out(
    stack: Stack, name: str, value: str, sentence: str
) -> None:
    said = refusal(stack, **{name: value})
    assert sentence in said
    assert said.count("\n") == 1


def refusal(stack: Stack, **environment: str) -> str:
    """What it says when it refuses to start."""
    stack.launch(**environment)
    assert stack.process is not None
    try:
        code = stack.process.wait(30)
    except subprocess.TimeoutExpired:
        code = stack.stop()
    assert code == 1, stack.said()
    return stack.said()
