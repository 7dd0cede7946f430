"""The envs of a team with their scaling groups, as create needs them: read in one query, kept for a few seconds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from pools.models import Env, ScalingGroup
from sandboxes.serving.database import Database
from sandboxes.serving.recent import Recent

from .answers import Refusal, invalid

KEPT_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Template:
    """An env: what E2B calls a template. `groups` maps names to ids, the smallest shape first."""

    id: int
    name: str
    default_timeout: int
    max_timeout: int
    default_group: int | None
    groups: dict[str, int] = field(default_factory=dict)

    def group(self, name: str) -> int:
        """The scaling group called `name`, or the default one; raises Refusal 400 or 404."""
        if name:
            return self._named(name)
        if self.default_group is not None:
            return self.default_group
        if not self.groups:
            raise invalid("templateID", f"the env {self.name} has no scaling group yet. Make one in the console.")
        return next(iter(self.groups.values()))

    def _named(self, name: str) -> int:
        if name not in self.groups:
            have = ", ".join(self.groups) or "none"
            raise Refusal(404, f"The env {self.name} has no scaling group {name}. It has: {have}.")
        return self.groups[name]


type Templates = dict[str, Template]


class Catalog:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._recent: Recent[int, Templates] = Recent(self._load, KEPT_SECONDS)

    async def template(self, team_id: int, name: str) -> Template:
        """The team's env called `name`; raises Refusal 404 that says which there are."""
        templates = await self._recent.get(team_id)
        if name not in templates:
            have = ", ".join(sorted(templates)) or "none yet"
            raise Refusal(404, f"There is no env {name!r} in your team. There are: {have}.")
        return templates[name]

    async def _load(self, team_id: int) -> Templates:
        return await self._database.run(load, team_id)


def load(team_id: int) -> Templates:
    envs = Env.objects.filter(team_id=team_id).values_list(
        "id", "name", "default_timeout", "max_timeout", "default_group_id"
    )
    templates = {row[0]: Template(*row) for row in envs}
    for env_id, group_name, group_id in groups_of(templates):
        templates[env_id].groups[group_name] = group_id
    return {template.name: template for template in templates.values()}


def groups_of(env_ids: Iterable[int]) -> Iterable[tuple[int, str, int]]:
    smallest_first = ("instance_type__cost", "instance_type__memory_mib", "id")
    groups = ScalingGroup.objects.filter(env_id__in=list(env_ids)).order_by(*smallest_first)
    return groups.values_list("env_id", "name", "id")
