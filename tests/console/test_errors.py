from __future__ import annotations

import pytest
from django.test import Client

from pools.models import Team

pytestmark = pytest.mark.django_db


def test_an_unknown_address_is_a_page_of_ours(client: Client) -> None:
    answer = client.get("/nowhere")
    assert answer.status_code == 404
    assert "To the overview" in answer.content.decode()


def test_a_page_that_breaks_says_so_in_our_looks(signed_in, team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(team_id: int) -> None:
        raise RuntimeError("broken on purpose")

    monkeypatch.setattr("console.pages.read", broken)
    client = signed_in("viewer")
    client.raise_request_exception = False
    answer = client.get("/t/rl-research/")
    assert answer.status_code == 500
    assert "It has been logged" in answer.content.decode()


def test_a_form_without_its_token_is_refused_with_the_way_out(signed_in, team: Team) -> None:
    client = Client(enforce_csrf_checks=True)
    client.cookies = signed_in("operator").cookies
    answer = client.post("/sign-out")
    assert answer.status_code == 403
    assert "reload the page" in answer.content.decode()


def test_a_host_that_is_not_ours_is_a_bad_request(client: Client) -> None:
    assert client.get("/", headers={"host": "evil.example"}).status_code == 400
