"""Bodies of any size pass in bounded memory, and each piece as soon as it is there."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import psutil
import pytest
from e2b import Sandbox

from sandboxes.tokens import access_token
from tests.sandboxes.edge_fixtures import World, make_world
from tests.sandboxes.edges import Daemon, Edge

SIZE = 256 << 20
PIECE = b"x" * (1 << 18)
GROWTH = 48 << 20


@pytest.fixture
def world(start_edge: Callable[..., Edge], start_daemon: Callable[[str], Daemon]) -> World:
    """An edge of its own, whose memory is nobody else's."""
    return make_world(start_edge(), start_daemon)


@pytest.fixture
def sandbox(world: World) -> Sandbox:
    world.idle()
    return world.create(timeout=120)


@pytest.fixture
def path(sandbox: Sandbox) -> Iterator[str]:
    file = Path(f"/tmp/large-{sandbox.sandbox_id}")
    yield str(file)
    file.unlink(missing_ok=True)


@pytest.fixture
def growth(world: World, sandbox: Sandbox) -> Iterator[Callable[[], int]]:
    """How far the edge's memory has risen above its start, at most."""
    edge, ended = psutil.Process(world.edge.process.pid), threading.Event()
    start = peak = edge.memory_info().rss

    def look() -> None:
        nonlocal peak
        while not ended.wait(0.02):
            peak = max(peak, edge.memory_info().rss)

    thread = threading.Thread(target=look)
    thread.start()
    yield lambda: peak - start
    ended.set()
    thread.join()


def headers(sandbox: Sandbox) -> dict[str, str]:
    token = access_token(sandbox.sandbox_id)
    mine = {"Content-Type": "application/octet-stream", "Accept-Encoding": "identity"}
    return mine | {"E2b-Sandbox-Id": sandbox.sandbox_id, "X-Access-Token": token}


def test_a_large_file_goes_in_and_out(world: World, sandbox: Sandbox, path: str, growth: Callable[[], int]) -> None:
    url = f"{world.edge.url}/files?path={path}"
    pieces = (PIECE for _ in range(SIZE // len(PIECE)))
    answer = httpx.post(url, content=pieces, headers=headers(sandbox), timeout=60)
    assert answer.status_code == 200, answer.text
    assert Path(path).stat().st_size == SIZE
    with httpx.stream("GET", url, headers=headers(sandbox), timeout=60) as answer:
        assert sum(len(piece) for piece in answer.iter_raw()) == SIZE
    assert growth() < GROWTH


def test_a_slow_reader_slows_the_sandbox(world: World, sandbox: Sandbox, path: str, growth: Callable[[], int]) -> None:
    sandbox.commands.run(f"truncate -s {SIZE} {path}")
    with httpx.stream("GET", f"{world.edge.url}/files?path={path}", headers=headers(sandbox)) as answer:
        pieces = answer.iter_raw(1024)
        for _ in range(20):
            next(pieces)
            time.sleep(0.02)
        assert growth() < GROWTH


def test_output_comes_as_it_is_made(sandbox: Sandbox) -> None:
    moments: list[float] = []
    command = "for i in 1 2 3; do echo $i; sleep 0.3; done"
    sandbox.commands.run(command, on_stdout=lambda _: moments.append(time.monotonic()))
    assert len(moments) == 3
    assert moments[-1] - moments[0] > 0.4


def test_input_goes_while_output_comes(sandbox: Sandbox) -> None:
    handle = sandbox.commands.run("cat", background=True, stdin=True)
    sandbox.commands.send_stdin(handle.pid, "over the gateway\n")
    sandbox.commands.close_stdin(handle.pid)
    assert handle.wait().stdout == "over the gateway\n"


def test_what_a_caller_left_is_dropped(world: World, sandbox: Sandbox) -> None:
    """The command runs on, as the protocol says; the connection to the daemon does not."""
    edge = psutil.Process(world.edge.process.pid)
    handle = sandbox.commands.run("sleep 20", background=True)
    before = len(edge.net_connections())
    handle.disconnect()
    until = time.monotonic() + 5
    while len(edge.net_connections()) >= before and time.monotonic() < until:
        time.sleep(0.02)
    assert len(edge.net_connections()) < before
    assert [process.pid for process in sandbox.commands.list()] == [handle.pid]
    sandbox.commands.kill(handle.pid)
