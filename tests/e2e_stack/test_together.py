"""What only the whole shows: sandboxes that are strangers to one another and to us, a page beside a real rollout."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Iterator

import httpx
import pytest
from e2b import Sandbox
from e2b.exceptions import NotFoundException, SandboxException
from playwright.sync_api import Page, sync_playwright

from tests.stack import ROOT, Stack, until

pytestmark = [pytest.mark.namespaces, pytest.mark.stack, pytest.mark.timeout(240)]

SERVE = "import http.server as h; open('who','w').write('{name}'); h.test(h.SimpleHTTPRequestHandler, port=8000)"
REACH = """
import socket, sys
def reach(family, address):
    with socket.socket(family) as s:
        s.settimeout(2)
        try: s.connect(address); print('reached', address)
        except OSError: pass
for ip in {ips!r}:
    for port in (49983, 8000): reach(socket.AF_INET, (ip, port))
for port in {ports!r}: reach(socket.AF_INET, ('127.0.0.1', port))
for path in {paths!r}: reach(socket.AF_UNIX, path)
print('done')
"""


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    with Stack() as stack:
        until(lambda: stack.count("idle") >= 8, 60, stack.said)
        yield stack


@pytest.fixture
def sandboxes(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Sandbox]]:
    for name, value in stack.demo().items():
        monkeypatch.setenv(name, value)
    pair = [Sandbox.create("base", timeout=120) for _ in range(2)]
    yield pair
    for sandbox in pair:
        sandbox.kill()


def through_gateway(stack: Stack, sandbox: Sandbox, path: str, port: int = 8000) -> httpx.Response:
    headers = {"Host": f"{port}-{sandbox.sandbox_id}.localhost:{stack.port + 1}"}
    return httpx.get(f"http://127.0.0.1:{stack.port + 1}{path}", headers=headers, timeout=10)


def test_two_sandboxes_serve_the_same_port_and_each_is_read_as_itself(stack: Stack, sandboxes: list[Sandbox]) -> None:
    """Done when 6, first half."""
    for index, sandbox in enumerate(sandboxes):
        sandbox.commands.run(f"python3 -c {shlex.quote(SERVE.format(name=index))}", background=True)
    for index, sandbox in enumerate(sandboxes):
        until(lambda box=sandbox: through_gateway(stack, box, "/who").status_code == 200, 20, stack.said)
        assert through_gateway(stack, sandbox, "/who").text == str(index)
    closed = through_gateway(stack, sandboxes[0], "/", port=8001)
    assert (closed.status_code, closed.json()["message"]) == (502, "The sandbox is running but port is not open")


def test_a_sandbox_reaches_neither_another_nor_anything_of_ours(stack: Stack, sandboxes: list[Sandbox]) -> None:
    """Done when 6, second half: the other's daemon, our faces, PostgreSQL, Valkey, the Kubernetes API."""
    ips = [ip for (ip,) in stack.query("SELECT pod_ip FROM sandboxes_sandbox WHERE state = 'claimed'")]
    own = next(ip for ip in ips if ip)
    assert len(ips) == 2
    ports = [stack.port, stack.port + 1, stack.port + 2, 5432, 6379]
    paths = [str(path) for path in stack.folder.rglob("*") if path.is_socket()]
    assert len(paths) >= 2, "PostgreSQL's and Valkey's"
    script = REACH.format(ips=ips, ports=ports, paths=paths)
    result = sandboxes[0].commands.run(f"python3 -c {shlex.quote(script)}")
    assert result.stdout == "done\n", f"{own}: {result.stdout}"


def test_nobody_arms_a_sandbox_from_outside(stack: Stack, sandboxes: list[Sandbox]) -> None:
    assert through_gateway(stack, sandboxes[0], "/init", port=49983).status_code == 404
    ip = stack.query("SELECT pod_ip FROM sandboxes_sandbox WHERE id = %s", sandboxes[0].sandbox_id)[0][0]
    answer = httpx.post(f"http://{ip}:49983/init", json={"accessToken": "mine"}, timeout=5)
    assert answer.status_code == 401


def test_a_pod_deleted_behind_our_back_is_not_found_in_the_sdks_words(stack: Stack, sandboxes: list[Sandbox]) -> None:
    """Done when 7, as the SDK sees it."""
    lost = sandboxes[1]
    script = f"connect({stack.demo()['KUBECONFIG']!r}, 'agentbox').delete('sb-{lost.sandbox_id}')"
    command = [sys.executable, "-c", f"from sandboxes.cluster.client import connect; {script}"]
    subprocess.run(command, cwd=ROOT, check=True, timeout=30)
    until(lambda: not lost.is_running(), 15, stack.said)
    with pytest.raises((NotFoundException, SandboxException), match="not found"):
        lost.set_timeout(60)
    reason = stack.query("SELECT end_reason FROM sandboxes_sandbox WHERE id = %s", lost.sandbox_id)
    assert reason == [("pod_gone",)]


@pytest.mark.browser
def test_the_page_follows_a_rollout_without_reload_and_equals_the_database_when_quiet(
    stack: Stack, chromium: str
) -> None:
    """Done when 11, on the real stack."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-sync"])
        page = browser.new_page(base_url=f"http://localhost:{stack.port}")
        sign_in(page, stack)
        page.goto("/t/rl-research/")
        page.evaluate("window.sameDocument = true")
        seen: set[str] = set()
        rollout = stack.rollout("--episodes", "60", "--in-flight", "24")
        while rollout.poll() is None:
            seen.add(figure(page, "claimed"))
            page.wait_for_timeout(200)
        said, _ = rollout.communicate(timeout=10)
        assert rollout.returncode == 0, said
        assert len(seen) > 3, f"the number of claimed ones moved: {seen}"
        until(lambda: quiet(stack), 90, stack.said)
        until(lambda: (shown(page), figure(page, "claimable"), figure(page, "claimed")) == in_database(stack), 30)
        assert page.evaluate("window.sameDocument") is True
        browser.close()


def quiet(stack: Stack) -> bool:
    return stack.count("claimed") + stack.count("stopping") == 0 and stack.count("idle") >= 8


def sign_in(page: Page, stack: Stack) -> None:
    page.goto("/")
    page.fill("[name=username]", stack.demo()["AGBX_USER"])
    page.fill("[name=password]", stack.demo()["AGBX_PASSWORD"])
    page.press("[name=password]", "Enter")
    page.wait_for_url("**/t/**")


def figure(page: Page, name: str) -> str:
    return page.locator(f'[data-figure="{name}"] .value').first.inner_text().strip()


def shown(page: Page) -> list[str]:
    page.wait_for_timeout(100)  # Playwright's loop has to run for the page to receive anything
    ids = page.evaluate("[...document.querySelectorAll('#rows tr[data-id]:not([data-ended])')].map(r => r.dataset.id)")
    return sorted(ids)


def in_database(stack: Stack) -> tuple[list[str], str, str]:
    live = stack.query("SELECT id FROM sandboxes_sandbox WHERE state <> 'ended' ORDER BY id")
    return [id_ for (id_,) in live], str(stack.count("idle")), str(stack.count("claimed"))
