"""Containers that end: codes, reasons, restarts and back-off, by the Pod's policy."""

from __future__ import annotations

import re

import pytest

from sandboxes.cluster.snapshot import parse
from tests.contract.kube import Json, Kube, condition, container_state
from tests.contract.lives import as_seen, becomes, course, ends, log, said, shell, waits
from tests.contract.sightings import Seen

pytestmark = pytest.mark.namespaces

OOPS = shell("echo again; exit 3")
NO_PROGRAM = {"command": ["no-such-program"]}


@pytest.mark.parametrize(
    ("script", "phase", "reason", "code"),
    [
        ("exit 0", "Succeeded", "Completed", 0),
        ("exit 3", "Failed", "Error", 3),
        ("sleep 60 & kill -TERM $!; wait $!", "Failed", "Error", 143),
        ("sleep 60 & kill -KILL $!; wait $!", "Failed", "Error", 137),
    ],
)
def test_an_end_without_restart_has_phase_reason_and_code(
    kube: Kube, seen: Seen, script: str, phase: str, reason: str, code: int
) -> None:
    kube.create("once", container=shell(script))
    pod = ends(kube, "once")
    found = parse(pod)
    assert (found.phase, found.terminated_reason, found.exit_code, found.restarts) == (phase, reason, code, 0)
    as_seen(seen, f"ended-{code}", pod)
    end = container_state(pod)["terminated"]
    assert end["containerID"] == found.container_id
    assert end["startedAt"] <= end["finishedAt"]
    for kind in ("Ready", "ContainersReady"):
        assert condition(pod, kind)["reason"] == {"Succeeded": "PodCompleted", "Failed": "PodFailed"}[phase]
    assert condition(pod, "PodReadyToStartContainers")["status"] == "False"


def test_on_failure_a_success_is_the_end(kube: Kube) -> None:
    kube.create("fine", container=shell("exit 0"), restartPolicy="OnFailure")
    pod = parse(ends(kube, "fine"))
    assert (pod.phase, pod.restarts) == ("Succeeded", 0)


@pytest.mark.parametrize("policy", ["Always", "OnFailure"])
def test_one_that_fails_again_and_again_is_backed_off(kube: Kube, seen: Seen, policy: str) -> None:
    kube.create("loop", container=OOPS, restartPolicy=policy)
    pod = waits(kube, "loop", "CrashLoopBackOff")
    found, uid = parse(pod), pod["metadata"]["uid"]
    who = f"main pod=loop_{kube.namespace}({uid})"
    assert found.waiting_message == f"back-off 10s restarting failed container={who}"
    assert (found.phase, found.restarts, found.ready) == ("Running", 1, False)
    assert (found.terminated_reason, found.exit_code) == ("Error", 3)
    as_seen(seen, "crash-loop", pod)
    words = re.escape(f"Back-off restarting failed container main in pod loop_{kube.namespace}({uid})")
    assert said(kube, "loop", "BackOff", f"{words}$")["type"] == "Warning"
    assert log(kube, "loop").message == log(kube, "loop", previous="true").message == "again\n"


def test_each_restart_is_another_container(kube: Kube) -> None:
    version = kube.version()
    kube.create("loop", container=OOPS, restartPolicy="Always")
    told = course(kube, "loop", version, lambda pod: pod.waiting_reason == "CrashLoopBackOff")
    of = {pod.restarts: pod.container_id for pod in told if pod.container_id}
    assert list(of) == [0, 1]
    assert of[0] != of[1]


def test_a_program_that_is_not_there_ends_a_pod_that_is_not_restarted(kube: Kube, seen: Seen) -> None:
    version = kube.version()
    uid = kube.create("typo", container=NO_PROGRAM)["metadata"]["uid"]
    told = course(kube, "typo", version, lambda pod: pod.finished)
    assert "Running" not in {pod.phase for pod in told}, "it never ran"
    pod = ends(kube, "typo")
    assert (parse(pod).terminated_reason, parse(pod).exit_code) == ("StartError", 128)
    message = container_state(pod)["terminated"]["message"]
    assert message.endswith('exec: "no-such-program": executable file not found in $PATH: unknown')
    as_seen(seen, "start-error", pod)
    assert message == container_state(seen("start-error", pod))["terminated"]["message"]
    said(kube, "typo", "Failed", re.escape(f"Error: {message}"))
    assert kube.client.why_not_started(uid) == f"Error: {message}"


@pytest.mark.parametrize(
    ("case", "program"), [("path", "/no/such/program"), ("permission", "/etc/hosts"), ("directory", "/etc")]
)
def test_other_programs_that_cannot_be_run(kube: Kube, seen: Seen, case: str, program: str) -> None:
    kube.create("typo", container={"command": [program]})
    pod = ends(kube, "typo")
    message = container_state(pod)["terminated"]["message"]
    assert message == container_state(seen(f"start-error-{case}", pod))["terminated"]["message"]


def test_a_program_that_is_not_there_is_tried_again_by_policy(kube: Kube, seen: Seen) -> None:
    version = kube.version()
    kube.create("typo", container=NO_PROGRAM, restartPolicy="Always")
    told = course(kube, "typo", version, lambda pod: pod.waiting_reason == "CrashLoopBackOff")
    failed = [pod for pod in told if pod.waiting_reason == "RunContainerError"]
    assert failed
    assert failed[-1].waiting_message.endswith("executable file not found in $PATH: unknown")
    assert (failed[-1].terminated_reason, failed[-1].exit_code) == ("StartError", 128)
    as_seen(seen, "start-error-loop", waits(kube, "typo", "CrashLoopBackOff"))


def test_a_deleted_pod_is_seen_to_end_first(kube: Kube) -> None:
    kube.create("stopped", container=shell("trap 'exit 7' TERM; sleep 3600 & wait"))
    version = becomes(kube, "stopped", lambda pod: pod.ready)["metadata"]["resourceVersion"]
    kube.delete("stopped")
    told = course(kube, "stopped", version, lambda pod: False)
    assert all(pod.deleting for pod in told)
    assert (told[-1].finished, told[-1].exit_code) == (True, 7)
    assert said(kube, "stopped", "Killing", "Stopping container main$")["type"] == "Normal"
    assert not kube.is_there("stopped")


def test_one_that_does_not_listen_is_killed_after_its_grace(kube: Kube) -> None:
    deaf: Json = shell("trap '' TERM; while true; do sleep 1; done")
    kube.create("stubborn", container=deaf)
    version = becomes(kube, "stubborn", lambda pod: pod.ready)["metadata"]["resourceVersion"]
    kube.delete("stubborn", gracePeriodSeconds=1)
    assert parse(kube.pod("stubborn")).deleting
    assert course(kube, "stubborn", version, lambda pod: False)[-1].exit_code == 137
