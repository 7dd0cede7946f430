from __future__ import annotations

from collections.abc import Iterator

import pytest

from pools.models import Pool, Team
from tests.console.web import QUICK, Web, serve
from tests.factories import make_cluster, make_env, make_group, make_pool, make_team


@pytest.fixture(scope="session")
def web(django_db_setup: None, django_db_blocker: object) -> Iterator[Web]:
    """One web process for all live tests; each test finds empty tables."""
    with serve(**QUICK) as running:
        yield running


@pytest.fixture
def team(transactional_db: None) -> Team:
    return make_team("rl-research", quota=100)


@pytest.fixture
def pool(team: Team) -> Pool:
    return make_pool(make_group(env=make_env(team, "base")), make_cluster("local"))
