"""Builds the pinned programs with Go, one after the other; what is already built is used again."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from console.up.problem import Problem

from . import binaries, tools
from .binaries import PACKAGES, Binaries

BUILD_LIMIT = 3600.0
QUESTION_LIMIT = 60.0
VERSION = "k8s.io/component-base/version"


def build(console: Console) -> Binaries:
    """All programs, built if need be."""
    given = Binaries(Path("/nowhere"), binaries.given())
    if not given.missing():
        return given
    go = tools.go(given.missing())
    found = Binaries(binaries.built_folder(version_of(go)), given.given)
    found.built.mkdir(parents=True, exist_ok=True)
    if missing := found.missing():
        build_these(go, missing, found.built, console)
    return found


def version_of(go: str) -> str:
    try:
        done = subprocess.run([go, "env", "GOVERSION"], capture_output=True, text=True, timeout=QUESTION_LIMIT)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Problem(f"{go} does not run ({error}): install Go 1.26 or newer.") from error
    if done.returncode != 0:
        raise Problem(f"{go} does not run ({done.stderr.strip()}): install Go 1.26 or newer.")
    return done.stdout.strip()


def build_these(go: str, names: list[str], folder: Path, console: Console) -> None:
    console.print(f"Building {', '.join(names)} in {folder}: about ten minutes the first time", soft_wrap=True)
    columns = (
        SpinnerColumn(),
        BarColumn(20),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=len(names))
        for name in names:
            began = time.monotonic()
            for package in build_one(go, name, folder):
                progress.update(task, description=f"{name}: {package}"[: max(20, console.width - 45)])
            progress.advance(task)
            console.print(f"{name} is built ({time.monotonic() - began:.0f} s)", soft_wrap=True)


def build_one(go: str, name: str, folder: Path) -> Iterator[str]:
    """Yields what Go is at. The program is put into its place whole."""
    with tempfile.TemporaryDirectory(dir=folder, prefix=".build") as scratch:
        target = Path(scratch) / name
        command = [go, "build", "-v", "-trimpath", "-ldflags", linking(), "-o", str(target), PACKAGES[name]]
        yield from run(command, name)
        target.rename(folder / name)


def linking() -> str:
    """Without its version a server calls itself v0.0.0, which clients take for an old one."""
    version = binaries.kubernetes_version()
    major, minor, _ = version.removeprefix("v").split(".")
    values = {"gitVersion": version, "gitMajor": major, "gitMinor": minor}
    return " ".join(["-s", "-w", *(f"-X {VERSION}.{key}={value}" for key, value in values.items())])


def run(command: list[str], name: str) -> Iterator[str]:
    environment = os.environ | {"CGO_ENABLED": "0"}
    process = subprocess.Popen(command, cwd=binaries.MODULE, env=environment, stderr=subprocess.PIPE, text=True)
    last: deque[str] = deque(maxlen=5)
    deadline = time.monotonic() + BUILD_LIMIT
    try:
        for line in process.stderr or ():
            last.append(line.strip())
            yield last[-1]
            if time.monotonic() > deadline:
                raise Problem(
                    f"{name} was not built within {BUILD_LIMIT / 60:.0f} minutes: try again, it goes on there."
                )
        code = process.wait(timeout=QUESTION_LIMIT)
    finally:
        process.kill()
        process.wait()
    if code != 0:
        raise Problem(f"{name} cannot be built: {' / '.join(last)}")
