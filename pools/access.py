"""The only getters for faces: whoever asks sees the objects of their teams, and nothing tells that others exist.

`who` is a signed-in User or the ApiKey of a request. Another team's object raises NotFound exactly like a missing one;
a role too small raises Forbidden (design section 4, Security).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from django.db.models import Q, QuerySet
from django.utils import timezone

from .errors import Forbidden, NotFound
from .keys import key_digest
from .models import ApiKey, Membership, Pool, Role, ScalingGroup, Team, User

type Who = User | ApiKey

RANKS = {Role.VIEWER: 0, Role.OPERATOR: 1, Role.ADMIN: 2}
LAST_USED_EVERY = timedelta(minutes=1)
"""`last_used_at` is written at most this often: a busy key must not write a row on every request."""


@dataclass(frozen=True)
class Seat:
    """Someone's place in a team."""

    team: Team
    role: Role

    @property
    def operates(self) -> bool:
        return allows(self.role, Role.OPERATOR)


def allows(held: Role, needed: Role) -> bool:
    return RANKS[held] >= RANKS[needed]


def actor(who: Who) -> str:
    """How audit entries and end reasons name them."""
    return f"key:{who.name}" if isinstance(who, ApiKey) else f"user:{who.username}"


def teams_of(who: Who) -> QuerySet[Team]:
    """By name; superusers see every team."""
    teams = Team.objects.order_by("name")
    if isinstance(who, ApiKey):
        return teams.filter(pk=who.team_id)
    return teams if who.is_superuser else teams.filter(memberships__user=who)


def seat_for(who: Who, name: str, role: Role = Role.VIEWER) -> Seat:
    """Their seat in the team called `name`."""
    return _checked(_seat(who, Q(name=name), f"There is no team {name}."), role)


def group_for(who: Who, group_id: int, role: Role = Role.VIEWER) -> tuple[ScalingGroup, Seat]:
    missing = f"There is no scaling group {group_id}."
    group = ScalingGroup.objects.select_related("env__team", "instance_type").filter(pk=group_id).first()
    if group is None:
        raise NotFound(missing)
    return group, seat_in(who, group.env.team_id, missing, role)


def pool_for(who: Who, pool_id: int, role: Role = Role.VIEWER) -> tuple[Pool, Seat]:
    missing = f"There is no pool {pool_id}."
    pools = Pool.objects.select_related("group__env__team", "group__instance_type", "cluster")
    pool = pools.filter(pk=pool_id).first()
    if pool is None:
        raise NotFound(missing)
    return pool, seat_in(who, pool.group.env.team_id, missing, role)


def seat_in(who: Who, team_id: int, missing: str, role: Role) -> Seat:
    """Their seat in the team that owns an object; NotFound says `missing`."""
    return _checked(_seat(who, Q(pk=team_id), missing), role)


def authenticate_key(secret: str) -> ApiKey | None:
    """The key with this secret, its team loaded, unless it is revoked."""
    key = ApiKey.objects.select_related("team").filter(digest=key_digest(secret), revoked_at=None).first()
    if key is not None:
        _note_use(key)
    return key


def _note_use(key: ApiKey) -> None:
    now = timezone.now()
    if key.last_used_at is None or now - key.last_used_at > LAST_USED_EVERY:
        ApiKey.objects.filter(pk=key.pk).update(last_used_at=now)


def _seat(who: Who, which: Q, missing: str) -> Seat:
    team = teams_of(who).filter(which).first()
    if team is None:
        raise NotFound(missing)
    return Seat(team, _role(who, team))


def _role(who: Who, team: Team) -> Role:
    if isinstance(who, ApiKey):
        return Role(who.role)
    if who.is_superuser:
        return Role.ADMIN
    return Role(Membership.objects.values_list("role", flat=True).get(user=who, team=team))


def _checked(seat: Seat, needed: Role) -> Seat:
    if not allows(seat.role, needed):
        raise Forbidden(
            f"Your role in {seat.team.name} is {seat.role.value}; this needs {needed.value}. Ask an admin of the team."
        )
    return seat
