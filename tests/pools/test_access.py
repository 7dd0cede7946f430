from __future__ import annotations

from datetime import UTC, datetime

import pytest

from pools import access
from pools.errors import Forbidden, NotFound
from pools.models import Role
from tests.factories import make_group, make_key, make_pool, make_superuser, make_team, make_user

pytestmark = pytest.mark.django_db


def test_people_see_their_teams_superusers_all_and_keys_their_own() -> None:
    mine, other = make_team("mine"), make_team("other")
    assert list(access.teams_of(make_user("viewer", mine))) == [mine]
    assert list(access.teams_of(make_superuser())) == [mine, other]
    assert list(access.teams_of(make_key(other)[0])) == [other]


ALLOWED = [
    ("viewer", "operator", False),
    ("operator", "operator", True),
    ("operator", "admin", False),
    ("admin", "viewer", True),
]


@pytest.mark.parametrize(("held", "needed", "allowed"), ALLOWED)
def test_roles_are_ordered(held: str, needed: str, allowed: bool) -> None:
    team = make_team("rl")
    for who in (make_user(held, team), make_key(team, held)[0]):
        if allowed:
            assert access.seat_for(who, "rl", Role(needed)).role == held
        else:
            with pytest.raises(Forbidden, match=f"this needs {needed}"):
                access.seat_for(who, "rl", Role(needed))


def test_foreign_objects_look_exactly_like_missing_ones() -> None:
    pool = make_pool(make_group(make_team()))
    stranger = make_user("admin", make_team())
    for getter, id_ in ((access.pool_for, pool.pk), (access.group_for, pool.group_id)):
        with pytest.raises(NotFound) as foreign:
            getter(stranger, id_)
        with pytest.raises(NotFound) as missing:
            getter(stranger, 10**9)
        assert foreign.value.message.replace(str(id_), "N") == missing.value.message.replace(str(10**9), "N")


def test_members_get_their_objects_with_their_seat() -> None:
    pool = make_pool(make_group(make_team()))
    member = make_user("operator", pool.group.env.team)
    assert access.pool_for(member, pool.pk)[0] == pool
    group, seat = access.group_for(member, pool.group_id, Role.OPERATOR)
    assert (group, seat.operates) == (pool.group, True)
    assert access.pool_for(make_superuser(), pool.pk)[1].role is Role.ADMIN


def test_a_key_opens_its_team_until_it_is_revoked() -> None:
    key, secret = make_key(make_team())
    found = access.authenticate_key(secret)
    assert found == key
    assert access.actor(found) == "key:test"
    key.refresh_from_db()
    assert key.last_used_at is not None
    key.revoked_at = datetime.now(UTC)
    key.save()
    assert access.authenticate_key(secret) is None
    assert access.authenticate_key("e2b_" + "0" * 40) is None
