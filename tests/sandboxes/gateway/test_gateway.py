"""The gateway as a caller sees it: where it leads, what it hides, what it answers for a sandbox that is gone."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import httpx
import pytest
from e2b import Sandbox

from sandboxes import models
from sandboxes.tokens import access_token
from tests.sandboxes.edge_fixtures import World
from tests.sandboxes.edges import wait_until

START = "/process.Process/Start"


@pytest.fixture
def http() -> Iterator[httpx.Client]:
    with httpx.Client(timeout=10) as client:
        yield client


@pytest.fixture
def sandbox(world: World) -> Sandbox:
    world.idle()
    return world.create()


def host(sandbox: Sandbox, port: int = 49983) -> dict[str, str]:
    return {"Host": f"{port}-{sandbox.sandbox_id}.example.com"}


def test_a_host_name_leads_to_the_daemon(world: World, sandbox: Sandbox, http: httpx.Client) -> None:
    assert http.get(f"{world.edge.url}/health", headers=host(sandbox)).status_code == 204


def test_the_daemon_wants_the_token(world: World, sandbox: Sandbox, http: httpx.Client) -> None:
    url = f"{world.edge.url}/envs"
    assert http.get(url, headers=host(sandbox)).status_code == 401
    assert http.get(url, headers=host(sandbox) | {"X-Access-Token": "wrong"}).json()["code"] == 401
    right = host(sandbox) | {"X-Access-Token": access_token(sandbox.sandbox_id)}
    assert http.get(url, headers=right).status_code == 200


def test_signed_file_urls_need_no_header(world: World, sandbox: Sandbox, http: httpx.Client) -> None:
    path = f"/tmp/signed-{sandbox.sandbox_id}"
    sandbox.files.write(path, "signed")
    url = httpx.URL(sandbox.download_url(path, use_signature_expiration=60))
    answer = http.get(f"{world.edge.url}{url.raw_path.decode()}", headers=host(sandbox))
    assert (answer.status_code, answer.text) == (200, "signed")
    forged = f"{world.edge.url}/files?path=/etc/passwd&signature=v1_forged"
    assert http.get(forged, headers=host(sandbox)).status_code == 401
    assert http.get(f"{world.edge.url}/files?path={path}", headers=host(sandbox)).status_code == 401


def test_what_is_for_the_edge_alone_is_hidden(world: World, sandbox: Sandbox, http: httpx.Client) -> None:
    headers = host(sandbox) | {"X-Access-Token": access_token(sandbox.sandbox_id)}
    for path in ("/init", "/freeze", "/upgrade", "//init", "/./init", "/%69nit", "/INIT", "/x/../init"):
        request = http.build_request("POST", world.edge.url, headers=headers, json={"deadline": 1})
        request.url = httpx.URL(world.edge.url).copy_with(raw_path=path.encode())
        assert http.send(request).status_code == 404


def test_relay_headers_of_a_caller_are_dropped(world: World, sandbox: Sandbox, http: httpx.Client) -> None:
    smuggled = {"X-Envd-Relay-Port": "1", "X-Envd-Relay-Token": access_token(sandbox.sandbox_id)}
    assert http.get(f"{world.edge.url}/health", headers=host(sandbox) | smuggled).status_code == 204


def test_a_browser_may_ask_first(world: World, sandbox: Sandbox, http: httpx.Client) -> None:
    asks = {
        "Origin": "https://me.example",
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "x-access-token",
    }
    answer = http.options(f"{world.edge.url}{START}", headers=host(sandbox) | asks)
    assert answer.status_code == 204
    assert answer.headers["access-control-allow-headers"] == "x-access-token"
    assert http.get(f"{world.edge.url}/health", headers=host(sandbox)).headers["access-control-allow-origin"] == "*"


def test_a_sandbox_that_is_gone_is_not_found(world: World, sandbox: Sandbox, http: httpx.Client) -> None:
    sandbox.kill()
    answer = http.get(f"{world.edge.url}/health", headers=host(sandbox))
    assert answer.status_code == 502
    assert answer.json() == {"sandboxId": sandbox.sandbox_id, "message": "The sandbox was not found", "code": 502}


def test_an_unknown_sandbox_is_not_found(world: World, http: httpx.Client) -> None:
    answer = http.get(f"{world.edge.url}/", headers={"E2b-Sandbox-Id": "i" + "0" * 20, "E2b-Sandbox-Port": "8000"})
    assert (answer.status_code, answer.json()["message"]) == (502, "The sandbox was not found")


def test_an_unclaimed_sandbox_is_not_found(world: World, http: httpx.Client) -> None:
    row = world.idle()
    headers = {"E2b-Sandbox-Id": row.id, "X-Access-Token": access_token(row.id)}
    assert http.get(f"{world.edge.url}/health", headers=headers).status_code == 502


def test_an_expired_sandbox_is_not_found_whatever_its_row_says(
    world: World, sandbox: Sandbox, http: httpx.Client
) -> None:
    models.Sandbox.objects.update(end_at=datetime.now(UTC) + timedelta(seconds=1))
    wait_until(lambda: http.get(f"{world.edge.url}/health", headers=host(sandbox)).status_code == 502, 4)
    assert models.Sandbox.objects.get().state == "claimed"


def test_a_row_that_changed_behind_redis_is_seen_within_a_second(
    world: World, sandbox: Sandbox, http: httpx.Client
) -> None:
    assert sandbox.is_running()
    models.Sandbox.objects.update(state="stopping", end_reason="killed")
    wait_until(lambda: not sandbox.is_running(), 3)


def test_people_get_a_page(world: World, http: httpx.Client) -> None:
    headers = {"Host": f"8000-{'i' + '0' * 20}.example.com", "Accept": "text/html,application/xhtml+xml"}
    answer = http.get(f"{world.edge.url}/", headers=headers)
    assert answer.status_code == 502
    assert answer.headers["content-type"].startswith("text/html")
    assert "The sandbox was not found" in answer.text


def test_a_bad_host_is_refused(world: World, http: httpx.Client) -> None:
    for name in ("0-abc.x", "70000-abc.x", "80-A_B.x"):
        answer = http.get(world.edge.url, headers={"Host": name})
        assert answer.status_code == 400
        assert "Invalid sandbox" in answer.json()["message"]


def test_a_daemon_that_died_is_a_closed_port(world: World, sandbox: Sandbox, http: httpx.Client) -> None:
    models.Sandbox.objects.update(pod_ip="127.79.255.254")
    wait_until(lambda: http.get(f"{world.edge.url}/health", headers=host(sandbox)).status_code == 502, 3)
    answer = http.get(f"{world.edge.url}/health", headers=host(sandbox))
    assert answer.json()["message"] == "The sandbox is running but port is not open"
    assert answer.json()["port"] == 49983
