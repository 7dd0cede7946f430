"""The page follows the database without reload, whatever happens to messages, sockets, Redis and rights."""

from __future__ import annotations

import random

import pytest
from django.db import connection
from playwright.sync_api import Page, WebSocketRoute, expect

from console.sandboxes import listing
from console.sandboxes.listing import Filter
from pools.models import Membership, Pool, Team
from sandboxes import live as feed
from sandboxes import transitions
from sandboxes.lifecycle import EndReason
from tests.console.web import Web, serve, wait_for
from tests.e2e.conftest import Open
from tests.factories import make_claim, make_decision, make_sandbox, make_user
from tests.servers import start_valkey, started

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]
HOME = "/t/rl-research/"


def row(page: Page, id_: str):
    return page.locator(f"#s-{id_}")


def is_live(page: Page) -> None:
    expect(page.locator("#pulse")).to_have_attribute("data-feed", "live")


def rows_shown(page: Page) -> list[tuple[str, int]]:
    rows = page.evaluate("[...document.querySelectorAll('#rows tr')].map((r) => [r.dataset.id, Number(r.dataset.rev)])")
    return [(id_, rev) for id_, rev in rows]


def never_reloaded(page: Page) -> None:
    assert page.evaluate("window.sameDocument") is True


def test_the_page_changes_without_reload_and_equals_the_database_when_quiet(
    open_page: Open, team: Team, pool: Pool
) -> None:
    kept = [make_sandbox(pool, "starting", age=age).pk for age in range(10, 40)]
    page = open_page(make_user("operator", team), HOME)
    is_live(page)
    page.evaluate("window.sameDocument = true")
    chance = random.Random(7)
    for turn in range(12):
        transitions.make_idle([(id_, "uid", "127.64.0.2", "node-1") for id_ in chance.sample(kept, 8)])
        transitions.stop(chance.sample(kept, 2), EndReason.KILLED, "test")
        transitions.end([(id_, EndReason.POD_GONE, "") for id_ in chance.sample(kept, 1)])
        born = [f"i{chance.randrange(10**19):020}" for _ in range(2)]
        kept += [moved.id for moved in transitions.insert_pending(pool.pk, born)]
        if turn == 6:
            make_claim(pool.group)
            feed.publish([(team.pk, {"queue": pool.group_id})])
    wait_for(lambda: rows_shown(page) == listing.revs(team.pk, Filter()), 60)
    counts = {state: len(listing.revs(team.pk, Filter(state), 100)) for state in ("live", "idle", "starting")}
    for state, count in counts.items():
        expect(page.locator(f'.filters [data-count="{state}"]')).to_have_text(str(count))
    expect(page.locator('[data-figure="claimable"] .value')).to_have_text(str(counts["idle"]))
    expect(page.locator('[data-figure="queue"] .value')).to_have_text("1")
    never_reloaded(page)


def test_commit_a_then_b_publish_b_then_a_the_browser_shows_b(
    open_page: Open, team: Team, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    sandbox = make_sandbox(pool, "starting")
    page = open_page(make_user("viewer", team), HOME)
    is_live(page)
    held: list = []
    with monkeypatch.context() as patch:
        patch.setattr(feed, "publish", lambda messages, gone=(): held.append(list(messages)))
        transitions.make_idle([(sandbox.pk, "uid", "127.64.0.2", "node-a")])
        transitions.find([(sandbox.pk, "crash_loop", "It exits again and again.")])
    first, second = held
    feed.publish(second)
    expect(row(page, sandbox.pk).locator(".chip")).to_have_text("Crash loop")
    feed.publish(first)
    last = make_sandbox(pool, "starting", age=500)
    transitions.stop([last.pk], EndReason.KILLED, "test")
    transitions.find([(last.pk, "image", "")])
    expect(page.locator('.filters [data-count="stuck"]')).to_have_text("2")
    expect(row(page, sandbox.pk).locator(".chip")).to_have_text("Crash loop")


def test_nothing_moves_under_the_pointer(open_page: Open, team: Team, pool: Pool) -> None:
    old = make_sandbox(pool, "idle")
    page = open_page(make_user("operator", team), HOME)
    is_live(page)
    row(page, old.pk).hover()
    new = "i" + "n" * 20
    transitions.insert_pending(pool.pk, [new])
    transitions.stop([old.pk], EndReason.KILLED, "test")
    expect(page.locator("#news button")).to_have_text("+1 new, show")
    expect(row(page, old.pk).locator(".chip")).to_have_text("Stopping")
    assert row(page, new).count() == 0
    page.mouse.move(5, 5)
    expect(row(page, new)).to_be_visible()
    page.get_by_role("button", name="Pause").click()
    page.mouse.move(5, 5)
    transitions.insert_pending(pool.pk, ["i" + "p" * 20])
    expect(page.locator("#news button")).to_have_text("+1 new, show")
    page.get_by_role("button", name="Paused, resume").click()
    expect(row(page, "i" + "p" * 20)).to_be_visible()


def test_a_lost_delta_is_noticed_and_the_page_reads_anew(open_page: Open, team: Team, pool: Pool) -> None:
    sandboxes = [make_sandbox(pool, "starting", age=age) for age in (10, 20)]
    lost: list[str] = []

    def lossy(ws: WebSocketRoute) -> None:
        server = ws.connect_to_server()

        def relay(message: str) -> None:
            if '"t":"delta"' in message and sandboxes[0].pk in message and not lost:
                lost.append(message)
            else:
                ws.send(message)

        server.on_message(relay)

    page = open_page(make_user("viewer", team), HOME, before=lambda page: page.route_web_socket("**/ws/**", lossy))
    is_live(page)
    transitions.make_idle([(sandboxes[0].pk, "uid", "127.64.0.2", "node-1")])
    wait_for(lambda: lost or page.wait_for_timeout(20))
    transitions.make_idle([(sandboxes[1].pk, "uid", "127.64.0.3", "node-1")])
    for sandbox in sandboxes:
        expect(row(page, sandbox.pk).locator(".chip")).to_have_text("Idle")
    assert int(page.evaluate("document.body.dataset.resyncs")) >= 1


def test_silent_loss_is_caught_by_the_beat(open_page: Open, team: Team, pool: Pool) -> None:
    sandbox = make_sandbox(pool, "starting")
    page = open_page(make_user("viewer", team), HOME)
    is_live(page)
    with connection.cursor() as cursor:
        cursor.execute("UPDATE sandboxes_sandbox SET state = 'idle', rev = rev + 1 WHERE id = %s", [sandbox.pk])
    expect(row(page, sandbox.pk).locator(".chip")).to_have_text("Idle")


def test_without_sockets_the_page_polls_and_says_so(open_page: Open, team: Team, pool: Pool) -> None:
    sandbox = make_sandbox(pool, "starting")

    def refuse(ws: WebSocketRoute) -> None:
        ws.close(code=1011)

    page = open_page(make_user("viewer", team), HOME, before=lambda page: page.route_web_socket("**/ws/**", refuse))
    expect(page.locator("#pulse")).to_have_attribute("data-feed", "polling")
    transitions.make_idle([(sandbox.pk, "uid", "127.64.0.2", "node-1")])
    expect(row(page, sandbox.pk).locator(".chip")).to_have_text("Idle")
    expect(page.locator("#pulse")).to_contain_text("Polling")


def test_while_redis_is_away_the_page_shows_the_database_and_then_goes_live_again(
    open_page: Open, team: Team, pool: Pool
) -> None:
    sandbox = make_sandbox(pool, "starting")
    url = start_valkey()
    valkey = started[-1][0]
    with serve(REDIS_URL=url, LIVE_FLUSH="0.05") as web:
        page = open_page(make_user("viewer", team), HOME, at=web)
        is_live(page)
        valkey.terminate()
        expect(page.locator("#pulse")).to_have_attribute("data-feed", "polling")
        transitions.make_idle([(sandbox.pk, "uid", "127.64.0.2", "node-1")])
        expect(row(page, sandbox.pk).locator(".chip")).to_have_text("Idle")
        valkey.wait()


def test_a_web_process_that_restarts_is_found_again(open_page: Open, web: Web, team: Team, pool: Pool) -> None:
    sandbox = make_sandbox(pool, "starting")
    sockets: list[WebSocketRoute] = []

    def through(ws: WebSocketRoute) -> None:
        ws.connect_to_server()
        sockets.append(ws)

    page = open_page(make_user("viewer", team), HOME, before=lambda page: page.route_web_socket("**/ws/**", through))
    is_live(page)
    page.evaluate("window.sameDocument = true")
    sockets[0].close(code=1012)
    transitions.make_idle([(sandbox.pk, "uid", "127.64.0.2", "node-1")])
    expect(row(page, sandbox.pk).locator(".chip")).to_have_text("Idle")
    is_live(page)
    never_reloaded(page)


def test_who_leaves_the_team_loses_the_open_page(open_page: Open, team: Team, pool: Pool) -> None:
    user = make_user("viewer", team)
    page = open_page(user, HOME, allow=("404",))
    is_live(page)
    Membership.objects.filter(user=user).delete()
    expect(page.get_by_role("heading", name="Not found")).to_be_visible()


def test_a_new_decision_reaches_the_pools_page_and_leaves_the_form_alone(
    open_page: Open, team: Team, pool: Pool
) -> None:
    page = open_page(make_user("operator", team), f"{HOME}pools/{pool.pk}/")
    is_live(page)
    page.get_by_label("Ceiling", exact=True).fill("77")
    make_decision(pool.group, "quota", sentence="The team's quota leaves room for 0.")
    feed.publish([(team.pk, {"queue": pool.group_id})])
    expect(page.locator("[data-headline]")).to_contain_text("the quota is used up")
    expect(page.locator("table.decisions")).to_contain_text("The team's quota leaves room for 0.")
    expect(page.get_by_label("Ceiling", exact=True)).to_have_value("77")


def test_a_sandboxs_page_follows_it_to_its_end(open_page: Open, team: Team, pool: Pool) -> None:
    sandbox = make_sandbox(pool, "claimed")
    page = open_page(make_user("operator", team), f"{HOME}sandboxes/{sandbox.pk}/")
    is_live(page)
    transitions.stop([sandbox.pk], EndReason.TIMEOUT, "deadline")
    expect(page.locator(".sentence")).to_contain_text("Stopping.")
    transitions.end([(sandbox.pk, EndReason.POD_GONE, "")])
    expect(page.locator(".sentence")).to_contain_text("Deadline reached.")
    expect(page.get_by_role("link", name="End", exact=True)).to_have_count(0)
