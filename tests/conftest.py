"""Fixtures for all tests. The servers come from `tests.servers`."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import pytest
import redis

from console.up.checks import namespaces_allowed
from tests.committed import committed

if TYPE_CHECKING:
    from tests.kubernetes.single_node import SingleNode

ROOT = Path(__file__).resolve().parent.parent
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), "")
HOW_TO_GET_CHROMIUM = "Browser tests need Chromium; on Debian: apt-get install chromium."
IN_CI = os.environ.get("CI", "").lower() in {"1", "true"}
collect_ignore = ["kubernetes"]
"""They need root, Go and more: `make test-kubernetes` names the folder, and then they are collected."""
NEEDS = {
    "browser": (lambda: bool(CHROMIUM), HOW_TO_GET_CHROMIUM),
    "namespaces": (namespaces_allowed, "The kernel allows no namespaces here."),
}

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell that starts us in the background ignores Ctrl-C for us, and so for every process that a test starts.
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest first, so that no worker is left alone with them at the end."""
    items.sort(key=lambda item: item.get_closest_marker("stack") is None)


def pytest_runtest_setup(item: pytest.Item) -> None:
    for marker, (there, reason) in NEEDS.items():
        if item.get_closest_marker(marker) and not there():
            pytest.skip(reason)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """In CI nothing may be left out: a skipped test is a failure."""
    report = yield
    if IN_CI and report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped in CI: {item.nodeid}: {report.longrepr}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Likewise for a whole module."""
    report = yield
    if IN_CI and report.outcome == "skipped":
        report.outcome = "failed"
        report.longrepr = f"skipped in CI: {collector.nodeid}: {report.longrepr}"
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reasons = {str(report.longrepr) for report in terminalreporter.stats.get("skipped", [])}
    if any(HOW_TO_GET_CHROMIUM in reason for reason in reasons):
        terminalreporter.write_line(HOW_TO_GET_CHROMIUM, yellow=True)


@pytest.fixture(autouse=True)
def empty_valkey() -> None:
    """Every test finds an empty Valkey, as it finds an empty database."""
    with redis.Redis.from_url(os.environ["REDIS_URL"], socket_timeout=5) as client:
        client.flushall()


@pytest.fixture(scope="session")
def chromium() -> str:
    """The path of a Chromium; tests that use it carry the marker `browser`."""
    return CHROMIUM


@pytest.fixture
def transactional_db(django_db_setup: None, django_db_blocker: object) -> Iterator[None]:
    """In place of pytest-django's: the same for a test, and ten times as quick to clean up after."""
    with committed(django_db_blocker):
        yield


@pytest.fixture
def environment(transactional_db: None) -> dict[str, str]:
    """The environment of a process of ours that shares this test's database and Valkey."""
    from django.db import connection

    parts = connection.settings_dict
    database = f"postgresql://{parts['USER']}@/{parts['NAME']}?{urlencode({'host': parts['HOST']})}"
    return os.environ | {"DATABASE_URL": database, "DJANGO_SETTINGS_MODULE": "console.settings"}


@pytest.fixture(scope="session")
def cluster() -> Iterator[SingleNode]:
    """The real Kubernetes that all tests of a run share. Leave no Pods behind; each test names its own."""
    from tests.kubernetes import single_node

    with single_node.shared() as running:
        yield running
