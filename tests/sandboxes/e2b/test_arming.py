"""201 means usable: a sandbox that does not take its claim is replaced within the claim's time."""

from __future__ import annotations

import socket

import httpx
import pytest

from sandboxes.models import Claim, Event, Sandbox
from tests.sandboxes.edge_fixtures import World
from tests.sandboxes.edges import StandIn, loopback_address


def create(world: World, **body: object) -> httpx.Response:
    wanted = {"templateID": "base", **body}
    return httpx.post(f"{world.edge.url}/v2/sandboxes", json=wanted, headers={"X-API-Key": world.key}, timeout=30)


def test_one_that_does_not_arm_is_replaced(world: World, stand_in: StandIn) -> None:
    world.idle_many(3, stand_in.ip)
    stand_in.refuse = 2
    answer = create(world)
    assert answer.status_code == 201
    dirty = Sandbox.objects.filter(end_reason="not_armed")
    assert dirty.count() == 2
    assert set(dirty.values_list("state", flat=True)) == {"stopping"}
    assert Event.objects.filter(kind="not_armed", text__contains="it answered 500").count() == 2
    assert Claim.objects.get().sandbox_id == answer.json()["sandboxID"]


def test_one_that_nobody_serves_is_replaced(world: World, stand_in: StandIn) -> None:
    world.idle_many(1, loopback_address())
    world.idle_many(1, stand_in.ip)
    assert create(world).status_code == 201


def test_when_none_arms_nothing_is_kept(world: World) -> None:
    world.idle_many(2, loopback_address())
    answer = create(world, metadata={"startup-timeout": "1"})
    assert answer.status_code == 503
    assert set(Sandbox.objects.values_list("state", flat=True)) == {"stopping"}
    assert Claim.objects.get().state == "expired"


@pytest.mark.timeout(60)
def test_one_that_hangs_is_replaced_within_seconds(world: World, stand_in: StandIn) -> None:
    with socket.create_server((loopback_address(), 49983)) as silent:
        world.idle_many(1, silent.getsockname()[0])
        world.idle_many(1, stand_in.ip)
        assert create(world).status_code == 201


def test_a_deadline_that_the_daemon_cannot_be_told_is_not_promised(world: World, stand_in: StandIn) -> None:
    world.idle_many(1, stand_in.ip)
    sandbox_id = create(world, timeout=60).json()["sandboxID"]
    before = Sandbox.objects.get().end_at
    stand_in.refuse = 1
    url = f"{world.edge.url}/sandboxes/{sandbox_id}/timeout"
    answer = httpx.post(url, json={"timeout": 600}, headers={"X-API-Key": world.key}, timeout=30)
    assert (answer.status_code, answer.headers["should-retry"]) == (503, "true")
    assert Sandbox.objects.get().end_at == before
    assert httpx.post(url, json={"timeout": 600}, headers={"X-API-Key": world.key}, timeout=30).status_code == 204


def test_the_same_idempotency_key_gives_the_same_sandbox(world: World, stand_in: StandIn) -> None:
    world.idle_many(3, stand_in.ip)
    headers = {"X-API-Key": world.key, "Idempotency-Key": "run-7-episode-3"}
    url = f"{world.edge.url}/v2/sandboxes"
    first = httpx.post(url, json={"templateID": "base", "timeout": 60}, headers=headers, timeout=30)
    again = httpx.post(url, content=b'{"timeout":60,"templateID":"base"}', headers=headers, timeout=30)
    assert first.status_code == again.status_code == 201
    assert first.json() == again.json()
    assert Sandbox.objects.filter(state="claimed").count() == 1
    other = httpx.post(url, json={"templateID": "base", "timeout": 61}, headers=headers, timeout=30)
    assert (other.status_code, other.json()["error_code"]) == (409, "idempotency_request_mismatch")
    assert other.headers["should-retry"] == "false"
    bad = httpx.post(url, json={"templateID": "base"}, headers=headers | {"Idempotency-Key": "a b"}, timeout=30)
    assert bad.status_code == 400
    assert "Idempotency-Key" in bad.json()["message"]
