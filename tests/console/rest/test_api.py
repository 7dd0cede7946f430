from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from pools.models import AuditEntry, Pool, Team
from tests.factories import (
    make_claim,
    make_decision,
    make_group,
    make_key,
    make_pool,
    make_sandbox,
    make_team,
    make_user,
)

from .conftest import problem

GROUP = "/v1/envs/base/autoscaling/groups/1c2g"


@pytest.mark.parametrize("header", ["AGENTBOX-API-KEY", "X-API-Key"])
def test_a_key_says_who_it_is(team: Team, header: str) -> None:
    key, secret = make_key(team)
    for headers in ({header: secret}, {"Authorization": f"Bearer {secret}"}):
        assert Client(headers=headers).get("/v1/auth/whoami").json() == {
            "mode": "key",
            "user": key.name,
            "team": "rl-research",
            "role": "operator",
            "teams": [{"name": "rl-research", "role": "operator"}],
        }


def test_without_or_with_a_wrong_key_the_answer_says_what_to_send(team: Team) -> None:
    assert "AGENTBOX-API-KEY" in problem(Client().get("/v1/pools"), 401)["detail"]
    wrong = Client(headers={"X-API-Key": "e2b_" + "0" * 40}).get("/v1/pools")
    assert problem(wrong, 401)["code"] == "not_authenticated"
    assert wrong.headers["WWW-Authenticate"].startswith("Bearer")


def test_a_person_in_two_teams_has_to_say_which(team: Team, pool: Pool) -> None:
    user = make_user("viewer", team)
    make_team("second").memberships.create(user=user, role="viewer")
    client = Client()
    client.force_login(user)
    assert client.get("/v1/auth/whoami").json()["mode"] == "session"
    assert problem(client.get("/v1/pools"), 400)["field"] == "team"
    assert client.get("/v1/pools?team=rl-research").json()[0]["name"] == "base-1c2g"
    assert problem(client.get("/v1/pools?team=nowhere"), 404)["code"] == "not_found"


def test_a_persons_write_needs_the_csrf_token(team: Team, pool: Pool) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(make_user("operator", team))
    sandbox = make_sandbox(pool, "claimed")
    assert "CSRF" in problem(client.delete(f"/v1/sandboxes/{sandbox.pk}"), 403)["detail"]


def test_envs_sum_their_pools(api: Callable[..., Client], pool: Pool) -> None:
    make_pool(make_group(env=pool.group.env, name="2c4g"), pool.cluster)
    for state in ("idle", "idle", "claimed", "starting"):
        make_sandbox(pool, state)
    make_claim(pool.group)
    make_decision(pool.group, want=9)
    env = api().get("/v1/envs").json()[0]
    wanted = {"name": "base", "idleReplicas": 2, "runningReplicas": 1, "startingReplicas": 1, "pendingRequests": 1,
              "desiredReplicas": 9, "scalingGroups": ["1c2g", "2c4g"]}  # fmt: skip
    assert {name: env[name] for name in wanted} == wanted
    assert api().get("/v1/envs/base").json() == env
    assert "GET /v1/envs" in problem(api().get("/v1/envs/nothing"), 404)["detail"]


def test_a_group_is_read_and_written_as_a_whole_document(api: Callable[..., Client], pool: Pool) -> None:
    client = api()
    read = client.get(GROUP)
    assert read.headers["ETag"] == '"1"'
    assert read.json()["editable"] == {"minReplicas": 2, "maxReplicas": 64, "minIdle": 4}
    document = read.json()["editable"] | {"maxReplicas": 32}
    written = client.put(GROUP, document, content_type="application/json", headers={"If-Match": '"1"'})
    assert written.status_code == 200
    assert (written.headers["ETag"], written.json()["editable"]) == ('"2"', document)
    assert AuditEntry.objects.get().actor == "key:test"


def test_a_write_without_or_with_an_old_revision_is_refused(api: Callable[..., Client], pool: Pool) -> None:
    document = {"minReplicas": 0, "maxReplicas": 8, "minIdle": 0}
    client = api()
    answer = client.put(GROUP, document, content_type="application/json")
    assert "If-Match" in problem(answer, 428)["detail"]
    answer = client.put(GROUP, document, content_type="application/json", headers={"If-Match": '"7"'})
    assert problem(answer, 412)["code"] == "changed_meanwhile"


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"maxReplicas": "many"}, "maxReplicas"),
        ({"minReplicas": -1}, "minReplicas"),
        ({"minReplicas": 65}, "minReplicas"),
        ({"minIdle": None}, "minIdle"),
        ({"minIdle": 65}, "minIdle"),
        ({"spec": {"maxReplicas": 3}}, "spec"),
        ({"minIdle": ...}, "minIdle"),
    ],
)
def test_a_bad_document_names_the_field(
    api: Callable[..., Client], pool: Pool, change: dict[str, Any], field: str
) -> None:
    document = {"minReplicas": 2, "maxReplicas": 64, "minIdle": 4} | change
    document = {name: value for name, value in document.items() if value is not ...}
    answer = api().put(GROUP, document, content_type="application/json", headers={"If-Match": '"1"'})
    assert problem(answer, 400)["field"] == field


@pytest.mark.parametrize("body", ["{", "[]", "3", '"text"', ""])
def test_a_body_that_is_no_document_is_refused(api: Callable[..., Client], pool: Pool, body: str) -> None:
    answer = api().put(GROUP, body, content_type="application/json", headers={"If-Match": '"1"'})
    problem(answer, 400)


def test_viewers_may_read_but_not_write(api: Callable[..., Client], pool: Pool) -> None:
    client = api("viewer")
    assert client.get(GROUP).status_code == 200
    answer = client.put(GROUP, {}, content_type="application/json", headers={"If-Match": '"1"'})
    assert "this needs operator" in problem(answer, 403)["detail"]
    sandbox = make_sandbox(pool, "claimed")
    problem(client.delete(f"/v1/sandboxes/{sandbox.pk}"), 403)


def test_other_teams_objects_are_404_everywhere(api: Callable[..., Client], pool: Pool) -> None:
    sandbox = make_sandbox(pool, "claimed")
    stranger = api("admin", make_team())
    problem(stranger.get(GROUP), 404)
    problem(stranger.put(GROUP, {}, content_type="application/json", headers={"If-Match": '"1"'}), 404)
    problem(stranger.get(f"/v1/sandboxes/{sandbox.pk}"), 404)
    problem(stranger.delete(f"/v1/sandboxes/{sandbox.pk}"), 404)
    problem(stranger.get("/v1/pools?team=rl-research"), 404)
    assert stranger.get("/v1/sandboxes").json() == {"items": [], "next": None}
    sandbox.refresh_from_db()
    assert sandbox.state == "claimed"


def test_pools_show_counts_and_the_newest_decision(api: Callable[..., Client], pool: Pool) -> None:
    make_sandbox(pool, "starting", finding="image")
    make_decision(pool.group, "held", sentence="Growth waits.")
    (found,) = api().get("/v1/pools").json()
    assert (found["stuckReplicas"], found["binding"], found["sentence"]) == (1, "held", "Growth waits.")


def test_sandboxes_are_paged_by_keyset(api: Callable[..., Client], pool: Pool) -> None:
    made = {make_sandbox(pool).pk for _ in range(5)}
    client, seen, after = api(), [], ""
    for _ in range(3):
        page = client.get("/v1/sandboxes", {"limit": 2} | ({"after": after} if after else {})).json()
        seen += [item["id"] for item in page["items"]]
        after = page["next"]
    assert (set(seen), len(seen), after) == (made, 5, None)


@pytest.mark.parametrize(
    ("query", "field"),
    [("limit=0", "limit"), ("limit=1001", "limit"), ("limit=x", "limit"), ("state=sleepy", "state"),
     ("pool=x", "pool"), ("after=x", "after"), ("text=" + "x" * 200, "text")],
)  # fmt: skip
def test_bad_queries_name_their_field(api: Callable[..., Client], team: Team, query: str, field: str) -> None:
    assert problem(api().get(f"/v1/sandboxes?{query}"), 400)["field"] == field


def test_a_sandbox_is_read_and_ended(api: Callable[..., Client], pool: Pool) -> None:
    sandbox = make_sandbox(pool, "claimed", metadata={"run": "a"})
    client = api()
    found = client.get(f"/v1/sandboxes/{sandbox.pk}").json()
    assert (found["state"], found["group"], found["metadata"]) == ("claimed", "ready", {"run": "a"})
    for _ in range(2):
        answer = client.delete(f"/v1/sandboxes/{sandbox.pk}")
        assert (answer.status_code, answer.json()["state"]) == (202, "stopping")
    assert answer.json()["endActor"] == "key:test"


def test_the_quota_counts_what_is_live(api: Callable[..., Client], pool: Pool) -> None:
    make_sandbox(pool, "stopping")
    resources = {"sandboxes": {"total": 100, "used": 1, "free": 99}}
    assert api().get("/v1/quotas").json() == [{"team": "rl-research", "resources": resources}]


def test_wrong_methods_types_and_addresses_are_problems(api: Callable[..., Client], team: Team) -> None:
    client = api()
    problem(client.post("/v1/pools", {}, content_type="application/json"), 405)
    problem(client.put(GROUP, "a=1", content_type="text/plain", headers={"If-Match": '"1"'}), 404)
    assert "/v1/openapi.json" in problem(client.get("/v1/nothing/here"), 404)["detail"]


def test_the_schema_names_every_path_and_both_ways_in(client: Client) -> None:
    schema = client.get("/v1/openapi.json").json()
    assert "/v1/envs/{env}/autoscaling/groups/{name}" in schema["paths"]
    assert len(schema["paths"]) == 8
    assert set(schema["components"]["securitySchemes"]) == {"apiKey", "session"}


def test_the_number_of_queries_does_not_grow_with_rows(
    api: Callable[..., Client], pool: Pool, django_assert_num_queries: Callable[..., Any]
) -> None:
    for _ in range(30):
        make_sandbox(pool)
    client = api()
    client.get("/v1/pools")
    for address, count in (("/v1/sandboxes", 3), ("/v1/envs", 5), ("/v1/pools", 3), ("/v1/quotas", 3)):
        with django_assert_num_queries(count):
            client.get(address)
