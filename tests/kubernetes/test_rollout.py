"""AgentBox on the real cluster, as `make run CLUSTER=kubernetes` starts it: real images, and no right too many."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from e2b import Sandbox
from e2b.exceptions import SandboxException

from console.kubernetes.account import RIGHTS
from console.kubernetes.place import Place
from deploy.oci.registry import push
from tests.kubernetes.images import busybox
from tests.kubernetes.make_run import make_run, pods
from tests.kubernetes.single_node import SingleNode
from tests.kubernetes.test_rights import only
from tests.sandboxes.cluster.test_rbac import rights
from tests.stack import Stack, until

pytestmark = pytest.mark.timeout(600)
IDLE = 8
OTHER, WRONG = "tests/other:1", "nowhere/thing:1"


@pytest.fixture(scope="module")
def asked_before(cluster: SingleNode) -> int:
    """How many calls of the product the API server had noted when the stack was started: other tests make some."""
    return len(noted(cluster))


@pytest.fixture(scope="module")
def stack(cluster: SingleNode, asked_before: int) -> Iterator[Stack]:
    with make_run(cluster) as stack:
        yield stack


@pytest.fixture
def full(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> Stack:
    for name, value in stack.demo().items():
        monkeypatch.setenv(name, value)
    until(lambda: stack.count("idle") >= IDLE, 120, stack.said)
    return stack


def settled(stack: Stack, cluster: SingleNode) -> bool:
    """Whether the Pods are those of the idle sandboxes, and nobody has or ends any other."""
    rows = stack.query("SELECT 'sb-' || id, state FROM sandboxes_sandbox WHERE state <> 'ended'")
    return {state for _, state in rows} == {"idle"} and pods(cluster) == {name for name, _ in rows}


def test_a_hundred_episodes_succeed_and_leave_nothing(full: Stack, cluster: SingleNode) -> None:
    rollout = full.rollout("--episodes", "100", "--in-flight", "20")
    said, _ = rollout.communicate(timeout=450)
    assert rollout.returncode == 0, said + full.said()
    assert "100/100 succeeded" in said
    assert re.search(r"left over +0", said)
    until(lambda: settled(full, cluster), 120, full.said)


def test_a_claim_runs_in_the_image_that_it_asked_for(full: Stack, cluster: SingleNode) -> None:
    """In the Pod that was idle, at its address; its restart is none of a crash loop."""
    push(busybox("other"), f"{cluster.registry}/{OTHER}")
    before = dict(full.query("SELECT id, pod_ip FROM sandboxes_sandbox WHERE state = 'idle'"))
    sandbox = claim(OTHER)
    assert sandbox.commands.run("cat /etc/image; echo $COLOUR").stdout == "other\nblue\n"
    sandbox.files.write("/tmp/note", "kept")
    assert sandbox.files.read("/tmp/note") == "kept"
    status = cluster.pod(f"sb-{sandbox.sandbox_id}")["status"]
    assert status["podIP"] == before[sandbox.sandbox_id]
    assert status["containerStatuses"][0]["restartCount"] == 1
    row = "SELECT state, image, finding FROM sandboxes_sandbox WHERE id = %s"
    assert full.query(row, sandbox.sandbox_id) == [("claimed", OTHER, "")]
    assert full.query("SELECT kind FROM sandboxes_event WHERE sandbox_id = %s", sandbox.sandbox_id) == []
    sandbox.kill()
    until(lambda: settled(full, cluster), 120, full.said)


def test_a_wrong_image_fails_the_claim_with_the_registrys_words_and_leaks_nothing(
    full: Stack, cluster: SingleNode
) -> None:
    with pytest.raises(SandboxException, match=rf"400: The image {WRONG} cannot be used: .*{WRONG}: not found"):
        claim(WRONG)
    assert full.count("claimed") == 0
    until(lambda: settled(full, cluster), 120, full.said)
    assert full.count("idle") == IDLE


def claim(image: str) -> Sandbox:
    return Sandbox.create("base", timeout=120, metadata={"agentbox/image": image}, envs={"COLOUR": "blue"})


def test_the_run_needed_all_of_its_rights_and_no_others(full: Stack, cluster: SingleNode, asked_before: int) -> None:
    """The API server's own record of what the product asked, beside deploy/base/rbac.yaml."""
    documents = list(yaml.safe_load_all(RIGHTS.read_text()))
    answered = noted(cluster)[asked_before:]
    assert {call["responseStatus"]["code"] for call in answered} <= {200, 201, 404, 409, 410, 429}
    assert {tuple(asked(call["verb"], **call["objectRef"])) for call in answered} == rights(documents)


def noted(cluster: SingleNode) -> list[dict[str, Any]]:
    log = Place(cluster.state).audit_log
    return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


def asked(verb: str, resource: str, namespace: str = "", name: str = "", subresource: str = "", **_: str) -> list[str]:
    named = name if resource == "namespaces" else ""
    return [verb, f"{resource}/{subresource}" if subresource else resource, "" if named else namespace, named]


def test_without_the_right_to_patch_such_a_claim_fails_and_says_so(full: Stack, cluster: SingleNode) -> None:
    with only(cluster, "role/agentbox", 0, ["create", "delete", "get", "list", "watch"]):
        with pytest.raises(SandboxException, match=r'500: .*an operator mends this: .*cannot patch resource "pods"'):
            for _ in range(20):  # the API server takes a moment to see its own change
                claim(OTHER).kill()
        assert Sandbox.create("base", timeout=60).kill(), "what needs no patch goes on"
    until(lambda: settled(full, cluster), 120, full.said)
