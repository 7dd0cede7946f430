"""What a person sees: one log stream with a coloured label for each process, and the progress of the start."""

from __future__ import annotations

import contextlib
import itertools
import sys
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

if TYPE_CHECKING:
    from rich.progress import TaskID

COLOURS = [36, 35, 32, 33, 34, 96, 95, 92]
STYLES = {"": "", "bold": "1", "dim": "2", "yellow": "33"}
"""As ANSI codes: rich would cost a third of a millisecond a line, and the process that logs waits meanwhile."""
OWN = "up"


class Screen:
    def __init__(self, names: list[str]) -> None:
        self.console = Console(highlight=False, soft_wrap=True)
        width = max(map(len, [OWN, *names]))
        colours = dict(zip(names, itertools.cycle(COLOURS), strict=False))
        self.labels = {name: self.styled(f"{name:<{width}} │ ", str(colours.get(name, 1))) for name in [OWN, *names]}
        self.began = time.monotonic()
        self.began_at = datetime.now(UTC)
        self.waiting = list(names)
        self.total = len(names)
        self.progress: Progress | None = None
        self.task: TaskID | None = None

    def line(self, name: str, text: str, style: str = "") -> None:
        """One line of a process, without what a terminal could take for a command."""
        line = self.labels[name] + self.styled(text.replace("\x1b", "").rstrip(), STYLES[style])
        if self.progress:
            self.console.print(Text.from_ansi(line))
            return
        with contextlib.suppress(OSError):  # nobody reads any more, which is no reason to stop
            sys.stdout.write(line + "\n")
            sys.stdout.flush()

    def styled(self, text: str, code: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if code and self.console.is_terminal else text

    def say(self, text: str, style: str = "bold") -> None:
        self.line(OWN, text, style)

    def start(self) -> None:
        if self.console.is_terminal:
            bar = (SpinnerColumn(), BarColumn(20), MofNCompleteColumn(), TimeElapsedColumn())
            self.progress = Progress(*bar, TextColumn("{task.description}"), console=self.console, transient=True)
            self.task = self.progress.add_task(self.missing(), total=self.total)
            self.progress.start()

    def ready(self, name: str) -> None:
        if name not in self.waiting:
            return
        self.waiting.remove(name)
        self.say(f"{name} is ready ({self.elapsed():.1f} s)", "dim")
        self.wait_for(self.missing())

    def wait_for(self, description: str) -> None:
        if self.progress and self.task is not None:
            self.progress.update(self.task, completed=self.total - len(self.waiting), description=description)

    def elapsed(self) -> float:
        return time.monotonic() - self.began

    def missing(self) -> str:
        return "waiting for " + ", ".join(self.waiting) if self.waiting else "almost there"

    def started(self) -> None:
        """The end of the start, good or bad: only the log goes on."""
        if self.progress:
            self.progress.stop()
            self.progress = None

    def block(self, text: str) -> None:
        """The summary: plain, to be copied."""
        self.console.print(Text(text))
