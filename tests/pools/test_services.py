from __future__ import annotations

import pytest

from pools import keys, services
from pools.errors import Conflict, Invalid
from pools.models import AuditEntry
from tests.factories import make_group, make_team, make_user

pytestmark = pytest.mark.django_db


def test_a_key_is_shown_once_and_kept_as_a_digest() -> None:
    team = make_team()
    key, secret = services.create_api_key(team=team, name=" run 7 ", actor=make_user("admin", team))
    assert secret.startswith("e2b_")
    assert len(secret) == 44
    assert key.digest == keys.key_digest(secret)
    assert key.name == "run 7"
    assert secret not in str(AuditEntry.objects.get().after)


def test_a_key_needs_a_name() -> None:
    with pytest.raises(Invalid) as refusal:
        services.create_api_key(team=make_team(), name="  ", actor=None)
    assert refusal.value.field == "name"


def test_a_revoked_key_stays_revoked() -> None:
    team = make_team()
    user = make_user("admin", team)
    key, _ = services.create_api_key(team=team, name="x", actor=user)
    services.revoke_api_key(key=key, actor=user)
    first = key.revoked_at
    services.revoke_api_key(key=key, actor=user)
    assert key.revoked_at == first
    assert AuditEntry.objects.filter(verb="apikey.revoke").count() == 1


def test_bounds_are_set_as_a_whole_and_audited() -> None:
    group = make_group(min_idle=2)
    changed = services.edit_group(group=group, actor="mira", generation=1, min_replicas=4, max_replicas=20, min_idle=3)
    assert (changed.generation, changed.min_replicas, changed.max_replicas, changed.min_idle) == (2, 4, 20, 3)
    entry = AuditEntry.objects.get()
    assert entry.before == {"min_replicas": 0, "max_replicas": 64, "min_idle": 2}
    assert entry.after == {"min_replicas": 4, "max_replicas": 20, "min_idle": 3}


def test_an_edit_that_changes_nothing_is_no_revision() -> None:
    group = make_group()
    services.edit_group(group=group, actor="mira", generation=1, min_replicas=0, max_replicas=64, min_idle=0)
    group.refresh_from_db()
    assert group.generation == 1
    assert not AuditEntry.objects.exists()


def test_an_edit_of_an_older_revision_is_refused() -> None:
    group = make_group()
    services.edit_group(group=group, actor="a", generation=1, min_replicas=1, max_replicas=64, min_idle=0)
    with pytest.raises(Conflict, match="load it again"):
        services.edit_group(group=group, actor="b", generation=1, min_replicas=2, max_replicas=64, min_idle=0)


@pytest.mark.parametrize(
    ("bounds", "field"),
    [
        ((-1, 10, 0), "min_replicas"),
        ((11, 10, 0), "min_replicas"),
        ((0, 10, 11), "min_idle"),
        ((0, 10, -1), "min_idle"),
        ((0, -1, 0), "max_replicas"),
        ((0, 100_001, 0), "max_replicas"),
    ],
)
def test_bad_bounds_name_the_field(bounds: tuple[int, int, int], field: str) -> None:
    floor, ceiling, idle = bounds
    with pytest.raises(Invalid) as refusal:
        services.edit_group(
            group=make_group(), actor="x", generation=1, min_replicas=floor, max_replicas=ceiling, min_idle=idle
        )
    assert refusal.value.field == field
