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
from .binaries import KUBERNETES, Binaries, Module

BUILD_LIMIT = 3600.0
QUESTION_LIMIT = 60.0
VERSION = "k8s.io/component-base/version"


def build(console: Console, module: Module = KUBERNETES) -> Binaries:
    """All programs of the module, built if need be."""
    given = Binaries(Path("/nowhere"), binaries.given(), module)
    if not given.missing():
        return given
    go = tools.go(given.missing())
    found = Binaries(binaries.built_folder(module, version_of(go)), given.given, module)
    found.built.mkdir(parents=True, exist_ok=True)
    if missing := found.missing():
        build_these(go, missing, found, console)
    return found


def version_of(go: str) -> str:
    try:
        done = subprocess.run([go, "env", "GOVERSION"], capture_output=True, text=True, timeout=QUESTION_LIMIT)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Problem(f"{go} does not run ({error}): install Go 1.26 or newer.") from error
    if done.returncode != 0:
        raise Problem(f"{go} does not run ({done.stderr.strip()}): install Go 1.26 or newer.")
    return done.stdout.strip()


def build_these(go: str, names: list[str], found: Binaries, console: Console) -> None:
    console.print(f"Building {', '.join(names)} in {found.built}: minutes, the first time", soft_wrap=True)
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
            for package in build_one(go, name, found):
                progress.update(task, description=f"{name}: {package}"[: max(20, console.width - 45)])
            progress.advance(task)
            console.print(f"{name} is built ({time.monotonic() - began:.0f} s)", soft_wrap=True)


def build_one(go: str, name: str, found: Binaries) -> Iterator[str]:
    """Yields what Go is at. The program is put into its place whole."""
    with tempfile.TemporaryDirectory(dir=found.built, prefix=".build") as scratch:
        target = Path(scratch) / name
        package = found.module.packages[name]
        command = [go, "build", "-v", "-trimpath", "-ldflags", linking(found.module), "-o", str(target), package]
        yield from run(command, name, found.module.folder)
        target.rename(found.built / name)


def linking(module: Module) -> str:
    """Without its version a server calls itself v0.0.0, which clients take for an old one."""
    if module is not KUBERNETES:
        return "-s -w"
    version = binaries.kubernetes_version()
    major, minor, _ = version.removeprefix("v").split(".")
    values = {"gitVersion": version, "gitMajor": major, "gitMinor": minor}
    return " ".join(["-s", "-w", *(f"-X {VERSION}.{key}={value}" for key, value in values.items())])


def run(command: list[str], name: str, folder: Path) -> Iterator[str]:
    environment = os.environ | {"CGO_ENABLED": "0"}
    process = subprocess.Popen(command, cwd=folder, env=environment, stderr=subprocess.PIPE, text=True)
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
