"""A rollout as a trainer runs it: each episode claims a sandbox, works in it, reads a reward, throws it away.

    set -a; . var/demo.env; set +a
    .venv/bin/python docs/examples/rollout.py --episodes 200 --in-flight 64

Every other worker uses the synchronous e2b SDK, the rest the asynchronous one, as published. The exit code is 0 only if
every episode earned its reward and no sandbox of this run is left. Ctrl-C ends the run and its sandboxes.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import secrets
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from statistics import quantiles
from typing import Any

from e2b import AsyncSandbox, Sandbox, SandboxQuery
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

TASK = "Write merge(intervals): join the intervals that overlap or touch, sorted by their start."
SOLVER = '''
from pathlib import Path

Path("solution.py").write_text("""
def merge(intervals):
    merged = []
    for start, end in sorted(intervals):
        if merged and start <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], end)
        else:
            merged.append([start, end])
    return merged
""")
'''
CHECKS = """
from pathlib import Path

from solution import merge

cases = [
    ([[1, 3], [2, 6], [8, 10]], [[1, 6], [8, 10]]),
    ([[5, 6], [1, 5]], [[1, 6]]),
    ([], []),
    ([[1, 9], [2, 3]], [[1, 9]]),
]
passed = sum(merge(given) == expected for given, expected in cases)
Path("reward.txt").write_text(str(passed / len(cases)))
"""
FOLDER = "/home/user/task"
FILES = [
    {"path": f"{FOLDER}/task.md", "data": TASK},
    {"path": f"{FOLDER}/solver.py", "data": SOLVER},
    {"path": f"{FOLDER}/checks.py", "data": CHECKS},
]
STEP_LIMIT = 60
"""Seconds for one command in a sandbox."""
CLEAN_UP_LIMIT = 30.0


@dataclass
class Run:
    """What is known about this run. Episodes add to it from threads and from the event loop."""

    template: str
    timeout: int
    progress: Progress
    id: str = field(default_factory=lambda: secrets.token_hex(6))
    waits: list[float] = field(default_factory=list)
    failures: Counter[str] = field(default_factory=Counter)
    succeeded: int = 0
    stopped: bool = False

    def metadata(self, episode: int) -> dict[str, str]:
        return {"run": self.id, "episode": str(episode)}

    def query(self) -> SandboxQuery:
        return SandboxQuery(metadata={"run": self.id})

    def check(self) -> None:
        if self.stopped:
            raise Stopped

    def fail(self, step: str, error: BaseException) -> None:
        if self.stopped:
            return  # a consequence of Ctrl-C
        text = str(error).strip().splitlines() or ["no message"]
        self.failures[f"{step}: {type(error).__name__}: {text[0]}"] += 1


class Stopped(Exception):
    """Ctrl-C was pressed while this episode ran."""


def work(sandbox: Any) -> list[tuple[str, Callable[[], Any]]]:
    """The steps in a sandbox, the last one reads the reward. Both SDKs name them alike; the asynchronous one awaits."""
    return [
        ("write the files", lambda: sandbox.files.write_files(FILES)),
        ("run the solver", lambda: sandbox.commands.run("python3 solver.py", cwd=FOLDER, timeout=STEP_LIMIT)),
        ("run the checks", lambda: sandbox.commands.run("python3 checks.py", cwd=FOLDER, timeout=STEP_LIMIT)),
        ("read the reward", lambda: sandbox.files.read(f"{FOLDER}/reward.txt")),
    ]


def episode(run: Run, number: int) -> None:
    """One episode with the synchronous SDK."""
    step, sandbox, reward = "claim", None, ""
    try:
        asked = time.monotonic()
        sandbox = Sandbox.create(run.template, timeout=run.timeout, metadata=run.metadata(number))
        run.waits.append(time.monotonic() - asked)
        for step, act in work(sandbox):  # noqa: B007 - a failure names it
            run.check()
            reward = act()
        expect_full(reward)
        step = "kill"
        sandbox.kill()
        run.succeeded += 1
    except Exception as error:  # noqa: BLE001 - every failure is counted with its reason
        run.fail(step, error)
        if sandbox is not None and step != "kill":
            kill_quietly(run, sandbox)


async def async_episode(run: Run, number: int) -> None:
    """The same with the asynchronous SDK. The sandbox of a cancelled one is left to `clean_up`."""
    step, sandbox, reward = "claim", None, ""
    try:
        asked = time.monotonic()
        sandbox = await AsyncSandbox.create(run.template, timeout=run.timeout, metadata=run.metadata(number))
        run.waits.append(time.monotonic() - asked)
        for step, act in work(sandbox):  # noqa: B007 - a failure names it
            reward = await act()
        expect_full(reward)
        step = "kill"
        await sandbox.kill()
        run.succeeded += 1
    except Exception as error:  # noqa: BLE001 - likewise
        run.fail(step, error)
        if sandbox is not None and step != "kill":
            await asyncio.to_thread(kill_quietly, run, sandbox)


def expect_full(reward: str) -> None:
    if float(reward) != 1.0:
        raise ValueError(f"the reward is {reward}, not 1.0")


def kill_quietly(run: Run, sandbox: Sandbox | AsyncSandbox) -> None:
    try:
        Sandbox.kill(sandbox.sandbox_id)
    except Exception as error:  # noqa: BLE001 - every failure is counted with its reason
        run.fail("kill after a failure", error)


async def play(run: Run, episodes: int, in_flight: int) -> None:
    """All episodes: `in_flight` workers take the next number until none is left, every other one asynchronous."""
    numbers = iter(range(episodes))
    bar = run.progress.add_task(f"run {run.id}", total=episodes)
    threads = ThreadPoolExecutor(max(1, in_flight // 2))

    async def synchronous() -> None:
        for number in taken(run, numbers):
            await asyncio.get_running_loop().run_in_executor(threads, episode, run, number)
            run.progress.advance(bar)

    async def asynchronous() -> None:
        for number in taken(run, numbers):
            await async_episode(run, number)
            run.progress.advance(bar)

    workers = itertools.islice(itertools.cycle([asynchronous, synchronous]), in_flight)
    try:
        async with asyncio.TaskGroup() as group:
            for worker in workers:
                group.create_task(worker())
    finally:
        run.stopped = True
        threads.shutdown(wait=False, cancel_futures=True)


def taken(run: Run, numbers: Iterator[int]) -> Iterator[int]:
    """The numbers still to play; none once the run was stopped."""
    for number in numbers:
        if run.stopped:
            return
        yield number


def ours(run: Run) -> list[str]:
    """The ids of this run's living sandboxes, as the API lists them."""
    paginator = Sandbox.list(query=run.query())
    found: list[str] = []
    while paginator.has_next:
        found += [info.sandbox_id for info in paginator.next_items()]
    return found


def clean_up(run: Run) -> None:
    """After a Ctrl-C: end what still lives. A claim that was in flight may turn up a moment later, so look again."""
    deadline = time.monotonic() + CLEAN_UP_LIMIT
    quiet = 0
    while quiet < 3 and time.monotonic() < deadline:
        found = ours(run)
        quiet = 0 if found else quiet + 1
        for sandbox_id in found:
            Sandbox.kill(sandbox_id)
        time.sleep(0.3)


def summary(run: Run, episodes: int, seconds: float, left: int) -> Table:
    table = Table(show_header=False, box=None, padding=(0, 2))
    table.add_row("episodes", f"{run.succeeded}/{episodes} succeeded")
    if len(run.waits) > 1:
        cuts = quantiles(run.waits, n=100, method="inclusive")
        table.add_row("claim wait", f"p50 {cuts[49]:.3f} s   p99 {cuts[98]:.3f} s")
    table.add_row("run time", f"{seconds:.1f} s   {run.succeeded / seconds:.1f} episodes/s")
    table.add_row("failures", "none" if not run.failures else str(run.failures.total()))
    for reason, count in run.failures.most_common(10):
        table.add_row("", f"{count} x {reason}")
    table.add_row("left over", str(left))
    return table


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=200)
    parser.add_argument("--in-flight", type=int, default=64, help="episodes at once: what your pool's ceiling is for")
    parser.add_argument("--template", default="base", help="the env to claim from")
    parser.add_argument("--timeout", type=int, default=300, help="a sandbox ends itself after this many seconds")
    return parser.parse_args()


def main() -> int:
    chosen = arguments()
    console = Console()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    began = time.monotonic()
    with Progress(*columns, console=console) as progress:
        run = Run(chosen.template, chosen.timeout, progress)
        try:
            asyncio.run(play(run, chosen.episodes, chosen.in_flight))
        except KeyboardInterrupt:
            run.failures["stopped by Ctrl-C"] += 1
            console.print("stopping: ending the sandboxes of this run")
            clean_up(run)
    left = len(ours(run))
    console.print(summary(run, chosen.episodes, time.monotonic() - began, left))
    return 0 if run.succeeded == chosen.episodes and left == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
