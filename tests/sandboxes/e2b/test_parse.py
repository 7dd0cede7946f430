"""What a create and a list ask for, field by field."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandboxes.e2b.answers import Refusal
from sandboxes.e2b.parse import Order, digest, parse_create, parse_idempotency_key
from sandboxes.e2b.query import ListQuery, parse_list


def test_the_smallest_order() -> None:
    assert parse_create({"templateID": "base"}) == Order("base", "", None, {}, {}, 55.0)


def test_unknown_keys_and_harmless_settings_are_accepted() -> None:
    body = {
        "templateID": "base",
        "secure": True,
        "autoPause": False,
        "autoResume": {"enabled": False},
        "allow_internet_access": True,
        "network": {"allowOut": [], "allowPublicTraffic": True},
        "iam": {"tokens": []},
        "mcp": None,
        "volumeMounts": [],
        "somethingNew": 1,
    }
    assert parse_create(body).template == "base"


@pytest.mark.parametrize("order", [{"templateID": "base//large"}, {"metadata": {"agentbox/scaling-group": "large"}}])
def test_a_scaling_group_is_named_in_two_ways(order: dict[str, Any]) -> None:
    assert parse_create({"templateID": "base"} | order).group == "large"


@pytest.mark.parametrize(
    "order", [{"templateID": "base//a.example:5000/b@sha256:0f"}, {"metadata": {"agentbox/image": "python"}}]
)
def test_an_image_is_named_in_two_ways(order: dict[str, Any]) -> None:
    parsed = parse_create({"templateID": "base"} | order)
    assert (parsed.template, parsed.group) == ("base", "")
    assert parsed.image in ("a.example:5000/b@sha256:0f", "python")


@pytest.mark.parametrize("name", ["startup-timeout", "agentbox/startup-timeout", "agentbox.scitix.ai/startup-timeout"])
def test_a_caller_may_wait_longer(name: str) -> None:
    assert parse_create({"templateID": "base", "metadata": {name: "600"}}).wait == 600.0


BAD = [
    ({}, "templateID"),
    ({"templateID": 7}, "templateID"),
    ({"templateID": "x" * 256}, "templateID"),
    ({"timeout": 0}, "timeout"),
    ({"timeout": -1}, "timeout"),
    ({"timeout": 1.5}, "timeout"),
    ({"timeout": "60"}, "timeout"),
    ({"timeout": True}, "timeout"),
    ({"timeout": 10**40}, "timeout"),
    ({"metadata": []}, "metadata"),
    ({"metadata": {"a": 1}}, "metadata"),
    ({"metadata": {"a": "\0"}}, "metadata"),
    ({"metadata": {"\ud800": "x"}}, "metadata"),
    ({"metadata": {"a": "x" * 70_000}}, "metadata"),
    ({"metadata": {str(number): "" for number in range(201)}}, "metadata"),
    ({"metadata": {"startup-timeout": "601"}}, "metadata.startup-timeout"),
    ({"metadata": {"startup-timeout": "0"}}, "metadata.startup-timeout"),
    ({"metadata": {"startup-timeout": "soon"}}, "metadata.startup-timeout"),
    ({"metadata": {"agentbox/image": "-x"}}, "image"),
    ({"metadata": {"agentbox/image": "a b"}}, "image"),
    ({"metadata": {"agentbox/image": "x" * 256}}, "image"),
    ({"templateID": "base//:latest"}, "image"),
    ({"envVars": "A=1"}, "envVars"),
    ({"envVars": {"A": None}}, "envVars"),
    ({"envVars": {"A=B": "1"}}, "envVars"),
    ({"envVars": {"": "1"}}, "envVars"),
    ({"autoPause": True}, "autoPause"),
    ({"autoResume": {"enabled": True}}, "autoResume"),
    ({"autoResume": True}, "autoResume"),
    ({"mcp": {"github": {}}}, "mcp"),
    ({"volumeMounts": [{"name": "a", "path": "/a"}]}, "volumeMounts"),
    ({"allow_internet_access": False}, "allow_internet_access"),
    ({"network": {"denyOut": ["0.0.0.0/0"]}}, "network.denyOut"),
    ({"network": {"allowPublicTraffic": False}}, "network.allowPublicTraffic"),
    ({"network": "none"}, "network"),
    ({"iam": {"tokens": [{"name": "a"}]}}, "iam"),
]


@pytest.mark.parametrize(("change", "field"), BAD)
def test_a_wrong_field_is_named(change: dict[str, Any], field: str) -> None:
    body = change if not change or "templateID" in change else {"templateID": "base"} | change
    with pytest.raises(Refusal) as caught:
        parse_create(body)
    assert caught.value.status == 400
    assert caught.value.message.startswith(f"{field}: ")


@pytest.mark.parametrize("key", ["", "a" * 256, "ä", "a b", "a/b"])
def test_a_bad_idempotency_key_is_refused(key: str) -> None:
    with pytest.raises(Refusal):
        parse_idempotency_key(key)


def test_the_digest_is_of_the_meaning() -> None:
    assert digest({"a": 1, "b": {"c": 2, "d": 3}}) == digest({"b": {"d": 3, "c": 2}, "a": 1})
    assert digest({"a": 1}) != digest({"a": 2})


@given(
    st.dictionaries(
        st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1),
        st.text(st.characters(codec="utf-8", exclude_characters="\0")),
        min_size=1,
        max_size=4,
    )
)
def test_the_sdks_three_encodings_are_undone(metadata: dict[str, str]) -> None:
    decoded_once = urlencode({quote(key): quote(value) for key, value in metadata.items()})
    assert dict(parse_list({"metadata": decoded_once}).metadata) == metadata


def test_the_observed_filter_is_understood() -> None:
    assert parse_list({"metadata": "a%2520b=c%2526d%253D%25C3%25A9"}).metadata == (("a b", "c&d=é"),)


def test_states_come_joined_by_a_comma() -> None:
    assert parse_list({}).wants_running
    assert parse_list({"state": "running%2Cpaused"}).wants_running
    assert parse_list({"state": "running,paused"}).wants_running
    assert not parse_list({"state": "paused"}).wants_running


def test_a_cursor_brings_back_its_row() -> None:
    moment = datetime(2026, 11, 29, 12, 0, 0, 123456, UTC)
    for order in ("asc", "desc"):
        query = ListQuery(ascending=order == "asc")
        token = query.cursor_after(moment, "iabc")
        assert parse_list({"nextToken": token, "order": order}).cursor == (moment, "iabc")
    with pytest.raises(Refusal, match="other order"):
        parse_list({"nextToken": token, "order": "asc"})


@pytest.mark.parametrize("value", ["2026-01-31T12:00:00Z", "2026-01-31T13:00:00+01:00", "2026-01-31T13:00:00 01:00"])
def test_moments_are_read_with_their_offset(value: str) -> None:
    assert parse_list({"startedAfter": value}).started_after == datetime(2026, 1, 31, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("metadata", "a"),
        ("metadata", "a=b=c"),
        ("metadata", "a=%2500"),
        ("state", "stopped"),
        ("state", "running,,"),
        ("order", "up"),
        ("startedAfter", "yesterday"),
        ("template", "base:v1"),
        ("limit", "0"),
        ("limit", "101"),
        ("limit", "many"),
        ("limit", "9" * 40),
        ("nextToken", "%%%"),
        ("nextToken", "bm9wZQ=="),
        ("nextToken", "MjAyNi0wMS0wMV9fYWJj"),
    ],
)
def test_a_wrong_parameter_is_named(name: str, value: str) -> None:
    with pytest.raises(Refusal) as caught:
        parse_list({name: value})
    assert caught.value.status == 400
    assert caught.value.message.startswith(f"{name}: ")
