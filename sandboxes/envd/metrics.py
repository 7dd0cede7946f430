"""`GET /metrics`: what the sandbox uses, by its control group if it has one, else by /proc (e2b-protocol.md 3.4)."""

from __future__ import annotations

import os
import time

_CGROUP = "/sys/fs/cgroup"
_NO_LIMIT = 1 << 60
_last = (0.0, 0.0)
"""When CPU time was last looked at (monotonic seconds) and how much it was (seconds)."""


def measure() -> dict[str, float]:
    """Bytes, except `cpu_used_pct`: percent of all its CPUs since the last call (at first: since the start)."""
    disk = os.statvfs("/")
    used, total, cache = _memory()
    return {
        "ts": int(time.time()),
        "cpu_count": _cpu_count(),
        "cpu_used_pct": round(_cpu_percent(), 2),
        "mem_total": total,
        "mem_used": used,
        "mem_cache": cache,
        "mem_total_mib": total >> 20,
        "mem_used_mib": used >> 20,
        "disk_used": (disk.f_blocks - disk.f_bfree) * disk.f_frsize,
        "disk_total": disk.f_blocks * disk.f_frsize,
    }


def _cpu_count() -> int:
    quota, _, period = _text(f"{_CGROUP}/cpu.max").partition(" ")
    if quota.isdigit() and period.strip().isdigit():
        return max(1, -(-int(quota) // int(period)))
    return len(os.sched_getaffinity(0))


def _cpu_percent() -> float:
    global _last
    moment, spent = time.monotonic(), _cpu_seconds()
    since, before = _last if _last[0] else (moment - _uptime(), 0.0)
    _last = (moment, spent)
    passed = max(moment - since, 1e-3)
    return min(100.0, max(0.0, (spent - before) / passed / _cpu_count() * 100))


def _cpu_seconds() -> float:
    for line in _text(f"{_CGROUP}/cpu.stat").splitlines():
        if line.startswith("usage_usec "):
            return int(line.split()[1]) / 1e6
    if nanoseconds := _text(f"{_CGROUP}/cpuacct/cpuacct.usage").strip():
        return int(nanoseconds) / 1e9
    ticks = os.sysconf("SC_CLK_TCK")
    user, nice, system, *_ = (int(each) for each in _text("/proc/stat").split("\n", 1)[0].split()[1:])
    return (user + nice + system) / ticks


def _uptime() -> float:
    return float(_text("/proc/uptime").split()[0])


def _memory() -> tuple[int, int, int]:
    """Used without cache, total, cache."""
    lines = [line.split() for line in _text("/proc/meminfo").splitlines() if line.endswith(" kB")]
    host = {name.rstrip(":"): int(kilobytes) << 10 for name, kilobytes, _ in lines}
    for usage, limit, stat, cached in (
        ("memory.current", "memory.max", "memory.stat", "file"),
        ("memory/memory.usage_in_bytes", "memory/memory.limit_in_bytes", "memory/memory.stat", "total_cache"),
    ):
        if used := _number(f"{_CGROUP}/{usage}"):
            cache = _field(f"{_CGROUP}/{stat}", cached)
            return max(0, used - cache), min(_number(f"{_CGROUP}/{limit}") or _NO_LIMIT, host["MemTotal"]), cache
    return host["MemTotal"] - host["MemAvailable"], host["MemTotal"], host.get("Cached", 0)


def _number(path: str) -> int:
    text = _text(path).strip()
    return int(text) if text.isdigit() else 0


def _field(path: str, name: str) -> int:
    return next((int(line.split()[1]) for line in _text(path).splitlines() if line.startswith(f"{name} ")), 0)


def _text(path: str) -> str:
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
