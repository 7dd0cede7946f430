"""The report: one line a figure, beside its bar."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from statistics import median, quantiles

from rich.console import Console
from rich.table import Table

console = Console() if sys.stdout.isatty() else Console(width=130)


@dataclass(frozen=True)
class Row:
    """`bar` None = no promise, shown for what it is."""

    what: str
    measured: float
    bar: float | None = None
    unit: str = "ms"
    others: tuple[str, ...] = ()
    """What somebody else measured, a text for each of the table's further columns."""

    @property
    def verdict(self) -> str:
        if self.bar is None:
            return ""
        if self.measured <= self.bar:
            return "[green]ok[/]"
        return "[yellow]misses[/]" if self.measured <= 2 * self.bar else "[red]misses by > 2x[/]"


def show(title: str, rows: Iterable[Row], others: tuple[str, ...] = ()) -> None:
    """`others` are the headings of further columns."""
    table = Table("what", "measured", "bar", "", *others, title=title, title_justify="left", title_style="bold")
    for column in [*table.columns[1:3], *table.columns[4:]]:
        column.justify = "right"
    for row in rows:
        bar = "" if row.bar is None else f"≤ {figure(row.bar)} {row.unit}"
        table.add_row(row.what, f"{figure(row.measured)} {row.unit}", bar, row.verdict, *row.others)
    console.print(table)


def figure(value: float) -> str:
    return f"{value:.0f}" if value >= 100 or value == value // 1 else f"{value:.2f}"


def percentile(values: list[float], percent: int) -> float:
    if len(values) < 2:
        return values[0] if values else float("nan")
    return quantiles(values, n=100, method="inclusive")[percent - 1]


def medians(runs: list[list[float]], percent: int) -> float:
    """The median over runs of one percentile."""
    return median(percentile(run, percent) for run in runs)


def waits(label: str, runs: list[list[float]], p50: float | None, p99: float | None) -> Iterator[Row]:
    """Rows for waits in seconds."""
    yield Row(f"{label}: p50", 1000 * medians(runs, 50), p50)
    yield Row(f"{label}: p99", 1000 * medians(runs, 99), p99)
