from __future__ import annotations

import pytest

from console.sandboxes import listing
from console.sandboxes.listing import Cursor, Filter
from pools.errors import Invalid
from pools.models import Pool, Team
from tests.factories import make_group, make_pool, make_sandbox, make_team


def ids(team: Team, **query: str) -> set[str]:
    return {sandbox.pk for sandbox in listing.page(team.pk, listing.parse(query))[0]}


def test_each_state_shows_its_own_and_live_shows_all_but_the_ended(team: Team, pool: Pool) -> None:
    made = {state: make_sandbox(pool, state).pk for state in ("pending", "idle", "claimed", "stopping", "ended")}
    stuck = make_sandbox(pool, "starting", finding="image").pk
    assert ids(team, state="idle") == {made["idle"]}
    assert ids(team, state="claimed") == {made["claimed"]}
    assert ids(team, state="starting") == {made["pending"]}
    assert ids(team, state="stuck") == {stuck}
    assert ids(team, state="stopping") == {made["stopping"]}
    assert ids(team, state="ended") == {made["ended"]}
    assert ids(team) == {*made.values(), stuck} - {made["ended"]}


def test_another_teams_sandboxes_are_never_listed(team: Team, pool: Pool) -> None:
    make_sandbox(make_pool(make_group(make_team())))
    mine = make_sandbox(pool).pk
    assert ids(team) == {mine}


def test_text_finds_by_id_its_beginning_node_and_metadata(team: Team, pool: Pool) -> None:
    one = make_sandbox(pool, "claimed", metadata={"run": "grpo-7"}, node="w-1")
    make_sandbox(pool, "claimed", metadata={"run": "grpo-8"}, node="w-2")
    for text in (one.pk, one.pk[:9], "w-1", "run=grpo-7", " run = grpo-7 "):
        assert ids(team, text=text) == {one.pk}
    assert ids(team, text="%") == set()


def test_pages_follow_each_other_without_gap_or_repeat_also_when_made_at_once(team: Team, pool: Pool) -> None:
    first = make_sandbox(pool)
    for _ in range(6):
        make_sandbox(pool, created_at=first.created_at)
    make_sandbox(pool, age=500)
    seen: list[str] = []
    wanted = Filter()
    while True:
        rows, following = listing.page(team.pk, wanted, 3)
        seen += [row.pk for row in rows]
        if following is None:
            break
        wanted = listing.parse({"after": str(following)})
    assert len(seen) == len(set(seen)) == 8


BAD = [
    ("state", "sleepy"),
    ("pool", "x"),
    ("pool", "9" * 30),
    ("text", "x" * 121),
    ("text", "\x00"),
    ("after", "nonsense"),
    ("after", "aGVsbG8"),
    ("after", "é"),
]


@pytest.mark.parametrize(("field", "value"), BAD)
def test_bad_filters_name_their_field(field: str, value: str) -> None:
    with pytest.raises(Invalid) as refusal:
        listing.parse({field: value})
    assert refusal.value.field == field


def test_the_filter_lives_in_the_query_string_and_a_change_starts_at_the_first_page(pool: Pool) -> None:
    sandbox = make_sandbox(pool)
    wanted = Filter("idle", 3, "w-1", Cursor(sandbox.created_at, sandbox.pk))
    assert listing.parse({"state": "idle", "pool": "3", "text": "w-1", "after": str(wanted.after)}) == wanted
    assert wanted.query() == "state=idle&pool=3&text=w-1"
    assert wanted.query(state="live", text="", pool=None) == ""
    assert "after=" in wanted.query(after=wanted.after)
