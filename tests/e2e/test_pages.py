"""Every page in both themes, at 360 px, by keyboard and without JavaScript."""

from __future__ import annotations

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from pools.models import Pool, Team
from tests.e2e.conftest import Open
from tests.factories import PASSWORD, make_decision, make_event, make_sandbox, make_superuser, make_team, make_user

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]
HOME = "/t/rl-research/"
RULES = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}


@pytest.fixture
def full(pool: Pool) -> Pool:
    """A pool with a sandbox in every state, a decision and an event."""
    for state in ("pending", "starting", "idle", "claimed", "stopping", "ended"):
        make_sandbox(pool, state)
    stuck = make_sandbox(pool, "starting", finding="no_room", finding_text="The cluster has no room. " * 8)
    make_event(stuck)
    make_decision(pool.group, "held", sentence="Growth waits: 1 sandbox is stuck.")
    return pool


def addresses(pool: Pool) -> list[str]:
    stuck = pool.group.env.team and make_sandbox(pool, "starting", finding="image").pk
    return [
        HOME,
        f"{HOME}pools/",
        f"{HOME}pools/{pool.pk}/",
        f"{HOME}sandboxes/?state=ended",
        f"{HOME}sandboxes/?text=nothing",
        f"{HOME}sandboxes/{stuck}/",
        f"{HOME}sandboxes/{stuck}/end",
        "/t/empty/",
        "/nowhere",
    ]


def accessible(page: Page) -> None:
    found = Axe().run(page, options=RULES)
    assert found.violations_count == 0, f"{page.url}\n{found.generate_report()}"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_page_is_accessible_in_both_themes_and_fits_360_px(
    open_page: Open, team: Team, full: Pool, theme: str
) -> None:
    user = make_user("operator", team)
    make_team("empty").memberships.create(user=user, role="viewer")
    page = open_page(None, "/sign-in", allow=("404",), color_scheme=theme)
    accessible(page)
    page = open_page(user, HOME, allow=("404",), color_scheme=theme)
    for address in addresses(full):
        page.set_viewport_size({"width": 1440, "height": 1000})
        page.goto(address)
        assert page.evaluate("document.documentElement.dataset.theme") == theme
        accessible(page)
        page.set_viewport_size({"width": 360, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= 360, address
    accessible(page)


def test_all_works_without_javascript(open_page: Open, team: Team, full: Pool) -> None:
    make_user("operator", team, "mira")
    sandbox = make_sandbox(full, "claimed", age=1)
    page = open_page(None, f"{HOME}sandboxes/", allow=("422",), java_script_enabled=False)
    page.get_by_label("User name").fill("mira")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", name="Sandboxes").first).to_be_visible()
    page.get_by_role("link", name="Claimed").click()
    expect(page.locator("#rows tr")).to_have_count(2)
    page.get_by_label("Id, node or key=value").fill(sandbox.pk)
    page.get_by_role("button", name="Filter").click()
    expect(page.locator("#rows tr")).to_have_count(1)
    page.locator("#rows tr").hover()
    page.get_by_role("link", name=f"End {sandbox.pk}").click()
    page.get_by_role("button", name="End sandbox").click()
    expect(page.locator(".notice")).to_contain_text("is ending")
    sandbox.refresh_from_db()
    assert sandbox.state == "stopping"
    page.goto(f"{HOME}pools/{full.pk}/")
    page.get_by_label("Ceiling", exact=True).fill("many")
    page.get_by_role("button", name="Apply").click()
    expect(page.get_by_role("alert")).to_contain_text("is not a whole number")
    page.get_by_label("Ceiling", exact=True).fill("32")
    page.get_by_role("button", name="Apply").click()
    expect(page.locator(".notice")).to_contain_text("The new bounds are in force.")
    page.locator(".menu summary").click()
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()


def test_a_sandbox_is_ended_by_keyboard_in_a_dialog(open_page: Open, team: Team, pool: Pool) -> None:
    sandbox = make_sandbox(pool, "claimed")
    page = open_page(make_user("operator", team), HOME)
    expect(page.locator("#pulse")).to_have_attribute("data-feed", "live")
    page.keyboard.press("/")
    expect(page.get_by_role("searchbox", name="Find a sandbox or pool")).to_be_focused()
    end = page.get_by_role("link", name=f"End {sandbox.pk}")
    end.focus()
    expect(end).to_have_css("opacity", "1")
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog", name="End this sandbox?")
    expect(dialog).to_contain_text(sandbox.pk)
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    page.keyboard.press("Enter")
    dialog.get_by_role("button", name="End sandbox").click()
    expect(page.locator("#toast")).to_contain_text("is ending")
    expect(page.locator(f"#s-{sandbox.pk} .chip")).to_have_text("Stopping")


def test_filters_change_the_address_and_back_works(open_page: Open, team: Team, full: Pool) -> None:
    page = open_page(make_user("viewer", team), HOME)
    page.locator(".filters").get_by_role("link", name="Stuck").click()
    expect(page).to_have_url(f"{page.url.split('/t/')[0]}{HOME}?state=stuck")
    expect(page.locator("#rows tr")).to_have_count(1)
    page.go_back()
    expect(page.locator("#rows tr")).to_have_count(6)


def test_the_theme_is_chosen_and_kept(open_page: Open, team: Team) -> None:
    page = open_page(make_user("viewer", team), HOME, color_scheme="light")
    page.locator(".menu summary").click()
    page.get_by_role("button", name="Dark").click()
    page.reload()
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"


def test_times_are_local_with_the_exact_one_on_hover(open_page: Open, team: Team, pool: Pool) -> None:
    decision = make_decision(pool.group)
    page = open_page(make_user("viewer", team), f"{HOME}pools/{pool.pk}/", timezone_id="Asia/Shanghai", locale="en-GB")
    expect(page.locator("#zone")).to_have_text("UTC+8")
    clock = page.locator("table.decisions time").first
    expect(clock).to_have_attribute("title", decision.at.strftime("%Y-%m-%dT%H:%M:%S.%fZ"))
    local = (decision.at.hour + 8) % 24
    expect(clock).to_have_text(f"{local:02}:{decision.at:%M:%S}")


def test_ids_are_copied(open_page: Open, team: Team, pool: Pool) -> None:
    sandbox = make_sandbox(pool)
    page = open_page(make_user("viewer", team), HOME, permissions=["clipboard-read", "clipboard-write"])
    page.locator(f"#s-{sandbox.pk}").hover()
    page.get_by_role("button", name="Copy id").click()
    expect(page.locator("#toast")).to_have_text(f"Copied {sandbox.pk}")
    assert page.evaluate("navigator.clipboard.readText()") == sandbox.pk


def test_a_superuser_switches_teams(open_page: Open, team: Team) -> None:
    make_team("other-team")
    page = open_page(make_superuser(), HOME)
    page.locator(".team summary").click()
    page.get_by_role("link", name="other-team").click()
    expect(page.locator(".team summary")).to_contain_text("other-team")
