from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from django.test import Client

from pools.models import Pool, Team
from tests.factories import make_claim, make_decision, make_group, make_pool, make_sandbox, make_team, make_user

type SignIn = Callable[[str], Client]


def figure(html: str, key: str) -> str:
    """The headline figure as read on the page."""
    box = re.search(rf'data-figure="{key}".*?</div>', html, re.DOTALL)
    assert box is not None
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", box[0]).split(">", 1)[1]).strip()


def test_the_figures_say_what_can_be_claimed_and_how_long_it_takes(signed_in: SignIn, pool: Pool) -> None:
    for state, count in {"idle": 3, "claimed": 2, "starting": 1, "ended": 4}.items():
        for _ in range(count):
            make_sandbox(pool, state)
    make_sandbox(pool, "starting", finding="no_room", finding_text="No node has 4 CPU.")
    make_claim(pool.group)
    make_claim(pool.group, "delivered", age=60, wait=0.02)
    html = signed_in("viewer").get("/t/rl-research/").content.decode()
    assert figure(html, "claimable") == "Claimable now 3 idle and ready"
    assert figure(html, "claimed") == "Claimed 2 of 7 live"
    assert figure(html, "queue").startswith("Queue 1 oldest waits")
    assert figure(html, "waits") == "Claim wait p50 / p99 20 ms / 20 ms 1 claim in 15 min"
    assert figure(html, "stuck") == "Stuck 1 1 cause"
    assert "No room in the cluster" in html
    assert "No node has 4 CPU." in html


def test_the_pools_state_is_the_reason_not_the_phase(signed_in: SignIn, pool: Pool) -> None:
    make_decision(pool.group, "ceiling", sentence="The ceiling leaves room for 0.")
    make_claim(pool.group)
    assert "At its ceiling" in signed_in("viewer").get("/t/rl-research/").content.decode()


def test_an_empty_team_is_told_the_next_step(signed_in: SignIn) -> None:
    html = signed_in("viewer").get("/t/rl-research/").content.decode()
    assert "No pools yet" in html
    assert "No live sandboxes" in html


@pytest.mark.django_db
def test_a_team_without_quota_is_warned_loudly(client: Client) -> None:
    client.force_login(make_user("viewer", make_team("poor", quota=None)))
    assert "No quota is set." in client.get("/t/poor/").content.decode()


def test_another_teams_page_looks_like_a_missing_one(signed_in: SignIn, pool: Pool) -> None:
    stranger = signed_in("stranger")
    theirs, missing = stranger.get("/t/rl-research/"), stranger.get("/t/nowhere/")
    assert theirs.status_code == missing.status_code == 404
    assert theirs.content.replace(b"rl-research", b"nowhere") == missing.content


def test_only_operators_are_offered_to_end(signed_in: SignIn, pool: Pool) -> None:
    sandbox = make_sandbox(pool, "claimed")
    link = f"/t/rl-research/sandboxes/{sandbox.pk}/end"
    assert link not in signed_in("viewer").get("/t/rl-research/").content.decode()
    assert link in signed_in("operator").get("/t/rl-research/").content.decode()


def test_the_box_on_top_finds_pools_and_sandboxes(signed_in: SignIn, pool: Pool) -> None:
    sandbox = make_sandbox(pool)
    client = signed_in("viewer")

    def found(text: str) -> str:
        return client.get("/t/rl-research/find", {"text": text}).headers["Location"]

    assert found(pool.name) == f"/t/rl-research/pools/{pool.pk}/"
    assert found(sandbox.pk) == f"/t/rl-research/sandboxes/{sandbox.pk}/"
    assert found("run=a b") == "/t/rl-research/sandboxes/?text=run%3Da+b"


def test_a_poll_gets_304_until_something_changed(signed_in: SignIn, pool: Pool) -> None:
    make_sandbox(pool, "idle")
    client = signed_in("viewer")
    first = client.get("/t/rl-research/", headers={"hx-request": "true"})
    assert first.content.startswith(b'<div id="live"')
    etag = first.headers["ETag"]
    again = client.get("/t/rl-research/", headers={"hx-request": "true", "if-none-match": etag})
    assert (again.status_code, again.content) == (304, b"")
    make_sandbox(pool, "idle")
    assert client.get("/t/rl-research/", headers={"hx-request": "true", "if-none-match": etag}).status_code == 200


def test_the_page_works_and_says_so_when_redis_is_away(
    signed_in: SignIn, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    import redis

    def away(*args: object, **kwargs: object) -> None:
        raise redis.ConnectionError("away")

    client = signed_in("viewer")
    monkeypatch.setattr(redis.connection.ConnectionPool, "get_connection", away)
    answer = client.get("/t/rl-research/")
    assert answer.status_code == 200
    assert 'data-epoch=""' in answer.content.decode()


def test_the_number_of_queries_does_not_grow_with_rows(
    signed_in: SignIn, pool: Pool, team: Team, django_assert_num_queries: Callable
) -> None:
    client = signed_in("operator")
    other = make_pool(make_group(team, "2c4g"))
    for _ in range(60):
        make_sandbox(pool, "claimed")
        make_sandbox(other, "idle")
    with django_assert_num_queries(7):  # session, user, team, role, truth, teams, one page of sandboxes
        client.get("/t/rl-research/")
