"""Claims of idle sandboxes at a steady rate, and what one life costs in CPU, by process."""

from __future__ import annotations

from collections import Counter
from statistics import median

from tests.stack import Stack

from . import cpu
from .sizes import resize
from .table import Row, console, show, waits
from .trainers import trainers

RATES = (20, 50, 100)
RUNS = 3
SECONDS = 8.0
LIFE = 2.0


async def measure(stack: Stack) -> None:
    resize(stack, "small", ceiling=3000, idle=400)
    for rate in RATES:
        taken, lives, costs = [], 0, []
        failures: Counter[str] = Counter()
        for _ in range(RUNS):
            before = cpu.seconds(stack)
            async with trainers(stack.demo()) as load:
                await load.steady(rate, SECONDS, LIFE)
            costs.append(cpu.spent(before, cpu.seconds(stack)))
            taken.append(load.outcome.waits)
            failures += load.outcome.failures
            lives = round(rate * SECONDS)
        report(rate, taken, lives, costs, failures)


def report(
    rate: int, taken: list[list[float]], lives: int, costs: list[dict[str, float]], failures: Counter[str]
) -> None:
    by_process = {name: median(1000 * cost[name] / lives for cost in costs) for name in cpu.NAMES}
    ours = sum(value for name, value in by_process.items() if name != "localkube")
    promised = rate == max(RATES)
    rows = list(waits("claim", taken, *((15.0, 100.0) if promised else (None, None))))
    rows.append(Row("CPU of a life, all but localkube", ours, 12.0 if promised else None))
    rows += [Row(f"    {name}", value) for name, value in by_process.items()]
    show(f"{rate} creates/s for {SECONDS:g} s, median of {RUNS} runs, simulated Pods, refill on", rows)
    for reason, count in failures.items():
        console.print(f"  [red]{count} x {reason}[/]")
