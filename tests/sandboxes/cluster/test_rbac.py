"""The account of deploy/base/rbac.yaml may do exactly what the client does: nothing missing, nothing unused."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
import yaml

from sandboxes.cluster.client import ClusterClient
from sandboxes.cluster.errors import Gone
from sandboxes.cluster.manifest import manifest
from tests.conftest import ROOT
from tests.sandboxes.pods import SPEC

from .conftest import Kube

type Right = tuple[str, str, str, str]
"""Verb, resource, namespace, name: "" for any."""

CALLS: dict[str, Callable[[ClusterClient], Any]] = {
    "uid": lambda api: api.uid(),
    "create": lambda api: api.create(manifest(SPEC)),
    "exists": lambda api: api.exists(SPEC.name),
    "read": lambda api: api.read(SPEC.name),
    "patch_image": lambda api: api.patch_image(SPEC.name, "another:1"),
    "why_not_started": lambda api: api.why_not_started("uid"),
    "list_pods": lambda api: api.list_pods(),
    "watch": lambda api: next(api.watch(api.list_pods()[1])),
    "delete": lambda api: api.delete(SPEC.name),
}
NO_CALLS = {"call", "send"}
"""What the others are made of."""


@pytest.fixture(scope="module")
def documents() -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((ROOT / "deploy" / "base" / "rbac.yaml").read_text()))


def rights(documents: list[dict[str, Any]]) -> set[Right]:
    found: set[Right] = set()
    for role in documents:
        for rule in role.get("rules", []):
            assert rule["apiGroups"] == [""]
            places = [role["metadata"].get("namespace", "")], rule.get("resourceNames", [""])
            found |= set(product(rule["verbs"], rule["resources"], *places))
    return found


def test_the_roles_are_the_clients_calls(kube: Kube, documents: list[dict[str, Any]]) -> None:
    for name, call in CALLS.items():
        if name == "watch":
            kube.api.create(manifest(SPEC) | {"metadata": {**manifest(SPEC)["metadata"], "name": "another"}})
        with contextlib.suppress(Gone):
            call(kube.api)
    asked = {tuple(call[:4]) for call in kube.process.call("GET", "/localkube/calls")}
    assert rights(documents) == asked


def test_no_call_of_the_client_is_left_out() -> None:
    public = {name for name, _ in inspect.getmembers(ClusterClient, inspect.isfunction) if not name.startswith("_")}
    assert public - NO_CALLS == set(CALLS)


def test_every_role_is_bound_to_the_account_and_to_nobody_else(documents: list[dict[str, Any]]) -> None:
    by_kind: dict[str, list[dict[str, Any]]] = {}
    for each in documents:
        by_kind.setdefault(each["kind"], []).append(each)
    (account,) = by_kind["ServiceAccount"]
    subject = {"kind": "ServiceAccount"} | {key: account["metadata"][key] for key in ("name", "namespace")}
    for kind in ("Role", "ClusterRole"):
        (role,), (binding,) = by_kind[kind], by_kind[f"{kind}Binding"]
        assert binding["subjects"] == [subject]
        assert (binding["roleRef"]["kind"], binding["roleRef"]["name"]) == (kind, role["metadata"]["name"])
        assert binding["metadata"].get("namespace") == role["metadata"].get("namespace")
    assert {each["metadata"]["name"] for each in by_kind["Namespace"]} == {"agentbox", account["metadata"]["namespace"]}
