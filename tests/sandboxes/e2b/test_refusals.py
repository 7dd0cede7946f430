"""Bad input on every endpoint: a 4xx in the SDK's form that names the field; nothing of other teams shows."""

from __future__ import annotations

import json
from typing import Any

import httpx
from django.utils import timezone

from pools.models import ApiKey
from sandboxes.e2b.routes import ENDPOINTS, NOT_SUPPORTED
from sandboxes.models import Sandbox
from tests.factories import make_env, make_group, make_key, make_pool, make_sandbox, make_team
from tests.sandboxes.edge_fixtures import World
from tests.sandboxes.edges import wait_until

UNSUPPORTED = [line.split(" ") for line in NOT_SUPPORTED.strip().split("\n")]
WITH_BODY = ["/v2/sandboxes", "/sandboxes", *(f"/sandboxes/X/{verb}" for verb in ("timeout", "connect", "refreshes"))]

WRONG_DEADLINES: list[tuple[str, dict[str, Any], str]] = [
    ("timeout", {}, "timeout"),
    ("timeout", {"timeout": -1}, "timeout"),
    ("timeout", {"timeout": 1.5}, "timeout"),
    ("timeout", {"timeout": "1"}, "timeout"),
    ("timeout", {"timeout": 10**9}, "timeout"),
    ("timeout", {"timeout": 86_500}, "timeout"),
    ("connect", {"timeout": -5}, "timeout"),
    ("connect", {"timeout": 86_500}, "timeout"),
    ("connect", {"timeout": []}, "timeout"),
    ("refreshes", {}, "duration"),
    ("refreshes", {"duration": 3601}, "duration"),
    ("refreshes", {"duration": "x"}, "duration"),
]


def concrete(path: str, sandbox_id: str = "i" + "0" * 20) -> str:
    for name in ("sandbox", "template", "alias", "hash", "build", "tag", "volume", "secret", "team"):
        path = path.replace(f"{{{name}}}", sandbox_id if name == "sandbox" else "thing")
    return path


def check(answer: httpx.Response, status: int, *parts: str) -> None:
    assert answer.status_code == status, answer.text
    body = answer.json()
    assert body["code"] == status
    for part in parts:
        assert part in body["message"]


def test_every_endpoint_wants_a_key(world: World) -> None:
    with httpx.Client(base_url=world.edge.url) as anybody:
        for method, path, _ in ENDPOINTS:
            check(anybody.request(method, concrete(path)), 401, "X-API-Key")
            wrong = {"X-API-Key": "e2b_" + "0" * 40}
            check(anybody.request(method, concrete(path), headers=wrong), 401, "unknown or revoked")


def test_what_we_lack_is_501(api: httpx.Client) -> None:
    for method, path in UNSUPPORTED:
        check(api.request(method, concrete(path), content=b""), 501, "not supported")


def test_an_unknown_path_is_404(api: httpx.Client) -> None:
    for path in ("/nope", "/v3/sandboxes", "/sandboxes/a/b/c", "/sandboxes//timeout", "/", "/{}"):
        check(api.get(path), 404, "no endpoint")


def test_a_wrong_method_is_405(api: httpx.Client) -> None:
    for method, path in (("PUT", "/v2/sandboxes"), ("GET", "/sandboxes/x/timeout")):
        answer = api.request(method, path)
        check(answer, 405)
        assert "POST" in answer.headers["allow"]


def test_a_body_that_is_no_object_is_400(world: World, api: httpx.Client) -> None:
    sandbox = make_sandbox(world.pool, "claimed")
    for path in WITH_BODY:
        for body in (b"{", b"[]", b'"x"', b"\xff\xfe", b"[" * 100_000, b"nul"):
            check(api.post(path.replace("X", sandbox.id), content=body), 400, "body")


def test_a_large_body_is_413(api: httpx.Client) -> None:
    def pieces() -> Any:
        for _ in range(20):
            yield b" " * 65536

    for path in WITH_BODY:
        check(api.post(path, content=b" " * (1 << 20) + b"{}"), 413, "body")
        check(api.post(path, content=pieces()), 413, "body")


def test_a_wrong_deadline_is_refused_by_name(world: World, api: httpx.Client) -> None:
    sandbox = make_sandbox(world.pool, "claimed")
    for verb, body, field in WRONG_DEADLINES:
        check(api.post(f"/sandboxes/{sandbox.id}/{verb}", json=body), 400, f"{field}: ")
    assert Sandbox.objects.get().end_at == sandbox.end_at


def test_a_longer_life_than_the_env_allows_names_the_limit(world: World, api: httpx.Client) -> None:
    check(api.post("/v2/sandboxes", json={"templateID": "base", "timeout": 86_401}), 400, "timeout: ", "86400")


def test_unknown_templates_and_groups_say_what_exists(world: World, api: httpx.Client) -> None:
    check(api.post("/v2/sandboxes", json={"templateID": "nope"}), 404, "There are: base.")
    check(api.post("/v2/sandboxes", json={"templateID": "base//huge"}), 404, "It has: 1c2g.")
    make_env(world.team, name="empty")
    wait_until(lambda: api.post("/v2/sandboxes", json={"templateID": "empty"}).status_code == 400)
    check(api.post("/v2/sandboxes", json={"templateID": "empty"}), 400, "no scaling group")


def test_a_wrong_parameter_is_refused_by_name(world: World, api: httpx.Client) -> None:
    for query in ("limit=0", "state=x", "order=x", "metadata=x", "nextToken=x", "startedAfter=x"):
        for path in ("/v2/sandboxes", "/sandboxes"):
            check(api.get(f"{path}?{query}"), 400, query.partition("=")[0])
    check(api.get("/v2/sandboxes?template=%ff"), 400, "query")
    sandbox = make_sandbox(world.pool, "claimed")
    for query in ("start=x", "end=-1", "start=9" + "9" * 20):
        check(api.get(f"/sandboxes/{sandbox.id}/metrics?{query}"), 400, query.partition("=")[0])


def test_another_teams_sandbox_is_404(world: World, api: httpx.Client) -> None:
    foreign = make_sandbox(make_pool(make_group(env=make_env(make_team(), name="base"))), "claimed")
    body = json.dumps({"timeout": 5, "duration": 5})
    for method, path, _ in ENDPOINTS:
        if "{sandbox}" in path:
            check(api.request(method, concrete(path, foreign.id), content=body), 404, "was not found")
            for odd in ("%00", "x" * 300, "%ff", "'", "i%2F.."):
                check(api.request(method, concrete(path, odd), content=body), 404)


def test_a_key_that_may_only_look_changes_nothing(world: World) -> None:
    _, viewer = make_key(world.team, role="viewer")
    sandbox = make_sandbox(world.pool, "claimed")
    with httpx.Client(base_url=world.edge.url, headers={"X-API-Key": viewer}) as api:
        assert api.get(f"/sandboxes/{sandbox.id}").status_code == 200
        check(api.post("/v2/sandboxes", json={"templateID": "base"}), 403, "operator")
        check(api.delete(f"/sandboxes/{sandbox.id}"), 403)
        check(api.post(f"/sandboxes/{sandbox.id}/timeout", json={"timeout": 1}), 403)
        check(api.post(f"/sandboxes/{sandbox.id}/connect", json={"timeout": 1}), 403)
        check(api.post(f"/sandboxes/{sandbox.id}/refreshes", json={"duration": 1}), 403)


def test_a_revoked_key_stops_working_within_seconds(world: World, api: httpx.Client) -> None:
    assert api.get("/v2/sandboxes").status_code == 200
    ApiKey.objects.update(revoked_at=timezone.now())
    wait_until(lambda: api.get("/v2/sandboxes").status_code == 401, 6)
