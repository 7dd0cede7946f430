from __future__ import annotations

from typing import Any

import pytest
import redis
from django.test import Client

from console.signin import tries
from tests.factories import PASSWORD, make_env, make_superuser, make_team, make_user

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def quick(settings: Any) -> None:
    settings.PASSWORD_HASHERS = ["tests.factories.QuickHasher"]


def sign_in(client: Client, name: str, password: str, **more: str):
    return client.post("/sign-in", {"username": name, "password": password, **more})


def test_a_stranger_is_sent_to_sign_in_and_back_again(client: Client) -> None:
    make_user("viewer", make_team("rl"), "mira")
    answer = client.get("/t/rl/?state=idle")
    assert answer.headers["Location"] == "/sign-in?next=/t/rl/%3Fstate%3Didle"
    answer = sign_in(client, "mira", PASSWORD, next="/t/rl/?state=idle")
    assert answer.headers["Location"] == "/t/rl/?state=idle"


def test_next_never_leads_to_another_site(client: Client) -> None:
    make_user("viewer", make_team("rl"), "mira")
    for elsewhere in ("https://evil.example/", "//evil.example/", "javascript:alert(1)"):
        assert sign_in(client, "mira", PASSWORD, next=elsewhere).headers["Location"] == "/"


def test_home_leads_to_the_first_team_or_says_how_to_get_one(client: Client) -> None:
    client.force_login(make_user("viewer", make_team("zeta"), "mira"))
    assert client.get("/").headers["Location"] == "/t/zeta/"
    busy = make_env(make_team("zoo")).team
    make_team("ant")
    client.force_login(make_superuser())
    assert client.get("/").headers["Location"] == f"/t/{busy}/", "one with something in it comes first"
    client.force_login(make_user(None, name="nobody"))
    assert "in no team yet" in client.get("/").content.decode()


def test_a_wrong_password_says_so_and_keeps_the_name(client: Client) -> None:
    make_user("viewer", name="mira")
    answer = sign_in(client, "mira", "wrong").content.decode()
    assert "do not fit" in answer
    assert 'value="mira"' in answer


def test_guessing_is_slowed_down_even_with_the_right_password(client: Client, monkeypatch) -> None:
    monkeypatch.setattr(tries, "MOST", 3)
    make_user("viewer", make_team(), name="mira")
    for _ in range(3):
        sign_in(client, "mira", "wrong")
    assert "Too many tries" in sign_in(client, "mira", PASSWORD).content.decode()


def test_nobody_is_locked_out_without_redis(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*args: object, **kwargs: object) -> None:
        raise redis.ConnectionError("away")

    monkeypatch.setattr(redis.connection.AbstractConnection, "connect", away)
    make_user("viewer", make_team(), name="mira")
    assert sign_in(client, "mira", PASSWORD).status_code == 302


def test_signing_out_ends_the_session(client: Client) -> None:
    client.force_login(make_user("viewer", make_team("rl")))
    assert client.get("/t/rl/").status_code == 200
    assert client.post("/sign-out").headers["Location"] == "/sign-in"
    assert client.get("/t/rl/").status_code == 302


def test_the_admin_is_for_superusers_only(client: Client) -> None:
    client.force_login(make_user("admin", is_staff=True))
    assert client.get("/admin/").status_code == 302
    client.force_login(make_superuser())
    assert client.get("/admin/").status_code == 200


def test_a_superuser_sees_every_team(client: Client) -> None:
    make_team("rl")
    client.force_login(make_superuser())
    assert client.get("/t/rl/").status_code == 200
