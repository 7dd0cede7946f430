"""A real browser on a real web process. An error in its console, a refusal by the CSP too, fails the test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from pools.models import Pool, Team, User
from tests.console.web import QUICK, Web, serve, session_of
from tests.factories import make_cluster, make_env, make_group, make_pool, make_team

ARGUMENTS = [
    *("--no-sandbox", "--disable-background-networking", "--no-first-run"),
    *("--disable-component-update", "--disable-sync"),
]
LIMIT_MS = 30_000
"""Bounds are generous: a busy machine is slow, not wrong."""
expect.set_options(timeout=LIMIT_MS)

type Open = Callable[..., Page]


@pytest.fixture(scope="session")
def web(django_db_setup: None, django_db_blocker: object) -> Iterator[Web]:
    with serve(**QUICK) as running:
        yield running


@pytest.fixture
def team(transactional_db: None) -> Team:
    return make_team("rl-research", quota=100)


@pytest.fixture
def pool(team: Team) -> Pool:
    return make_pool(make_group(env=make_env(team, "base"), min_replicas=2, max_replicas=64), make_cluster("local"))


@pytest.fixture
def browser(chromium: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Browser]:
    """Playwright's loop runs in this thread while a test uses it, which Django would take for async code."""
    monkeypatch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "1")
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=chromium, args=ARGUMENTS)
        yield opened
        opened.close()


@pytest.fixture
def open_page(browser: Browser, web: Web) -> Iterator[Open]:
    """open_page(user, address, web=..., allow=..., before=..., **context): a page, signed in; errors are collected."""
    errors: list[str] = []

    def open_page(
        user: User | None,
        address: str,
        *,
        at: Web = web,
        allow: tuple[str, ...] = (),
        before: Callable[[Page], Any] = lambda page: None,
        **context: Any,
    ) -> Page:
        opened = browser.new_context(base_url=at.address, **context)
        opened.set_default_timeout(LIMIT_MS)
        if user is not None:
            opened.add_cookies([{"name": "sessionid", "value": session_of(user), "url": at.address}])
        page = opened.new_page()

        def collect(text: str) -> None:
            if not any(part in text for part in allow):
                errors.append(text)

        page.on("console", lambda message: collect(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: collect(str(error)))
        before(page)
        page.goto(address)
        return page

    yield open_page
    assert errors == []
