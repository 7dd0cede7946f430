"""Rows for tests: plain functions, each gives one saved object and makes what it needs around it.

    team = make_team()
    user = make_user("operator", team)
    pool = make_pool(make_group(team, max_replicas=32))
    sandbox = make_sandbox(pool, "claimed", age=90)

Needs a database (pytest's `db` or `transactional_db`). Ages are seconds before now.
"""

from __future__ import annotations

import hashlib
import itertools
import secrets
import string
from datetime import datetime, timedelta
from typing import Any

from django.contrib.auth.hashers import PBKDF2PasswordHasher
from django.utils import timezone

from pools.models import (
    ApiKey,
    Cluster,
    Env,
    InstanceType,
    Membership,
    Pool,
    Quota,
    Role,
    ScalingGroup,
    Team,
    User,
)
from sandboxes.models import LIVE_SHELF, Claim, Decision, Event, Sandbox

PASSWORD = "correct horse battery staple"
_numbers = itertools.count(1)


def ago(seconds: float) -> datetime:
    return timezone.now() - timedelta(seconds=seconds)


def new_id() -> str:
    return "i" + "".join(secrets.choice(string.ascii_lowercase + string.digits) for _ in range(20))


def make_team(name: str = "", quota: int | None = 100) -> Team:
    team = Team.objects.create(name=name or f"team-{next(_numbers)}")
    if quota is not None:
        Quota.objects.create(team=team, max_sandboxes=quota)
    return team


def make_user(role: str | None = "viewer", team: Team | None = None, name: str = "", **fields: Any) -> User:
    """Signs in with PASSWORD. `role=None` makes a person without a team."""
    user = User.objects.create(username=name or f"user-{next(_numbers)}", password=quick_hash(), **fields)
    if role is not None:
        Membership.objects.create(user=user, team=team or make_team(), role=role)
    return user


def make_superuser(name: str = "") -> User:
    return make_user(None, name=name or f"root-{next(_numbers)}", is_staff=True, is_superuser=True)


class QuickHasher(PBKDF2PasswordHasher):
    """The real one with a single round: a million cost half a second each. Tests that sign in name it in settings."""

    iterations = 1


def quick_hash() -> str:
    """Of PASSWORD."""
    return QuickHasher().encode(PASSWORD, "salt")


def make_key(team: Team, role: str = Role.OPERATOR, **fields: Any) -> tuple[ApiKey, str]:
    """The key's row and its secret."""
    secret = f"e2b_{secrets.token_hex(20)}"
    digest = hashlib.sha256(secret.encode()).hexdigest()
    key = ApiKey.objects.create(team=team, name="test", digest=digest, hint=secret[:8], role=role, **fields)
    return key, secret


def make_cluster(name: str = "", **fields: Any) -> Cluster:
    return Cluster.objects.create(name=name or f"cluster-{next(_numbers)}", **fields)


def make_instance_type(name: str = "1c2g", cpu_millis: int = 1000, memory_mib: int = 2048) -> InstanceType:
    shape = {"cpu_millis": cpu_millis, "memory_mib": memory_mib}
    return InstanceType.objects.get_or_create(name=name, defaults=shape)[0]


def make_env(team: Team | None = None, name: str = "", **fields: Any) -> Env:
    image = fields.pop("image", "python:3.13-slim")
    return Env.objects.create(team=team or make_team(), name=name or f"env-{next(_numbers)}", image=image, **fields)


def make_group(
    team: Team | None = None,
    name: str = "1c2g",
    env: Env | None = None,
    shape: InstanceType | None = None,
    **bounds: Any,
) -> ScalingGroup:
    """The first group of an env becomes its default."""
    env = env or make_env(team)
    group = ScalingGroup.objects.create(env=env, name=name, instance_type=shape or make_instance_type(), **bounds)
    if env.default_group_id is None:
        env.default_group = group
        env.save()
    return group


def make_pool(group: ScalingGroup | None = None, cluster: Cluster | None = None, **fields: Any) -> Pool:
    group = group or make_group()
    cluster = cluster or Cluster.objects.order_by("id").first() or make_cluster()
    return Pool.objects.create(group=group, cluster=cluster, name=f"{group.env.name}-{group.name}", **fields)


def sandbox_row(pool: Pool, state: str = "idle", age: float = 60, **fields: Any) -> Sandbox:
    """Unsaved, for `bulk_create`. Its phases lie evenly between `age` seconds ago and now."""
    order = ["created_at", "starting_at", "idle_at", "claimed_at", "stopping_at", "ended_at"]
    reached = {"pending": 1, "starting": 2, "idle": 3, "claimed": 4, "stopping": 5, "ended": 6}[state]
    times: dict[str, Any] = {name: ago(age * (1 - step / 6)) for step, name in enumerate(order[:reached])}
    if state == "claimed":
        times |= {"claim_id": next(_numbers), "end_at": ago(-300), "delivered_at": times["claimed_at"]}
    if state in ("stopping", "ended"):
        times |= {"end_reason": "killed", "end_actor": "test"}
    times["shelf"] = times.get("ended_at", LIVE_SHELF)
    if state not in ("pending", "starting"):
        times |= {"node": "local", "pod_ip": "127.64.0.9"}
    team = pool.group.env.team
    values = {"id": new_id(), "image": pool.group.env.image, **times, **fields}
    return Sandbox(team=team, group=pool.group, pool=pool, cluster=pool.cluster, state=state, **values)


def make_sandbox(pool: Pool | None = None, state: str = "idle", age: float = 60, **fields: Any) -> Sandbox:
    sandbox = sandbox_row(pool or make_pool(), state, age, **fields)
    sandbox.save(force_insert=True)
    return sandbox


def make_claim(group: ScalingGroup, state: str = "queued", age: float = 1, wait: float = 0.5, **fields: Any) -> Claim:
    """Arrived `age` seconds ago; bound and delivered ones after a wait of `wait` seconds."""
    times: dict[str, Any] = {"created_at": ago(age), "deadline_at": ago(age - 55)}
    if state in ("bound", "delivered"):
        times |= {"bound_at": ago(age - wait), "sandbox_id": new_id()}
    if state == "delivered":
        times["delivered_at"] = times["bound_at"]
    values = {"edge": "edge-test", "timeout": 300, **times, **fields}
    return Claim.objects.create(team=group.env.team, group=group, state=state, **values)


def make_decision(group: ScalingGroup, binding: str = "demand", age: float = 5, **fields: Any) -> Decision:
    """`binding` is one of the codes of pools.scaling."""
    values = {"want": 8, "change": 0, "sentence": "At target.", "inputs": {}, "generation": group.generation, **fields}
    return Decision.objects.create(group=group, binding=binding, at=ago(age), **values)


def make_event(sandbox: Sandbox, kind: str = "note", text: str = "Something happened.", age: float = 5) -> Event:
    return Event.objects.create(team=sandbox.team, sandbox_id=sandbox.pk, kind=kind, text=text, at=ago(age))
