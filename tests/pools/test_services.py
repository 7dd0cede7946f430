from __future__ import annotations

import pytest

from pools import keys, services
from pools.errors import Conflict, Invalid, InvalidDocument
from pools.models import AuditEntry
from tests.factories import make_env, make_group, make_team, make_user

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


def test_an_envs_template_is_set_as_a_whole_and_audited() -> None:
    env = make_env()
    first = {"nodeSelector": {"zone": "a"}, "runtimeClassName": "gvisor"}
    services.edit_env(env=env, actor="mira", generation=1, template=first)
    changed = services.edit_env(env=env, actor="mira", generation=2, template={"nodeSelector": {"zone": "b"}})
    assert (changed.generation, changed.pod_template) == (3, {"nodeSelector": {"zone": "b"}})
    newest = AuditEntry.objects.order_by("-id")[0]
    assert (newest.verb, newest.before) == ("env.update", {"pod_template": first})


def test_a_template_that_changes_nothing_is_no_revision_and_an_older_one_is_refused() -> None:
    env = make_env(pod_template={"nodeSelector": {"zone": "a"}})
    same = services.edit_env(env=env, actor="a", generation=1, template={"nodeSelector": {"zone": "a"}})
    assert same.generation == 1
    assert not AuditEntry.objects.exists()
    services.edit_env(env=env, actor="a", generation=1, template={})
    with pytest.raises(Conflict, match="load it again"):
        services.edit_env(env=env, actor="b", generation=1, template={"nodeSelector": {"zone": "c"}})


def test_a_template_that_weakens_isolation_changes_nothing_and_names_each_field() -> None:
    env = make_env(make_team("rl"))
    bad = {"hostNetwork": True, "imagePullSecrets": [{"name": "evals.registry"}]}
    with pytest.raises(InvalidDocument, match=r"^podTemplate.hostNetwork: ") as refusal:
        services.edit_env(env=env, actor="x", generation=1, template=bad)
    fields = [field for field, _ in refusal.value.problems]
    assert fields == ["podTemplate.hostNetwork", "podTemplate.imagePullSecrets[0].name"]
    env.refresh_from_db()
    assert env.pod_template == {}
