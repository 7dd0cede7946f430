"""The first rows: teams, people, keys, and an env with two shapes. Running it again changes nothing that exists."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand
from django.db import transaction

from console.up.checks import write_private
from pools import keys
from pools.models import ApiKey, Cluster, Env, InstanceType, Membership, Pool, Quota, Role, ScalingGroup, Team, User

IMAGE = "agentbox/base:1"
DOCS = "A small Linux with Python. Files live in /home/user; run anything you like."
PEOPLE = {"admin": Role.ADMIN, "operator": Role.OPERATOR, "viewer": Role.VIEWER}
QUOTAS = {"rl-research": 200, "evals": 20}
KEYS = {"demo_key": "rl-research", "evals_key": "evals"}


class Command(BaseCommand):
    help = "Make the demo's rows; those that exist stay as they are."

    @transaction.atomic
    def handle(self, *args: Any, **options: Any) -> None:
        teams = {name: team(name, quota) for name, quota in QUOTAS.items()}
        people = {name: person(name) for name in PEOPLE}
        for name, user in people.items():
            for member_of in teams.values():
                Membership.objects.get_or_create(user=user, team=member_of, defaults={"role": PEOPLE[name]})
        for file, name in KEYS.items():
            key(settings.VAR_DIR / file, teams[name], people["admin"])
        base(teams["rl-research"])


def team(name: str, quota: int) -> Team:
    found, _ = Team.objects.get_or_create(name=name)
    Quota.objects.get_or_create(team=found, defaults={"max_sandboxes": quota})
    return found


def person(name: str) -> User:
    """Their password is in `var/<name>_password`; a changed one stays changed."""
    superuser = PEOPLE[name] == Role.ADMIN
    found, made = User.objects.get_or_create(
        username=name, defaults={"is_staff": superuser, "is_superuser": superuser, "first_name": name.title()}
    )
    password = kept(settings.VAR_DIR / f"{name}_password", lambda: secrets.token_urlsafe(9))
    if made:
        found.set_password(password)
        found.save(update_fields=["password"])
    return found


def key(file: Path, owner: Team, creator: User) -> None:
    secret = kept(file, keys.new_api_key)
    words = {"team": owner, "name": file.name.replace("_", " "), "hint": secret[:8], "created_by": creator}
    ApiKey.objects.get_or_create(digest=keys.key_digest(secret), defaults=words)


def base(owner: Team) -> None:
    """The env `base`: a small shape that keeps 8 claimable, and a large one on demand.

    A demo's sandboxes mostly wait, so they reserve little: 64 of them fit on a machine with two CPUs and 16 GiB.
    """
    env, _ = Env.objects.get_or_create(team=owner, name="base", defaults={"image": IMAGE, "docs": DOCS})
    cluster, _ = Cluster.objects.get_or_create(name="local", defaults={"namespace": settings.POD_NAMESPACE})
    small = shape(
        env, cluster, "small", instance("1c1g", (1000, 20), (1024, 128), 1), {"max_replicas": 64, "min_idle": 8}
    )
    shape(env, cluster, "large", instance("2c4g", (2000, 40), (4096, 512), 3), {"max_replicas": 16, "min_idle": 0})
    if env.default_group_id is None:
        env.default_group = small
        env.save(update_fields=["default_group"])


def instance(name: str, cpu_millis: tuple[int, int], memory_mib: tuple[int, int], cost: int) -> InstanceType:
    """Of CPU and memory: what a sandbox may use, and what of it is reserved."""
    values = {
        "cpu_millis": cpu_millis[0],
        "cpu_request_millis": cpu_millis[1],
        "memory_mib": memory_mib[0],
        "memory_request_mib": memory_mib[1],
        "cost": cost,
    }
    return InstanceType.objects.get_or_create(name=name, defaults=values)[0]


def shape(env: Env, cluster: Cluster, name: str, instance_type: InstanceType, bounds: dict[str, int]) -> ScalingGroup:
    words = {"instance_type": instance_type, **bounds}
    group, _ = ScalingGroup.objects.get_or_create(env=env, name=name, defaults=words)
    Pool.objects.get_or_create(group=group, cluster=cluster, defaults={"name": str(group)})
    return group


def kept(file: Path, make: Callable[[], str]) -> str:
    """The secret in the file; made once, readable by its owner only."""
    if not file.exists():
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_private(file, make() + "\n")
    return file.read_text().strip()
