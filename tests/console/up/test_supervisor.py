"""The supervisor with small programs in place of the real ones."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from signal import Signals
from typing import Any

import pytest

from console.up import leftovers, supervisor
from console.up.problem import Problem
from console.up.program import Program, Ready, at_once
from console.up.programs import when
from console.up.supervisor import Supervisor

SLEEP = "import time; time.sleep(60)"
STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(60)"
PARENT = "import subprocess, sys, time; print(subprocess.Popen(['sleep', '60']).pid, flush=True); time.sleep(60)"


class Lines:
    """A log that remembers."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str]] = []
        self.order: list[str] = []

    def line(self, name: str, text: str, style: str = "") -> None:
        self.lines.append((name, text.rstrip()))

    def say(self, text: str, style: str = "bold") -> None:
        self.line("up", text)

    def ready(self, name: str) -> None:
        self.order.append(name)

    def of(self, name: str) -> list[str]:
        return [text for who, text in self.lines if who == name]


def program(name: str, code: str, ready: Ready = at_once, **words: Any) -> Program:
    return Program(name, [sys.executable, "-c", code], dict(os.environ), ready=ready, **words)


async def until(condition: Callable[[], object], limit: float = 10) -> None:
    deadline = time.monotonic() + limit
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true in time"
        await asyncio.sleep(0.01)


@pytest.fixture
def log() -> Lines:
    return Lines()


async def test_a_program_starts_when_what_it_needs_is_ready(tmp_path: Path, log: Lines) -> None:
    mark = tmp_path / "mark"
    first = program("first", f"import time; time.sleep(0.3); open({str(mark)!r}, 'w'); {SLEEP}", when(mark.exists))
    second = program(
        "second", f"print(__import__('os').path.exists({str(mark)!r}), flush=True); {SLEEP}", after=("first",)
    )
    supervised = Supervisor([second, first], tmp_path, log)
    supervised.start()
    await until(lambda: log.of("second"))
    await supervised.stop()
    assert log.order == ["first", "second"]
    assert log.of("second") == ["True"]


async def test_a_program_that_ends_is_started_again_with_a_growing_pause(tmp_path: Path, log: Lines) -> None:
    supervised = Supervisor([program("crashes", "print('hello'); raise SystemExit(3)")], tmp_path, log)
    supervised.start()
    await until(lambda: len(log.of("up")) == 3)
    await supervised.stop()
    assert log.of("crashes")[:2] == ["hello", "hello"]
    assert [text.rpartition("again in ")[2] for text in log.of("up")] == ["0.5 s", "1 s", "2 s"]
    assert "exit code 3" in log.of("up")[0]


async def test_a_killed_program_takes_what_it_started_with_it(tmp_path: Path, log: Lines) -> None:
    supervised = Supervisor([program("parent", PARENT)], tmp_path, log)
    supervised.start()
    await until(lambda: log.of("parent"))
    grandchild = int(log.of("parent")[0])
    supervised.running["parent"].kill()
    await until(lambda: log.of("up"))
    assert leftovers.session(grandchild) == []
    await until(lambda: (leftovers.stat(grandchild) or ["Z"])[0] == "Z")
    await supervised.stop()
    assert "signal SIGKILL" in log.of("up")[0]


async def test_stages_are_stopped_in_order_and_the_stubborn_are_killed(
    tmp_path: Path, log: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "STOP_LIMIT", 0.5)
    bye = "import signal, sys, time; signal.signal(15, lambda *_: (print('bye', flush=True), sys.exit()));"
    ready = "print('up', flush=True); time.sleep(60)"
    last, first = program("last", f"{bye} {ready}", stage=2), program("first", f"{bye} {ready}", stage=0)
    supervised = Supervisor([last, program("stubborn", STUBBORN, stage=1), first], tmp_path, log)
    supervised.start()
    await until(lambda: len(log.lines) == 3)
    await supervised.stop()
    assert [name for name, text in log.lines if text == "bye"] == ["first", "last"]
    assert not supervised.running
    assert leftovers.end_all(tmp_path) == []


async def test_a_step_that_fails_says_so(tmp_path: Path, log: Lines) -> None:
    supervised = Supervisor([program("step", "raise SystemExit(4)", once=True)], tmp_path, log)
    supervised.start()
    with pytest.raises(Problem, match="step failed with exit code 4"):
        await asyncio.wait_for(asyncio.shield(supervised.failed), 10)
    await supervised.stop()


async def test_a_program_that_never_becomes_ready_says_so(
    tmp_path: Path, log: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "READY_LIMIT", 0.2)
    supervised = Supervisor([program("slow", SLEEP, when((tmp_path / "never").exists))], tmp_path, log)
    supervised.start()
    with pytest.raises(Problem, match="slow was not ready within"):
        await asyncio.wait_for(asyncio.shield(supervised.failed), 10)
    await supervised.stop()


async def test_a_line_without_end_is_cut_not_kept(tmp_path: Path, log: Lines) -> None:
    code = f"import sys; sys.stdout.write('x' * 1_000_000 + chr(10)); sys.stdout.flush(); {SLEEP}"
    supervised = Supervisor([program("chatty", code)], tmp_path, log)
    supervised.start()
    await until(lambda: sum(map(len, log.of("chatty"))) == 1_000_000)
    await supervised.stop()
    assert max(map(len, log.of("chatty"))) <= 2 * supervisor.LONGEST_LINE


async def test_leftovers_of_a_killed_supervisor_are_ended(tmp_path: Path, log: Lines) -> None:
    supervised = Supervisor([program("left", PARENT)], tmp_path, log)
    supervised.start()
    await until(lambda: log.of("left"))
    leader = supervised.running["left"].pid
    assert await asyncio.to_thread(leftovers.end_all, tmp_path) == ["left"]
    assert leftovers.session(leader) == []
    await supervised.stop()


async def test_a_pid_that_belongs_to_somebody_else_is_left_alone(tmp_path: Path) -> None:
    somebody = await asyncio.create_subprocess_exec("sleep", "60", start_new_session=True)
    leftovers.remember(tmp_path, "web", somebody.pid, Signals.SIGTERM)
    file = tmp_path / "web.pid"
    file.write_text(file.read_text().replace('"started": ', '"started": 1'))
    assert leftovers.end_all(tmp_path) == []
    assert somebody.returncode is None
    assert not file.exists()
    somebody.send_signal(signal.SIGKILL)
    await somebody.wait()
