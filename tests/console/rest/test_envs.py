"""An env's template over REST."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from pools.models import AuditEntry, Env, Pool
from tests.factories import make_key, make_team

from .conftest import problem

ENV = "/v1/envs/base"
TEMPLATE = {
    "nodeSelector": {"zone": "a"},
    "env": [{"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "rl-research.hub", "key": "token"}}}],
    "resources": {"limits": {"nvidia.com/gpu": 1}},
}


def put(client: Client, document: Any, etag: str = '"1"') -> Any:
    return client.put(ENV, document, content_type="application/json", headers={"If-Match": etag})


def test_an_envs_template_is_read_and_written_as_a_whole(api: Callable[..., Client], pool: Pool) -> None:
    client = api("admin")
    read = client.get(ENV)
    assert (read.headers["ETag"], read.json()["editable"]) == ('"1"', {"podTemplate": {}})
    written = put(client, {"podTemplate": TEMPLATE})
    assert written.status_code == 200, written.content
    assert (written.headers["ETag"], written.json()["editable"]) == ('"2"', {"podTemplate": TEMPLATE})
    assert client.get("/v1/envs").json()[0]["editable"] == {"podTemplate": TEMPLATE}
    assert (AuditEntry.objects.get().actor, AuditEntry.objects.get().verb) == ("key:test", "env.update")
    assert put(client, {"podTemplate": {}}, '"2"').json()["editable"] == {"podTemplate": {}}


def test_a_template_that_weakens_isolation_is_refused_by_path(api: Callable[..., Client], pool: Pool) -> None:
    volumes = [{"name": "a", "emptyDir": {}}, {"name": "b", "hostPath": {"path": "/"}}]
    refused = problem(put(api("admin"), {"podTemplate": {"volumes": volumes, "hostPID": True}}), 400)
    assert (refused["code"], refused["field"]) == ("invalid", "podTemplate.volumes[1].hostPath")
    assert refused["detail"] == (
        "podTemplate.volumes[1].hostPath: would show the node's files to the sandbox; "
        "use emptyDir or persistentVolumeClaim."
    )
    assert [each["field"] for each in refused["errors"]] == ["podTemplate.volumes[1].hostPath", "podTemplate.hostPID"]
    assert Env.objects.get().pod_template == {}


@pytest.mark.parametrize(
    ("document", "field"),
    [
        ({}, "podTemplate"),
        ({"podTemplate": None}, "podTemplate"),
        ({"podTemplate": []}, "podTemplate"),
        ({"podTemplate": {"env": [{"name": "A", "value": "\0"}]}}, "podTemplate.env[0].value"),
        ({"podTemplate": {"\ud800": 1}}, "podTemplate.\\ud800"),
        ({"podTemplate": {}, "image": "x"}, "image"),
    ],
)
def test_a_bad_document_names_the_field(
    api: Callable[..., Client], pool: Pool, document: dict[str, Any], field: str
) -> None:
    assert problem(put(api("admin"), document), 400)["field"] == field


def test_a_write_without_or_with_an_old_revision_is_refused(api: Callable[..., Client], pool: Pool) -> None:
    client = api("admin")
    answer = client.put(ENV, {"podTemplate": {}}, content_type="application/json")
    assert "If-Match" in problem(answer, 428)["detail"]
    assert problem(put(client, {"podTemplate": {}}, '"7"'), 412)["code"] == "changed_meanwhile"


def test_only_admins_of_the_team_may_write_since_sandboxes_can_read_what_is_mounted(
    api: Callable[..., Client], pool: Pool
) -> None:
    for role in ("viewer", "operator"):
        assert api(role).get(ENV).status_code == 200
        assert "this needs admin" in problem(put(api(role), {"podTemplate": {}}), 403)["detail"]
    stranger = Client(headers={"AGENTBOX-API-KEY": make_key(make_team(), "admin")[1]})
    problem(put(stranger, {"podTemplate": {}}), 404)
