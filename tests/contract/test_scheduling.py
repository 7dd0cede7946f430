"""Pods that fit nowhere: what the scheduler says, in the status that the product reads and in an event."""

from __future__ import annotations

import re

import pytest

from sandboxes.cluster.snapshot import parse
from tests.contract.kube import Json, Kube, condition
from tests.contract.lives import as_seen, becomes, said
from tests.contract.sightings import Seen


def asking(**amounts: str) -> Json:
    return {"container": {"resources": {"requests": amounts}}}


TOO_MUCH = asking(cpu="64")
NOWHERE = {"nodeSelector": {"no-node-has": "this"}}
UNFIT = {
    "cpu": (TOO_MUCH, r"\d+ Insufficient cpu"),
    "memory": (asking(memory="9Ti"), r"\d+ Insufficient memory"),
    "both": (asking(cpu="64", memory="9Ti"), r"\d+ Insufficient cpu, \d+ Insufficient memory"),
    "selector": (NOWHERE, r"\d+ node\(s\) didn't match Pod's node affinity/selector"),
}


@pytest.mark.parametrize("case", UNFIT)
def test_a_pod_that_fits_nowhere_is_told_why(kube: Kube, seen: Seen, case: str) -> None:
    changes, words = UNFIT[case]
    kube.create("large", **changes)
    pod = becomes(kube, "large", lambda pod: pod.unschedulable)
    scheduled, snapshot = condition(pod, "PodScheduled"), parse(pod)
    assert (scheduled["status"], scheduled["reason"]) == ("False", "Unschedulable")
    assert re.match(rf"0/\d+ nodes are available: .*{words}", snapshot.unschedulable)
    assert (snapshot.phase, snapshot.scheduled, snapshot.node) == ("Pending", False, "")
    assert "containerStatuses" not in pod["status"]
    if kube.judge.name == "localkube":  # the real cluster may have other nodes by now, with other reasons
        as_seen(seen, f"unschedulable-{case}", pod)
    else:
        seen(f"unschedulable-{case}", pod)


@pytest.mark.parametrize("changes", [TOO_MUCH, NOWHERE])
def test_an_event_says_the_same(kube: Kube, changes: Json) -> None:
    kube.create("large", **changes)
    message = parse(becomes(kube, "large", lambda pod: pod.unschedulable)).unschedulable
    event = said(kube, "large", "FailedScheduling", re.escape(message.partition(":")[0]))
    assert event["type"] == "Warning"
    assert event["reportingComponent"] == "default-scheduler"
