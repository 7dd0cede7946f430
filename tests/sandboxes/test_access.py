from __future__ import annotations

import pytest

from pools.errors import Forbidden, NotFound
from pools.models import Role
from sandboxes.access import sandbox_for
from tests.factories import make_sandbox, make_team, make_user

pytestmark = pytest.mark.django_db


def test_a_member_gets_live_and_ended_sandboxes() -> None:
    sandbox = make_sandbox(state="idle")
    ended = make_sandbox(sandbox.pool, "ended")
    member = make_user("viewer", sandbox.team)
    assert sandbox_for(member, sandbox.pk)[0] == sandbox
    assert sandbox_for(member, ended.pk)[0].state == "ended"


def test_strangers_get_nothing_and_viewers_may_not_act() -> None:
    sandbox = make_sandbox()
    with pytest.raises(NotFound):
        sandbox_for(make_user("admin", make_team()), sandbox.pk)
    with pytest.raises(NotFound):
        sandbox_for(make_user("admin", sandbox.team), "i" + "0" * 20)
    with pytest.raises(Forbidden):
        sandbox_for(make_user("viewer", sandbox.team), sandbox.pk, Role.OPERATOR)
