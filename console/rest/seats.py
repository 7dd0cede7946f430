"""Which team a call is about, and sums over its pools."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rest_framework.request import Request

from console.truth import Counts, PoolNow
from pools import access
from pools.access import Seat
from pools.errors import Invalid, NotFound
from pools.models import ApiKey, Env, Role, ScalingGroup

from .auth import caller


def seat_of(request: Request, role: Role = Role.VIEWER) -> Seat:
    """A key's team; a person's `team` parameter, or their only one."""
    who = caller(request)
    named = request.query_params.get("team", "")
    if named:
        return access.seat_for(who, named, role)
    if isinstance(who, ApiKey):
        return access.seat_for(who, who.team.name, role)
    names = list(access.teams_of(who).values_list("name", flat=True)[:2])
    if len(names) != 1:
        raise Invalid("Say which team: add ?team=NAME. /v1/auth/whoami lists yours.", field="team")
    return access.seat_for(who, names[0], role)


@dataclass
class Sum:
    """Counts, wishes and queue of some pools, with whatever they belong to."""

    counts: Counts
    want: int
    queued: int
    env: Env | None = None
    group: ScalingGroup | None = None
    group_names: tuple[str, ...] = ()


def total(pools: Iterable[PoolNow]) -> Sum:
    """Wishes and queues belong to the group: pools of one group tell them once."""
    pools = list(pools)
    groups = {pool.group_id: pool for pool in pools}.values()
    counts = sum((pool.counts for pool in pools), Counts())
    return Sum(counts, sum(pool.want or 0 for pool in groups), sum(pool.queued for pool in groups))


def env_of(seat: Seat, name: str) -> Env:
    env = Env.objects.prefetch_related("groups").filter(team=seat.team, name=name).first()
    if env is None:
        raise NotFound(f"There is no env {name} in {seat.team.name}. GET /v1/envs lists them.")
    return env


def group_of(seat: Seat, env: str, name: str) -> ScalingGroup:
    groups = ScalingGroup.objects.select_related("env__team", "instance_type")
    group = groups.filter(env__team=seat.team, env__name=env, name=name).first()
    if group is None:
        raise NotFound(f"There is no scaling group {name} of an env {env} in {seat.team.name}.")
    return group
