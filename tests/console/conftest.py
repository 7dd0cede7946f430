"""A team with two pools, and browsers signed in by role."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.test import Client

from pools.models import Pool, Team
from tests.factories import make_cluster, make_env, make_group, make_pool, make_team, make_user


@pytest.fixture
def team(db: None) -> Team:
    return make_team("rl-research", quota=100)


@pytest.fixture
def pool(team: Team) -> Pool:
    group = make_group(env=make_env(team, "base"), min_replicas=2, max_replicas=64, min_idle=4)
    return make_pool(group, make_cluster("local"))


@pytest.fixture
def signed_in(team: Team) -> Callable[[str], Client]:
    """A client of a member with the role; "stranger" is an admin of another team."""

    def sign_in(role: str) -> Client:
        user = make_user("admin", make_team()) if role == "stranger" else make_user(role, team)
        client = Client()
        client.force_login(user)
        return client

    return sign_in
