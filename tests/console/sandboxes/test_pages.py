from __future__ import annotations

from collections.abc import Callable

import pytest
from django.test import Client

from pools.models import Pool
from sandboxes.models import Sandbox
from tests.factories import make_event, make_group, make_pool, make_sandbox, make_team

type SignIn = Callable[[str], Client]


def address(sandbox: Sandbox, tail: str = "") -> str:
    return f"/t/rl-research/sandboxes/{sandbox.pk}/{tail}"


@pytest.mark.parametrize(
    ("state", "says"),
    [("pending", "Asked for."), ("starting", "Starting."), ("idle", "Claimable."), ("claimed", "In use."),
     ("stopping", "Stopping."), ("ended", "Ended on request.")],
)  # fmt: skip
def test_a_sandboxs_page_opens_with_what_is_true_now(signed_in: SignIn, pool: Pool, state: str, says: str) -> None:
    html = signed_in("viewer").get(address(make_sandbox(pool, state))).content.decode()
    assert f"<strong>{says}</strong>" in html


def test_a_stuck_one_says_cause_and_remedy_and_its_events(signed_in: SignIn, pool: Pool) -> None:
    sandbox = make_sandbox(pool, "starting", finding="image", finding_text="Fix the env.")
    make_event(sandbox, text="Back-off pulling image")
    html = signed_in("viewer").get(address(sandbox)).content.decode()
    assert "Image not found" in html
    assert "Fix the env." in html
    assert "Back-off pulling image" in html


def test_metadata_is_text_never_markup(signed_in: SignIn, pool: Pool) -> None:
    sandbox = make_sandbox(pool, "claimed", metadata={"run": "<script>alert(1)</script>"})
    html = signed_in("viewer").get(address(sandbox)).content.decode()
    assert "run=&lt;script&gt;" in html


def test_ending_asks_first_and_then_ends(signed_in: SignIn, pool: Pool) -> None:
    sandbox = make_sandbox(pool, "claimed")
    client = signed_in("operator")
    assert "End this sandbox?" in client.get(address(sandbox, "end")).content.decode()
    sandbox.refresh_from_db()
    assert sandbox.state == "claimed"
    answer = client.post(address(sandbox, "end"), {"next": "/t/rl-research/"}, follow=True)
    assert "is ending." in answer.content.decode()
    sandbox.refresh_from_db()
    assert (sandbox.state, sandbox.end_reason) == ("stopping", "killed")
    assert sandbox.end_actor.startswith("user:")


def test_ending_twice_is_no_error(signed_in: SignIn, pool: Pool) -> None:
    sandbox = make_sandbox(pool, "ended")
    client = signed_in("operator")
    assert "over already" in client.get(address(sandbox, "end")).content.decode()
    assert client.post(address(sandbox, "end")).headers["Location"] == "/t/rl-research/sandboxes/"


def test_ending_never_leads_to_another_site(signed_in: SignIn, pool: Pool) -> None:
    sandbox = make_sandbox(pool, "claimed")
    answer = signed_in("operator").post(address(sandbox, "end"), {"next": "https://evil.example/"})
    assert answer.headers["Location"] == "/t/rl-research/sandboxes/"


def test_a_viewer_is_refused_to_end_with_the_reason(signed_in: SignIn, pool: Pool) -> None:
    sandbox = make_sandbox(pool, "claimed")
    for answer in (signed_in("viewer").get(address(sandbox, "end")), signed_in("viewer").post(address(sandbox, "end"))):
        assert answer.status_code == 403
        assert "this needs operator" in answer.content.decode()
    sandbox.refresh_from_db()
    assert sandbox.state == "claimed"


def test_another_teams_sandbox_does_not_exist(signed_in: SignIn, pool: Pool) -> None:
    foreign = make_sandbox(make_pool(make_group(make_team("others"))), "claimed")
    mine = make_sandbox(pool, "claimed")
    member, stranger = signed_in("operator"), signed_in("stranger")
    assert member.get(address(foreign)).status_code == 404
    assert member.post(address(foreign, "end")).status_code == 404
    assert stranger.get(address(mine)).status_code == 404
    assert stranger.post(address(mine, "end")).status_code == 404
    foreign.refresh_from_db()
    assert foreign.state == "claimed"


def test_the_list_shows_ended_ones_with_their_reason(signed_in: SignIn, pool: Pool) -> None:
    make_sandbox(pool, "ended", end_reason="timeout")
    html = signed_in("viewer").get("/t/rl-research/sandboxes/?state=ended").content.decode()
    assert "Deadline reached" in html


def test_a_bad_filter_is_a_page_that_says_what_to_use(signed_in: SignIn) -> None:
    answer = signed_in("viewer").get("/t/rl-research/sandboxes/?state=sleepy")
    assert answer.status_code == 400
    assert "use one of live, claimed" in answer.content.decode()


def test_an_empty_search_offers_to_clear_it(signed_in: SignIn, pool: Pool) -> None:
    html = signed_in("viewer").get("/t/rl-research/sandboxes/?text=nothing").content.decode()
    assert "No sandbox matches" in html
    assert "Clear the filter" in html


@pytest.mark.parametrize("state", ["claimed", "ended"])
def test_other_empty_states_explain(signed_in: SignIn, pool: Pool, state: str) -> None:
    html = signed_in("viewer").get(f"/t/rl-research/sandboxes/?state={state}").content.decode()
    assert "None" in html


def test_the_queries_of_a_sandboxs_page_are_counted(
    signed_in: SignIn, pool: Pool, django_assert_num_queries: Callable
) -> None:
    sandbox = make_sandbox(pool, "claimed")
    client = signed_in("operator")
    with django_assert_num_queries(10):
        client.get(address(sandbox))
