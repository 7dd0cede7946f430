"""A claim for another image, on the real stack: real Pods, real envd, the SDK as published."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from e2b import Sandbox
from e2b.exceptions import SandboxException

from tests.stack import Stack, until

pytestmark = [pytest.mark.namespaces, pytest.mark.stack, pytest.mark.timeout(240)]
OTHER, WRONG = "tools/other:2", "nowhere/thing:1"
IDLE = 8


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    with Stack("--image", OTHER) as stack:
        yield stack


@pytest.fixture
def full(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> Stack:
    for name, value in stack.demo().items():
        monkeypatch.setenv(name, value)
    until(lambda: stack.count("idle") >= IDLE, 60, stack.said)
    return stack


def claim(image: str) -> Sandbox:
    return Sandbox.create("base", timeout=120, metadata={"agentbox/image": image}, envs={"COLOUR": "blue"})


def row(stack: Stack, sandbox_id: str) -> tuple[str, ...]:
    columns = "state, image, pod_ip, finding, end_reason"
    return stack.query(f"SELECT {columns} FROM sandboxes_sandbox WHERE id = %s", sandbox_id)[0]


def test_a_claim_runs_in_the_image_that_it_asked_for(full: Stack) -> None:
    addresses = {ip for (ip,) in full.query("SELECT pod_ip FROM sandboxes_sandbox WHERE state = 'idle'")}
    sandbox = claim(OTHER)
    assert sandbox.commands.run("echo $COLOUR").stdout == "blue\n"
    sandbox.files.write("note", "kept")
    assert sandbox.files.read("note") == "kept"
    state, image, ip, finding, _ = row(full, sandbox.sandbox_id)
    assert (state, image, finding) == ("claimed", OTHER, "")
    assert ip in addresses, "the Pod that was idle, and its address"
    events = full.query("SELECT kind FROM sandboxes_event WHERE sandbox_id = %s", sandbox.sandbox_id)
    assert events == [], "its restart is none of a crash loop"
    assert sandbox.get_info().metadata == {"agentbox/image": OTHER}
    sandbox.kill()


def test_a_wrong_image_fails_the_claim_and_nothing_else(full: Stack) -> None:
    with pytest.raises(SandboxException, match=f"400: The image {WRONG} cannot be used: .*not found"):
        claim(WRONG)
    assert full.count("claimed") == 0
    until(lambda: full.count("idle") >= IDLE and full.count("stopping") == 0, 30, full.said)
    ((sandbox_id,),) = full.query("SELECT id FROM sandboxes_sandbox WHERE image = %s", WRONG)
    assert row(full, sandbox_id)[0] == "ended"
    plain = Sandbox.create("base", timeout=60)
    assert plain.commands.run("echo fine").stdout == "fine\n"
    assert row(full, plain.sandbox_id)[1] == "agentbox/base:1"
    plain.kill()
