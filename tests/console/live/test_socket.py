"""The live protocol as a browser meets it: a real web process, PostgreSQL and Valkey."""

from __future__ import annotations

import json
import socket
import time

import pytest
from django.contrib.sessions.models import Session
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from console.live.fingerprint import fingerprint
from pools.models import Membership, Pool, Team
from sandboxes import live as feed
from sandboxes import transitions
from sandboxes.lifecycle import EndReason
from tests.console.web import Web, hear, live, serve, session_of, subscribe, wait_for
from tests.factories import make_group, make_pool, make_sandbox, make_team, make_user


def closing(ws: ClientConnection, limit: float = 10.0) -> tuple[int, str]:
    """How the server closes."""
    deadline = time.monotonic() + limit
    with pytest.raises(ConnectionClosed) as closed:
        while True:
            ws.recv(timeout=max(0.01, deadline - time.monotonic()))
    assert closed.value.rcvd is not None
    return closed.value.rcvd.code, closed.value.rcvd.reason


def changed_rows(ws: ClientConnection) -> list[str]:
    """The ids of the next delta that is about rows, not figures alone."""
    while not (rows := hear(ws, "delta")["rows"]):
        pass
    return [row["id"] for row in rows]


def test_a_page_gets_its_rows_what_was_born_since_and_the_figures(web: Web, team: Team, pool: Pool) -> None:
    shown = make_sandbox(pool, "idle")
    since = make_sandbox(pool, "pending", age=1)
    make_sandbox(make_pool(make_group(make_team())), "idle")
    with live(web, make_user("viewer", team), team) as ws:
        snap = subscribe(ws, [shown.pk])
    assert [row["id"] for row in snap["rows"]] == [shown.pk]
    assert [row["id"] for row in snap["born"]] == [since.pk]
    assert snap["now"]["figures"]["claimable"]["parts"] == [["1", ""]]
    assert snap["now"]["states"]["live"] == "2"


def test_transitions_arrive_as_deltas_with_newer_figures(web: Web, team: Team, pool: Pool) -> None:
    sandbox = make_sandbox(pool, "starting")
    with live(web, make_user("viewer", team), team) as ws:
        snap = subscribe(ws, [sandbox.pk])
        transitions.make_idle([(sandbox.pk, "uid", "127.64.0.2", "node-1")])
        delta = hear(ws, "delta")
        assert delta["from"] == snap["seq"]
        (row,) = delta["rows"]
        assert (row["word"], row["node"], row["rev"]) == ("Idle", "node-1", sandbox.rev + 1)
        now = delta["now"] or hear(ws, "delta")["now"]
        assert now["figures"]["claimable"]["parts"] == [["1", ""]]


def test_only_what_the_page_shows_is_sent(web: Web, team: Team, pool: Pool) -> None:
    shown, other = make_sandbox(pool, "idle", age=5), make_sandbox(pool, "idle", age=900)
    elsewhere = make_sandbox(make_pool(make_group(make_team())), "idle")
    with live(web, make_user("viewer", team), team) as ws:
        subscribe(ws, [shown.pk], query="state=idle")
        for sandbox in (elsewhere, other, shown):
            transitions.stop([sandbox.pk], EndReason.KILLED, "test")
        assert changed_rows(ws) == [shown.pk]


def test_newborn_sandboxes_come_to_the_first_page_only(web: Web, team: Team, pool: Pool) -> None:
    sandbox = make_sandbox(pool, "idle")
    user = make_user("viewer", team)
    with live(web, user, team) as first, live(web, user, team) as filtered:
        subscribe(first, [sandbox.pk])
        subscribe(filtered, [], query="state=claimed")
        transitions.insert_pending(pool.pk, ["i" + "a" * 20, "i" + "b" * 20])
        assert {row["id"] for row in hear(first, "delta")["born"]} == {"i" + "a" * 20, "i" + "b" * 20}
        assert hear(filtered, "delta")["born"] == []


def test_a_pools_page_hears_of_its_pool(web: Web, team: Team, pool: Pool) -> None:
    with live(web, make_user("viewer", team), team) as ws:
        snap = subscribe(ws, pool=pool.pk)
        assert set(snap["now"]["figures"]) == {"claimable", "claimed", "queue", "waits", "quota"}
        assert snap["now"]["headline"]["lead"] == "No decision yet."


def test_the_beat_is_the_fingerprint_of_the_database(web: Web, team: Team, pool: Pool) -> None:
    rows = [make_sandbox(pool, "idle", age=age) for age in (5, 50)]
    with live(web, make_user("viewer", team), team) as ws:
        subscribe(ws, [row.pk for row in rows])
        beat = hear(ws, "beat")
    assert (beat["count"], beat["hash"]) == (2, fingerprint((row.pk, row.rev) for row in rows))


def test_another_epoch_asks_the_page_to_read_anew(web: Web, team: Team) -> None:
    with live(web, make_user("viewer", team), team) as ws:
        subscribe(ws, epoch="long-ago")
        assert hear(ws, "resync")["reason"] == "the feed began anew"


def test_members_who_leave_are_cut_off(web: Web, team: Team) -> None:
    user = make_user("viewer", team)
    with live(web, user, team) as ws:
        subscribe(ws)
        Membership.objects.filter(user=user).delete()
        assert closing(ws)[0] == 4403


def test_signing_out_cuts_the_socket_off(web: Web, team: Team) -> None:
    with live(web, make_user("viewer", team), team) as ws:
        subscribe(ws)
        Session.objects.all().delete()
        assert closing(ws) == (4401, "Sign in again.")


def test_strangers_learn_nothing_not_even_that_the_team_exists(web: Web, team: Team) -> None:
    stranger = make_user("admin", make_team())
    with live(web, stranger, team) as ws:
        theirs = closing(ws)
    team.name = "nowhere"
    with live(web, stranger, team) as ws:
        missing = closing(ws)
    assert theirs == missing == (4403, "You are no longer a member of this team.")


@pytest.mark.parametrize("origin", ["https://evil.example", None])
def test_other_sites_cannot_open_a_socket(web: Web, team: Team, origin: str | None) -> None:
    cookie = {"Cookie": f"sessionid={session_of(make_user('viewer', team))}"}
    with (
        pytest.raises(InvalidStatus) as refused,
        connect(f"ws://{web.host}/ws/t/{team.name}/", origin=origin, additional_headers=cookie),
    ):
        pass
    assert refused.value.response.status_code == 403


@pytest.mark.parametrize(
    "message", ["{", "[]", "3", '{"t":"other"}', '{"t":"sub"}', '{"t":"sub","ids":3,"epoch":""}',
                '{"t":"sub","ids":[],"epoch":"","query":"state=sleepy"}', '{"t":"sub","ids":[],"epoch":"","pool":"x"}']
)  # fmt: skip
def test_what_is_not_understood_closes_with_a_reason(web: Web, team: Team, message: str) -> None:
    with live(web, make_user("viewer", team), team) as ws:
        ws.send(message)
        assert closing(ws)[0] == 4400


def test_a_reader_that_does_not_read_is_closed_and_the_others_go_on(team: Team, pool: Pool) -> None:
    rows = [make_sandbox(pool, "idle") for _ in range(100)]
    moved = transitions.find([(row.pk, "image", "x" * 400) for row in rows])
    messages = [(team.pk, {"rows": [row.row() for row in moved]})]
    user = make_user("viewer", team)
    ids = [row.pk for row in rows]
    with serve(LIVE_FLUSH="0.01", LIVE_SEND_LIMIT="1", LIVE_BEAT="30") as web:
        narrow = socket.create_connection(tuple(web.host.split(":")))
        narrow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        with live(web, user, team, sock=narrow, max_queue=1, close_timeout=0) as slow, live(web, user, team) as quick:
            subscribe(slow, ids)
            subscribe(quick, ids)
            for _ in range(200):
                feed.publish(messages)
                assert changed_rows(quick)
                if web.said("slow live client closed"):
                    break
            assert web.said("slow live client closed")
            feed.publish(messages)
            assert changed_rows(quick)


def test_redis_away_is_said_and_its_return_makes_pages_read_anew(team: Team, pool: Pool) -> None:
    from tests.servers import start_valkey, started

    url = start_valkey()
    process = started[-1][0]
    with serve(REDIS_URL=url, LIVE_FLUSH="0.05") as web, live(web, make_user("viewer", team), team) as ws:
        assert subscribe(ws)["epoch"]
        process.terminate()
        assert hear(ws, "feed", state="down")
        process.wait()


def test_a_socket_opened_while_redis_is_away_says_so(team: Team, pool: Pool) -> None:
    with serve(REDIS_URL="unix:///nowhere.sock?db=0") as web, live(web, make_user("viewer", team), team) as ws:
        snap = subscribe(ws)
        assert snap["epoch"] == ""
        assert json.dumps(snap["now"])
        assert hear(ws, "feed", state="down")


def test_many_sockets_do_not_outlive_their_pages(web: Web, team: Team) -> None:
    user = make_user("viewer", team)
    for _ in range(5):
        with live(web, user, team) as ws:
            subscribe(ws)
    with live(web, user, team) as ws:
        subscribe(ws)
        assert wait_for(lambda: hear(ws, "alive"))
