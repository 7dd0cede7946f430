"""What older SDKs, the JS SDK, the CLI and browsers send and expect."""

from __future__ import annotations

from typing import Any

import httpx

from sandboxes.models import Sandbox
from tests.factories import make_group, make_instance_type, make_pool, make_sandbox
from tests.sandboxes.edge_fixtures import World
from tests.sandboxes.edges import StandIn, wait_until

TEMPLATE_KEYS = """templateID buildID cpuCount memoryMB diskSizeMB public createdAt updatedAt createdBy lastSpawnedAt
    spawnCount buildCount envdVersion aliases names buildStatus"""


def test_the_first_generation_creates_and_connects(world: World, api: httpx.Client, stand_in: StandIn) -> None:
    world.idle_many(1, stand_in.ip)
    made = api.post("/sandboxes", json={"templateID": "base", "timeout": 60, "secure": True})
    assert made.status_code == 201
    sandbox_id = made.json()["sandboxID"]
    again = api.post(f"/sandboxes/{sandbox_id}-6532622b/connect", json={"timeout": 300})
    assert (again.status_code, again.json()) == (200, made.json())


def test_a_chunked_body_is_read(world: World, api: httpx.Client, stand_in: StandIn) -> None:
    world.idle_many(1, stand_in.ip)

    def pieces() -> Any:
        yield b'{"templateID":'
        yield b'"base"}'

    assert api.post("/v2/sandboxes", content=pieces()).status_code == 201


def test_created_has_every_key_the_sdks_read(world: World, api: httpx.Client, stand_in: StandIn) -> None:
    (row,) = world.idle_many(1, stand_in.ip)
    made = api.post("/v2/sandboxes", json={"templateID": "base"}).json()
    assert made["sandboxID"] == row.id
    assert made["clientID"] == ""
    assert made["domain"] == f"localhost:{world.edge.port}"
    assert len(made["envdAccessToken"]) >= 32
    info = api.get(f"/sandboxes/{row.id}").json()
    assert info["envdAccessToken"] == made["envdAccessToken"]
    assert info["lifecycle"] == {"autoResume": False, "onTimeout": "kill"}


def test_the_env_chooses_its_default_group_and_callers_another(
    world: World, api: httpx.Client, stand_in: StandIn
) -> None:
    large = make_group(env=world.group.env, name="4c8g", shape=make_instance_type("4c8g", 4000, 8192))
    make_sandbox(make_pool(large), "idle", pod_ip=stand_in.ip)
    world.idle_many(1, stand_in.ip)
    groups = []
    for body in ({"templateID": "base"}, {"templateID": "base//4c8g"}):
        wait_until(lambda: api.get("/templates").status_code == 200)
        made = api.post("/v2/sandboxes", json=body)
        assert made.status_code == 201, made.text
        groups.append(Sandbox.objects.get(pk=made.json()["sandboxID"]).group_id)
    assert groups == [world.group.id, large.id]


def test_templates_are_complete(world: World, api: httpx.Client) -> None:
    (template,) = api.get("/templates").json()
    for key in TEMPLATE_KEYS.split():
        assert key in template
    assert (template["templateID"], template["cpuCount"], template["memoryMB"]) == ("base", 1, 2048)
    assert api.get("/default-templates").json() == []
    assert api.get("/templates/aliases/base").json()["templateID"] == "base"
    assert api.get("/templates/aliases/nope").status_code == 404
    assert api.delete("/templates/nope").status_code == 404
    assert api.delete("/templates/base").status_code == 501


def test_logs_and_metrics_have_their_shapes(world: World, api: httpx.Client) -> None:
    sandbox = make_sandbox(world.pool, "claimed", pod_ip="127.79.255.253")
    assert api.get(f"/sandboxes/{sandbox.id}/logs").json() == {"logs": [], "logEntries": []}
    assert api.get(f"/v2/sandboxes/{sandbox.id}/logs").json() == {"logs": []}
    assert api.get(f"/sandboxes/{sandbox.id}/metrics").json() == []
    assert api.get(f"/sandboxes/{sandbox.id}/metrics?start=99999999999").json() == []
    assert api.get("/sandboxes/metrics?sandbox_ids=a").json() == {"sandboxes": {}}


def test_refreshes_only_extend(world: World, api: httpx.Client, stand_in: StandIn) -> None:
    world.idle_many(1, stand_in.ip)
    made = api.post("/v2/sandboxes", json={"templateID": "base", "timeout": 60}).json()
    before = Sandbox.objects.get().end_at
    assert api.post(f"/sandboxes/{made['sandboxID']}/refreshes", json={"duration": 5}).status_code == 204
    assert Sandbox.objects.get().end_at == before
    assert api.post(f"/sandboxes/{made['sandboxID']}/refreshes", json={"duration": 600}).status_code == 204
    assert Sandbox.objects.get().end_at != before


def test_browsers_may_call_from_anywhere(world: World, api: httpx.Client) -> None:
    asks = {"Origin": "https://me.example", "Access-Control-Request-Method": "DELETE"}
    answer = api.options("/sandboxes/x", headers=asks | {"Access-Control-Request-Headers": "x-api-key"})
    assert answer.status_code == 204
    assert answer.headers["access-control-allow-headers"] == "x-api-key"
    assert api.get("/v2/sandboxes").headers["access-control-allow-origin"] == "*"


def test_probes_answer(world: World) -> None:
    for path in ("/healthz", "/health", "/readyz"):
        assert httpx.get(world.edge.url + path).status_code == 200
