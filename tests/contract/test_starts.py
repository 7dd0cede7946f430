"""A Pod that starts as it should: in which order, and what is said of it."""

from __future__ import annotations

import pytest

from sandboxes.cluster.snapshot import parse
from tests.contract.kube import Kube, condition, container_state
from tests.contract.lives import as_seen, becomes, course, events, said, shell
from tests.contract.sightings import Seen

pytestmark = pytest.mark.namespaces

CONDITIONS = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")


def test_a_pod_is_scheduled_then_created_then_ready(kube: Kube) -> None:
    version = kube.version()
    kube.create("plain")
    told = course(kube, "plain", version, lambda pod: pod.ready)
    steps = dict.fromkeys((pod.phase, pod.scheduled, pod.waiting_reason, pod.ready) for pod in told)
    assert [step for step in steps if step[2] or step[0] != "Pending"] == [
        ("Pending", True, "ContainerCreating", False),
        ("Running", True, "", True),
    ]
    assert told[0].phase == "Pending"
    assert not told[0].ip
    assert told[-1].ip
    assert told[-1].container_id.partition("://")[2]


def test_a_running_pod_is_as_the_real_one(kube: Kube, seen: Seen) -> None:
    kube.create("plain")
    pod = becomes(kube, "plain", lambda pod: pod.ready)
    as_seen(seen, "running", pod)
    for kind in CONDITIONS:
        assert condition(pod, kind)["status"] == "True", kind
    assert pod["spec"]["nodeName"]
    status = pod["status"]["containerStatuses"][0]
    assert (status["ready"], status["started"], status["restartCount"]) == (True, True, 0)
    assert pod["status"]["podIPs"] == [{"ip": pod["status"]["podIP"]}]
    assert pod["status"]["startTime"] >= pod["metadata"]["creationTimestamp"]


def test_its_events_tell_the_same_course(kube: Kube) -> None:
    kube.create("plain")
    said(kube, "plain", "Started", "Started container main$")
    node = kube.pod("plain")["spec"]["nodeName"]
    said(kube, "plain", "Scheduled", f"Successfully assigned {kube.namespace}/plain to {node}$")
    told = {event["reason"]: event["message"] for event in events(kube, "plain", type="Normal")}
    assert list(told)[-3:] == ["Pulled", "Created", "Started"]
    assert told["Created"] == "Created container: main"
    assert f'mage "{kube.image}"' in told["Pulled"]
    assert events(kube, "plain", type="Warning") == []


def test_an_image_that_is_there_is_pulled_again_if_always(kube: Kube) -> None:
    kube.create("again", container={"imagePullPolicy": "Always"})
    said(kube, "again", "Pulling", f'Pulling image "{kube.image}"$')
    words = rf'Successfully pulled image "{kube.image}" in \S+ \(\S+ including waiting\). Image size: \d+ bytes\.$'
    said(kube, "again", "Pulled", words)
    kube.create("once")
    said(kube, "once", "Pulled", f'Container image "{kube.image}" already present on machine$')


def test_a_pod_that_ends_at_once_is_never_ready(kube: Kube) -> None:
    version = kube.version()
    kube.create("brief", container=shell("true"))
    told = course(kube, "brief", version, lambda pod: pod.finished)
    assert (told[-1].phase, told[-1].ready, told[-1].exit_code) == ("Succeeded", False, 0)


def test_a_failing_probe_keeps_a_running_pod_from_being_ready(kube: Kube) -> None:
    probe = {"httpGet": {"path": "/health", "port": 49983}, "periodSeconds": 1, "failureThreshold": 1}
    kube.create("deaf", container={"readinessProbe": probe})
    event = said(kube, "deaf", "Unhealthy", 'Readiness probe failed: Get "http://')
    assert event["type"] == "Warning"
    pod = kube.pod("deaf")
    assert (parse(pod).phase, parse(pod).ready) == ("Running", False)
    assert "running" in container_state(pod)
    for kind in ("Ready", "ContainersReady"):
        assert condition(pod, kind)["reason"] == "ContainersNotReady"
        assert condition(pod, kind)["message"] == "containers with unready status: [main]"


def test_a_pod_is_ready_once_its_probe_succeeds(kube: Kube) -> None:
    probe = {"httpGet": {"path": "/health", "port": 49983}, "periodSeconds": 1}
    version = kube.version()
    kube.create("late", container=kube.judge.server | {"readinessProbe": probe})
    told = course(kube, "late", version, lambda pod: pod.ready)
    running = [pod.ready for pod in told if pod.phase == "Running"]
    assert (running[0], running[-1]) == (False, True)
