"""What a person sees: one log stream with a coloured label for each process, and the progress of the start."""

from __future__ import annotations

import itertools
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

if TYPE_CHECKING:
    from rich.progress import TaskID

COLOURS = ["cyan", "magenta", "green", "yellow", "blue", "bright_cyan", "bright_magenta", "bright_green"]
OWN = "up"


class Screen:
    def __init__(self, names: list[str]) -> None:
        self.console = Console(highlight=False, soft_wrap=True)
        self.width = max(map(len, [OWN, *names]))
        self.colours = dict(zip(names, itertools.cycle(COLOURS), strict=False))
        self.began = time.monotonic()
        self.began_at = datetime.now(UTC)
        self.waiting = list(names)
        self.total = len(names)
        self.progress: Progress | None = None
        self.task: TaskID | None = None

    def line(self, name: str, text: str, style: str = "") -> None:
        """One line of a process, without what a terminal could take for a command."""
        printable = text.replace("\x1b", "").rstrip()
        label = Text(f"{name:<{self.width}} │ ", self.colours.get(name, "bold"))
        self.console.print(label.append(printable, style or "none"))

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
