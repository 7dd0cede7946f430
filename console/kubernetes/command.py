"""`manage.py kubernetes build|up|down|status`."""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from console.up import checks
from console.up.options import ROOT
from console.up.problem import Problem

from . import build, cleanup, cluster, facts, machine, tools
from .binaries import KUBERNETES, KWOK, Binaries
from .place import Place

DETACH_LIMIT = 180.0
POLL = 0.1
NOT_RUNNING = 3
"""The exit code of `status`, as of an init script's."""

NOTHING = "No cluster of ours runs here."

Verb = Callable[[argparse.Namespace, Console], int]


def main(arguments: list[str]) -> int:
    """Returns the exit code: 1 with a sentence if it could not be done."""
    chosen = parser().parse_args(arguments)
    try:
        checks.platform()
        return VERBS[chosen.verb](chosen, Console(highlight=False))
    except Problem as problem:
        print(f"manage.py kubernetes {chosen.verb}: {problem}", file=sys.stderr)  # noqa: T201
        return 1
    except KeyboardInterrupt:
        return 130


def parser() -> argparse.ArgumentParser:
    described = argparse.ArgumentParser(prog="manage.py kubernetes", description="A real Kubernetes on this machine.")
    verbs = described.add_subparsers(dest="verb", required=True)
    building = verbs.add_parser("build", help="build the pinned programs, or find them built")
    building.add_argument("--kwok", action="store_true", help="also kwok, whose fake nodes tests use")
    up = verbs.add_parser("up", help="build, start and watch; Ctrl-C stops")
    up.add_argument("--detach", action="store_true", help="return when it is ready, and let it run")
    up.add_argument("--state", type=Path, default=default_state(), help="its folder (default: %(default)s)")
    verbs.add_parser("down", help="stop it, and remove what a killed one left")
    verbs.add_parser("status", help="whether it runs, and where everything is; exit code 3 if it does not run")
    return described


def default_state() -> Path:
    return Path(os.environ.get("AGENTBOX_VAR") or ROOT / "var") / "kubernetes"


def run_build(chosen: argparse.Namespace, console: Console) -> int:
    for module in [KUBERNETES, KWOK] if chosen.kwok else [KUBERNETES]:
        found = build.build(console, module)
        console.print(f"{', '.join(module.packages)}: built programs are in {found.built}", soft_wrap=True)
    return 0


def run_up(chosen: argparse.Namespace, console: Console) -> int:
    place = Place(chosen.state.absolute())
    if chosen.detach:
        start(place, console)
        return 0
    binaries = ready_to_start(place, console)
    with machine.take() as lock:
        clean(place, console)
        machine.write(lock, place)
        try:
            asyncio.run(cluster.run(binaries, place))
        finally:
            cleanup.clean(place)
    return 0


def ready_to_start(place: Place, console: Console) -> Binaries:
    tools.check()
    checks.state_folder(place.state)
    return build.build(console)


def clean(place: Place, console: Console) -> None:
    """What an earlier cluster left, here or wherever it was."""
    earlier = machine.last()
    places = {place, earlier.place} if earlier else {place}
    if left := [name for each in places for name in cleanup.clean(each)]:
        console.print(f"Ended what an earlier start left behind: {', '.join(left)}", soft_wrap=True)


def start(place: Place, console: Console) -> None:
    """Start `up` in a session of its own, and wait until it is ready."""
    ready_to_start(place, console)
    machine.take().close()  # says so if there is one already
    place.logs.mkdir(exist_ok=True)
    place.facts.unlink(missing_ok=True)
    log = place.logs / "up.log"
    command = [sys.executable, "manage.py", "kubernetes", "up", "--state", str(place.state)]
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
        )
    deadline = time.monotonic() + DETACH_LIMIT
    while not place.facts.exists():
        if process.poll() is not None or time.monotonic() > deadline:
            process.terminate()
            raise Problem(f"The cluster did not start: {last_line(log)}")
        time.sleep(POLL)
    console.print(facts.summary(place.known_facts()), soft_wrap=True)


def last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines() or ["it said nothing"]
    return lines[-1].removeprefix("manage.py kubernetes up: ")


def run_down(_chosen: argparse.Namespace, console: Console) -> int:
    stop(console)
    return 0


def stop(console: Console) -> None:
    tools.check_root()
    if holder := machine.running():
        machine.end(holder)
    with machine.take():
        last = machine.last()
        left = cleanup.clean(last.place) if last else []
        machine.RECORD.unlink(missing_ok=True)
    console.print(stopped(holder is not None, left), soft_wrap=True)


def stopped(ran: bool, left: list[str]) -> str:
    if left:
        return f"Ended what a killed cluster left behind: {', '.join(left)}"
    return "The cluster is stopped." if ran else NOTHING


def run_status(_chosen: argparse.Namespace, console: Console) -> int:
    holder = machine.running()
    known = holder.place.known_facts() if holder else {}
    if not known:
        console.print("It is starting." if holder else f"{NOTHING} `manage.py kubernetes up` starts one.")
        return NOT_RUNNING
    width = max(map(len, known))
    for name, value in known.items():
        console.print(f"{name:<{width}}  {value}", soft_wrap=True)
    return 0


VERBS: dict[str, Verb] = {"build": run_build, "up": run_up, "down": run_down, "status": run_status}
