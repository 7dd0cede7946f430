"""Another image for a running Pod: the same Pod, another container; or, with a wrong image, the end of it."""

from __future__ import annotations

import pytest

from sandboxes.cluster.snapshot import parse
from tests.contract.kube import STRATEGIC, Answer, Kube, container_state, until
from tests.contract.lives import as_seen, becomes, course, said, waits
from tests.contract.sightings import Seen

pytestmark = pytest.mark.namespaces

MISSING = "nowhere/thing:1"
NOT_FOUND = ": not found"


def swap(kube: Kube, image: str) -> Answer:
    answer = kube.patch("swap", {"spec": {"containers": [{"name": "main", "image": image}]}}, STRATEGIC)
    assert answer.status == 200, answer.message
    return answer


@pytest.mark.parametrize("policy", ["Always", "Never"])
def test_the_same_pod_runs_another_container(kube: Kube, seen: Seen, policy: str) -> None:
    kube.create("swap", restartPolicy=policy)
    before = becomes(kube, "swap", lambda pod: pod.ready)
    old = before["status"]["containerStatuses"][0]
    swap(kube, kube.other_image)
    told = course(kube, "swap", before["metadata"]["resourceVersion"], lambda pod: pod.restarts == 1 and pod.ready)
    assert {pod.phase for pod in told} == {"Running"}, "whatever the policy, it has not ended"
    pod = until(lambda: kube.pod("swap"), lambda pod: parse(pod).restarts == 1 and parse(pod).ready)
    new, end = pod["status"]["containerStatuses"][0], pod["status"]["containerStatuses"][0]["lastState"]["terminated"]
    assert pod["metadata"]["uid"] == before["metadata"]["uid"]
    assert pod["status"]["podIP"] == before["status"]["podIP"]
    assert new["containerID"] != old["containerID"] == end["containerID"]
    assert (new["restartCount"], end["exitCode"], end["reason"]) == (1, 0, "Completed")
    assert parse(pod).image == kube.other_image
    as_seen(seen, "swap", pod)
    said(kube, "swap", "Killing", "Container main definition changed, will be restarted$")


def test_a_wrong_image_ends_one_that_is_not_restarted(kube: Kube, seen: Seen) -> None:
    kube.create("swap")
    before = becomes(kube, "swap", lambda pod: pod.ready)
    swap(kube, MISSING)
    pod = becomes(kube, "swap", lambda pod: pod.finished)
    found = parse(pod)
    assert (found.phase, found.container_id, found.restarts) == ("Succeeded", parse(before).container_id, 0)
    as_seen(seen, "swap-missing-never", pod)
    said(kube, "swap", "Failed", f'Failed to pull image "{MISSING}": ')
    assert kube.client.why_not_started(found.uid).endswith(NOT_FOUND)


def test_a_wrong_image_is_waited_for_by_one_that_is_restarted(kube: Kube, seen: Seen) -> None:
    kube.create("swap", restartPolicy="Always")
    becomes(kube, "swap", lambda pod: pod.ready)
    swap(kube, MISSING)
    pod = waits(kube, "swap", "ImagePullBackOff")
    assert parse(pod).waiting_message.endswith(NOT_FOUND)
    assert "terminated" in pod["status"]["containerStatuses"][0]["lastState"]
    assert (parse(pod).phase, parse(pod).restarts) == ("Running", 0)
    as_seen(seen, "swap-missing-always", pod)
    swap(kube, kube.image)
    assert "running" in container_state(becomes(kube, "swap", lambda pod: pod.ready))


def test_an_invalid_image_is_told_in_its_own_words(kube: Kube) -> None:
    kube.create("swap")
    uid = becomes(kube, "swap", lambda pod: pod.ready)["metadata"]["uid"]
    swap(kube, "nowhere/Thing:1")
    becomes(kube, "swap", lambda pod: pod.finished)
    said(kube, "swap", "InspectFailed", "Failed to apply default image tag")
    assert "must be lowercase" in kube.client.why_not_started(uid)
