"""How a sandbox looks to the SDK, and which ones it can see: claimed, delivered, before their deadline.

The same condition for every endpoint: list, info, kill and the gateway never disagree about what exists.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.conf import settings
from django.db.models import QuerySet
from django.db.models.functions import Now

from sandboxes import tokens
from sandboxes.lifecycle import State
from sandboxes.models import LIVE_SHELF, Sandbox

ENVD_VERSION = "0.5.7"
"""The feature switch of the SDKs (e2b-protocol 1.4): what our envd has."""


@dataclass(frozen=True, slots=True)
class Row:
    id: str
    pod_ip: str
    started_at: datetime
    end_at: datetime
    metadata: dict[str, str]
    template: str
    cpu_millis: int
    memory_mib: int
    disk_mib: int
    max_timeout: int


COLUMNS = (
    "id",
    "pod_ip",
    "claimed_at",
    "end_at",
    "metadata",
    "group__env__name",
    "group__instance_type__cpu_millis",
    "group__instance_type__memory_mib",
    "group__instance_type__disk_mib",
    "group__env__max_timeout",
)


def running(team_id: int) -> QuerySet[Sandbox]:
    """The team's usable sandboxes."""
    return Sandbox.objects.filter(
        team_id=team_id, state=State.CLAIMED.value, shelf=LIVE_SHELF, delivered_at__isnull=False, end_at__gt=Now()
    )


def rows(sandboxes: QuerySet[Sandbox]) -> list[Row]:
    return [Row(*values) for values in sandboxes.values_list(*COLUMNS)]


def find(team_id: int, sandbox_id: str) -> Row | None:
    if "\0" in sandbox_id:
        return None
    found = rows(running(team_id).filter(pk=sandbox_id))
    return found[0] if found else None


def listed(row: Row) -> dict[str, Any]:
    """E2B's ListedSandbox."""
    return {
        "templateID": row.template,
        "alias": row.template,
        "sandboxID": row.id,
        "clientID": "",
        "startedAt": timestamp(row.started_at),
        "endAt": timestamp(row.end_at),
        "cpuCount": max(1, round(row.cpu_millis / 1000)),
        "memoryMB": row.memory_mib,
        "diskSizeMB": row.disk_mib,
        "metadata": row.metadata,
        "state": "running",
        "envdVersion": ENVD_VERSION,
    }


def detailed(row: Row) -> dict[str, Any]:
    """E2B's SandboxDetail."""
    return listed(row) | {
        "envdAccessToken": tokens.access_token(row.id),
        "domain": settings.SANDBOX_DOMAIN,
        "lifecycle": {"autoResume": False, "onTimeout": "kill"},
    }


def created(sandbox_id: str, template: str) -> dict[str, Any]:
    """E2B's Sandbox, as create and connect answer it."""
    return {
        "templateID": template,
        "alias": template,
        "sandboxID": sandbox_id,
        "clientID": "",
        "envdVersion": ENVD_VERSION,
        "envdAccessToken": tokens.access_token(sandbox_id),
        "trafficAccessToken": None,
        "domain": settings.SANDBOX_DOMAIN,
    }


def timestamp(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
