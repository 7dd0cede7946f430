from __future__ import annotations

from typing import Any

import pytest

from console.stalls import stalls
from console.truth import read
from pools.models import Cluster, Pool, ScalingGroup, Team
from tests.factories import ago, make_group, make_pool


@pytest.fixture
def said(team: Team, pool: Pool) -> Any:
    return lambda: stalls(read(team.pk))


def test_a_cluster_nobody_looks_at_is_said(said: Any, pool: Pool) -> None:
    Cluster.objects.update(synced_at=ago(5))
    assert said() == []
    Cluster.objects.update(synced_at=ago(300))
    (sentence,) = said()
    assert sentence.startswith("Nobody has looked at cluster local for 5 min")


def test_pools_no_pass_finishes_for_are_said_with_the_reason(said: Any, pool: Pool, team: Team) -> None:
    ScalingGroup.objects.update(last_pass_at=ago(300))
    assert "pool base-1c2g for 5 min 0 s: worker or beat is not running." in said()[0]
    make_pool(make_group(team, last_pass_at=ago(200)))
    ScalingGroup.objects.update(failure="The cluster answered 500.")
    assert said() == ["No pass has finished for pool base-1c2g and 1 more for 5 min 0 s: The cluster answered 500."]
