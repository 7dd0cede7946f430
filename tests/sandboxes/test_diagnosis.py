from __future__ import annotations

from typing import Any

import pytest

from sandboxes.diagnosis import diagnose, ending
from tests.sandboxes.pods import pod, waiting

NO_ROOM = "0/1 nodes are available: 1 Insufficient cpu."
UNSCHEDULABLE = {
    "phase": "Pending",
    "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": NO_ROOM}],
}
RESTARTED = {
    "conditions": [],
    "containerStatuses": [
        {"restartCount": 2, "state": {"running": {}}, "lastState": {"terminated": {"reason": "Error", "exitCode": 3}}}
    ],
}


def bringing_envd(state: dict[str, Any]) -> dict[str, Any]:
    """A Pod whose init container is in that state."""
    return waiting("PodInitializing") | {"initContainerStatuses": [{"name": "envd", "state": state}]}


@pytest.mark.parametrize(
    ("status", "code", "words"),
    [
        (UNSCHEDULABLE, "no_room", NO_ROOM),
        (waiting("ErrImagePull", "not found"), "image", "not found"),
        (waiting("InvalidImageName"), "image", "InvalidImageName"),
        (waiting("CreateContainerConfigError", "secret x not found"), "start_failed", "secret x not found"),
        (waiting("CrashLoopBackOff"), "crash_loop", "exits again"),
        (RESTARTED, "crash_loop", "Error, exit 3"),
        (bringing_envd({"waiting": {"reason": "ErrImagePull", "message": "no envd"}}), "image", "no envd"),
    ],
)
def test_each_cause_has_a_code_and_quotes_the_cluster(status: dict[str, Any], code: str, words: str) -> None:
    finding = diagnose(pod("a", **status))
    assert finding is not None
    assert finding.code == code
    assert words in finding.text


def test_a_pod_on_its_way_has_no_finding() -> None:
    assert diagnose(pod("a", **waiting("ContainerCreating"))) is None
    assert diagnose(pod("a", **bringing_envd({"running": {}}))) is None


def test_once_envd_is_there_the_sandbox_speaks_for_itself() -> None:
    done = bringing_envd({"terminated": {"reason": "Completed", "exitCode": 0}}) | waiting("ErrImagePull", "not found")
    finding = diagnose(pod("a", **done))
    assert finding is not None
    assert "not found" in finding.text


@pytest.mark.parametrize(
    ("status", "phrase"),
    [
        ({"reason": "Evicted", "message": "low on memory"}, "Evicted: low on memory"),
        ({"reason": "NodeLost"}, "NodeLost"),
        (
            {"containerStatuses": [{"state": {"terminated": {"reason": "OOMKilled", "exitCode": 137}}}]},
            "OOMKilled, exit 137",
        ),
        ({"containerStatuses": [{"state": {"terminated": {"reason": "Completed"}}}]}, "Completed"),
        (bringing_envd({"terminated": {"reason": "Error", "exitCode": 1}}), "Error, exit 1"),
        ({"phase": ""}, "no longer there"),
    ],
)
def test_an_ending_is_one_phrase(status: dict[str, Any], phrase: str) -> None:
    assert ending(pod("a", **status)) == phrase
