"""Targets, Connect messages and headers: the pure parts of the gateway."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandboxes.gateway.connect import Messages, end_with_error
from sandboxes.gateway.headers import listed, to_caller
from sandboxes.gateway.target import BadTarget, Target, target_of

ID = "iabcdefghij0123456789"


def scope(**headers: str) -> dict[str, Any]:
    return {"headers": [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]}


@pytest.mark.parametrize("host", [f"8000-{ID}.example.com", f"8000-{ID}.localhost:8001", f"8000-{ID.upper()}.A.b.c"])
def test_a_host_names_port_and_sandbox(host: str) -> None:
    assert target_of(scope(host=host), 49983) == Target(ID, 8000)


def test_headers_name_them_where_the_host_does_not() -> None:
    headers = {"host": "127.0.0.1:8001", "e2b_sandbox_id": ID}
    assert target_of(scope(**headers), 49983) == Target(ID, 49983)
    assert target_of(scope(**headers, e2b_sandbox_port="80"), 49983) == Target(ID, 80)


def test_the_host_wins_over_headers() -> None:
    assert target_of(scope(host=f"80-{ID}.x", e2b_sandbox_id="other"), 49983) == Target(ID, 80)


def test_an_old_client_id_is_cut_off() -> None:
    assert target_of(scope(host=f"80-{ID}-6532622b.x"), 49983) == Target(ID, 80)


@pytest.mark.parametrize("host", ["127.0.0.1:8001", "api.example.com", "e2b-api.example.com", "localhost", ""])
def test_other_hosts_are_not_for_a_sandbox(host: str) -> None:
    assert target_of(scope(host=host), 49983) is None


@pytest.mark.parametrize(
    "host", [f"0-{ID}.x", f"65536-{ID}.x", f"999999999999-{ID}.x", "80-.x", "80-i_d.x", "80-%00.x"]
)
def test_an_impossible_host_is_refused(host: str) -> None:
    with pytest.raises(BadTarget):
        target_of(scope(host=host), 49983)


@given(st.lists(st.tuples(st.integers(0, 1), st.binary(max_size=20)), max_size=8), st.data())
def test_messages_are_followed_however_they_are_cut(messages: list[tuple[int, bytes]], data: st.DataObject) -> None:
    stream = b"".join(bytes([flags]) + len(body).to_bytes(4, "big") + body for flags, body in messages)
    ends = {0}
    for _, body in messages:
        ends.add(max(ends) + 5 + len(body))
    cut = data.draw(st.integers(0, len(stream)))
    between = data.draw(st.integers(0, cut))
    follower = Messages()
    follower.follow(stream[:between])
    follower.follow(stream[between:cut])
    assert follower.whole == (cut in ends)


def test_nothing_follows_the_end_message() -> None:
    follower = Messages()
    follower.follow(end_with_error("unavailable", "gone"))
    assert follower.ended
    assert not follower.whole


def test_headers_of_one_hop_do_not_cross() -> None:
    raw = [
        (b"Connection", b"X-Mine, keep-alive"),
        (b"X-Mine", b"1"),
        (b"X-Yours", b"2"),
        (b"Transfer-Encoding", b"chunked"),
    ]
    assert to_caller(raw, from_envd=False) == [(b"x-yours", b"2")]
    assert listed([(b"connection", b"a, B")]) == {b"a", b"b"}


def test_only_envd_is_opened_to_browsers() -> None:
    assert (b"access-control-allow-origin", b"*") in to_caller([], from_envd=True)
    assert to_caller([], from_envd=False) == []
    own = (b"access-control-allow-origin", b"https://me.example")
    assert [pair for pair in to_caller([own], from_envd=True) if pair[0] == own[0]] == [own]
