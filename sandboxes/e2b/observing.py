"""Metrics and logs of a sandbox, in the shapes that SDK, CLI and dashboard insist on (e2b-protocol 2.1, 2.5)."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any

from .answers import Answer, invalid
from .call import Call
from .details import timestamp
from .lifetime import found

FIGURES = {
    "cpuCount": "cpu_count",
    "cpuUsedPct": "cpu_used_pct",
    "memUsed": "mem_used",
    "memTotal": "mem_total",
    "memCache": "mem_cache",
    "diskUsed": "disk_used",
    "diskTotal": "disk_total",
}


async def metrics(call: Call) -> Answer:
    """The present figures as a series of one, if the asked range includes now; empty when envd does not say."""
    query = call.query()
    start, end = unix("start", query.get("start")), unix("end", query.get("end"))
    row = await found(call)
    now = time.time()
    if (start is not None and start > now) or (end is not None and end < int(now)):
        return Answer(200, [])
    figures = await call.control.envd.metrics(row.id, row.pod_ip)
    return Answer(200, [point(figures)] if figures else [])


def point(figures: dict[str, Any]) -> dict[str, Any]:
    moment = datetime.now(UTC)
    values = {name: figures.get(theirs, 0) for name, theirs in FIGURES.items()}
    return {"timestamp": timestamp(moment), "timestampUnix": int(moment.timestamp())} | values


async def metrics_of_many(call: Call) -> Answer:
    return Answer(200, {"sandboxes": {}})


async def logs(call: Call) -> Answer:
    await found(call)
    return Answer(200, {"logs": [], "logEntries": []})


async def logs_v2(call: Call) -> Answer:
    await found(call)
    return Answer(200, {"logs": []})


def unix(name: str, value: str | None) -> int | None:
    if not value:
        return None
    if not (value.isascii() and value.isdigit() and len(value) < 13):
        raise invalid(name, f"must be a time in unix seconds, not {value[:40]!r}.")
    return int(value)
