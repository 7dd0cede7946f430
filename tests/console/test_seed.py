"""The first rows: complete, and the same however often they are made."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from pools.access import authenticate_key
from pools.models import ApiKey, Env, Membership, Pool, ScalingGroup, Team, User

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def var(tmp_path: Path, settings: Any) -> Path:
    settings.VAR_DIR = tmp_path
    return tmp_path


def everything() -> dict[str, list[Any]]:
    return {model.__name__: list(model.objects.order_by("pk").values()) for model in (Team, User, ApiKey, Env, Pool)}


def test_seeding_twice_changes_nothing() -> None:
    call_command("seed")
    first = everything()
    call_command("seed")
    assert everything() == first


def test_the_demo_key_opens_its_team_and_is_readable_by_its_owner_only(var: Path) -> None:
    call_command("seed")
    key = authenticate_key((var / "demo_key").read_text().strip())
    assert key is not None
    assert key.team.name == "rl-research"
    assert stat.S_IMODE((var / "demo_key").stat().st_mode) == 0o600


def test_the_admin_signs_in_with_the_password_of_the_file_and_a_changed_one_stays(var: Path) -> None:
    call_command("seed")
    admin = User.objects.get(username="admin")
    assert admin.check_password((var / "admin_password").read_text().strip())
    admin.set_password("another one that they chose")
    admin.save()
    call_command("seed")
    admin.refresh_from_db()
    assert admin.check_password("another one that they chose")


def test_the_small_shape_keeps_eight_and_may_hold_sixty_four() -> None:
    call_command("seed")
    env = Env.objects.get(name="base")
    small, large = ScalingGroup.objects.filter(env=env).order_by("instance_type__cost")
    assert (small.min_idle, small.max_replicas) == (8, 64)
    assert (large.min_idle, large.max_replicas) == (0, 16)
    assert env.default_group == small


def test_what_people_changed_stays() -> None:
    call_command("seed")
    ScalingGroup.objects.filter(name="small").update(min_idle=3)
    call_command("seed")
    assert ScalingGroup.objects.get(name="small").min_idle == 3


def test_each_role_has_a_person() -> None:
    call_command("seed")
    seats = Membership.objects.filter(team__name="rl-research").values_list("user__username", "role")
    assert dict(seats) == {"viewer": "viewer", "operator": "operator", "admin": "admin"}
