"""GET /templates: the team's envs as the SDK and CLI see templates; they are made in the console, not here."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid5

from pools.models import Env

from .answers import Answer, Refusal
from .call import Call
from .details import ENVD_VERSION, timestamp

BUILDS = UUID("6f1d5a0e-6a41-4c0b-9d0e-2f5a7c1b9e33")
"""Namespace of build ids: the CLI wants one, and an env's image is the only thing that was ever built."""


async def list_templates(call: Call) -> Answer:
    return Answer(200, await call.control.database.run(templates, call.key.team_id))


async def list_none(call: Call) -> Answer:
    return Answer(200, [])


async def alias(call: Call) -> Answer:
    """GET /templates/aliases/{alias}: whether the team has such an env."""
    template = await call.control.catalog.template(call.key.team_id, call.params["alias"])
    return Answer(200, {"templateID": template.name, "public": False})


async def delete_template(call: Call) -> Answer:
    """404 for an unknown one, as the SDK expects; a known one is deleted in the console, with its pools."""
    call.key.check_operates()
    template = await call.control.catalog.template(call.key.team_id, call.params["template"])
    raise Refusal(501, f"The env {template.name} can be deleted in the console only.")


def templates(team_id: int) -> list[dict[str, Any]]:
    envs = Env.objects.filter(team_id=team_id).select_related("default_group__instance_type")
    return [template(env) for env in envs.order_by("name")]


def template(env: Env) -> dict[str, Any]:
    group = (
        env.default_group or env.groups.select_related("instance_type").order_by("instance_type__cost", "id").first()
    )
    shape = group.instance_type if group else None
    made = timestamp(env.created_at)
    return {
        "templateID": env.name,
        "buildID": str(uuid5(BUILDS, f"{env.pk}:{env.image}")),
        "aliases": [env.name],
        "names": [env.name],
        "cpuCount": max(1, round(shape.cpu_millis / 1000)) if shape else 1,
        "memoryMB": shape.memory_mib if shape else 0,
        "diskSizeMB": shape.disk_mib if shape else 0,
        "public": False,
        "createdAt": made,
        "updatedAt": made,
        "createdBy": None,
        "lastSpawnedAt": None,
        "spawnCount": 0,
        "buildCount": 1,
        "buildStatus": "ready",
        "envdVersion": ENVD_VERSION,
    }
