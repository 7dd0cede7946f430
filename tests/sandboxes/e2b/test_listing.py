"""Lists: pages by keyset, filters that never let everything through, and only what is really usable."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import httpx
import pytest
from django.utils import timezone
from e2b import Sandbox, SandboxQuery

from sandboxes import models
from tests.factories import make_env, make_group, make_pool, make_sandbox, make_team
from tests.sandboxes.edge_fixtures import World


@pytest.fixture
def rows(world: World) -> list[models.Sandbox]:
    """Five running ones, the oldest first; two started in the same microsecond."""
    now = timezone.now()
    made = []
    for number, age in enumerate([50, 40, 30, 30, 10]):
        metadata = {"number": str(number), "parity": "odd" if number % 2 else "even", "a b": "c&d=é"}
        moment = now - timedelta(seconds=age)
        made.append(make_sandbox(world.pool, "claimed", claimed_at=moment, metadata=metadata))
    return sorted(made, key=lambda row: (row.claimed_at, row.id))


def ids(answer: httpx.Response) -> list[str]:
    assert answer.status_code == 200, answer.text
    return [row["sandboxID"] for row in answer.json()]


def pages(api: httpx.Client, **query: Any) -> list[str]:
    found: list[str] = []
    token = ""
    for _ in range(10):
        answer = api.get("/v2/sandboxes", params=query | ({"nextToken": token} if token else {}))
        found += ids(answer)
        token = answer.headers.get("x-next-token", "")
        if not token:
            return found
    raise AssertionError("the list does not end")


def test_pages_show_every_row_once(api: httpx.Client, rows: list[models.Sandbox]) -> None:
    oldest_first = [row.id for row in rows]
    for limit in (1, 2, 5, 100):
        assert pages(api, limit=limit) == oldest_first[::-1]
        assert pages(api, limit=limit, order="asc") == oldest_first


def test_a_row_has_what_the_sdk_needs(api: httpx.Client, rows: list[models.Sandbox]) -> None:
    row = api.get("/v2/sandboxes", params={"limit": 1}).json()[0]
    assert row["state"] == "running"
    assert (row["templateID"], row["alias"], row["clientID"], row["envdVersion"]) == ("base", "base", "", "0.5.7")
    assert (row["cpuCount"], row["memoryMB"], row["diskSizeMB"]) == (1, 2048, 1024)
    assert row["startedAt"].endswith("Z")
    assert row["metadata"]["number"] == "4"


def test_the_sdk_filters_by_metadata(world: World, rows: list[models.Sandbox]) -> None:
    def found(**metadata: str) -> list[str]:
        query = SandboxQuery(metadata=metadata)
        paginator = Sandbox.list(query=query, limit=1, api_key=world.key, api_url=world.edge.url)
        seen = []
        while paginator.has_next:
            seen += [info.sandbox_id for info in paginator.next_items()]
        return seen

    by_number = {row.metadata["number"]: row.id for row in rows}
    assert sorted(found(parity="odd")) == sorted([by_number["1"], by_number["3"]])
    assert found(parity="odd", number="3") == [by_number["3"]]
    assert len(found(**{"a b": "c&d=é"})) == 5
    assert found(parity="odd", number="2") == []
    assert found(nothing="like this") == []


def test_other_filters_narrow_the_list(api: httpx.Client, rows: list[models.Sandbox]) -> None:
    def found(**query: Any) -> list[str]:
        return ids(api.get("/v2/sandboxes", params=query))

    assert found(template="nope") == []
    assert len(found(template="base")) == 5
    assert found(state="paused") == []
    assert len(found(state="running,paused")) == 5
    assert rows[2].claimed_at is not None
    assert len(found(startedAfter=rows[2].claimed_at.isoformat())) == 3


def test_only_usable_sandboxes_of_the_own_team_are_listed(
    world: World, api: httpx.Client, rows: list[models.Sandbox]
) -> None:
    foreign = make_pool(make_group(env=make_env(make_team(), name="base")))
    make_sandbox(foreign, "claimed")
    for state in ("pending", "starting", "idle", "stopping", "ended"):
        make_sandbox(world.pool, state)
    make_sandbox(world.pool, "claimed", delivered_at=None)
    make_sandbox(world.pool, "claimed", end_at=timezone.now())
    assert sorted(pages(api)) == sorted(row.id for row in rows)
    assert sorted(ids(api.get("/sandboxes"))) == sorted(row.id for row in rows)
    assert api.get("/v2/sandboxes", params={"limit": 1}).headers["x-total-running"] == "5"


def test_the_last_page_names_no_next_one(api: httpx.Client, rows: list[models.Sandbox]) -> None:
    assert "x-next-token" not in api.get("/v2/sandboxes", params={"limit": 5}).headers
    assert "x-next-token" in api.get("/v2/sandboxes", params={"limit": 4}).headers
