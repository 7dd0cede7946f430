"""Images that cannot be used: the reasons, the registry's own words, and where the product finds them."""

from __future__ import annotations

import pytest

from sandboxes.cluster.snapshot import parse
from tests.contract.kube import STRATEGIC, Kube
from tests.contract.lives import as_seen, becomes, course, said, waits
from tests.contract.sightings import Seen

pytestmark = pytest.mark.namespaces

MISSING = "nowhere/thing:1"
INVALID = "nowhere/Thing:1"
NOT_FOUND = 'failed to pull and unpack image "docker.io/nowhere/thing:1": failed to resolve reference'


@pytest.mark.parametrize("policy", ["Always", "Never"])
def test_a_missing_image_is_told_and_tried_again(kube: Kube, seen: Seen, policy: str) -> None:
    """Whatever the restart policy: nothing has run yet."""
    version = kube.version()
    kube.create("missing", container={"image": MISSING}, restartPolicy=policy)
    told = course(kube, "missing", version, lambda pod: pod.waiting_reason == "ImagePullBackOff")
    tried = [pod for pod in told if pod.waiting_reason == "ErrImagePull"]
    assert tried, "the first failure is told before the waiting"
    assert NOT_FOUND in tried[0].waiting_message
    assert tried[0].waiting_message.endswith(": not found")
    pod = waits(kube, "missing", "ImagePullBackOff")
    assert parse(pod).waiting_message == f'Back-off pulling image "{MISSING}": ErrImagePull: {tried[0].waiting_message}'
    assert (parse(pod).phase, parse(pod).restarts, parse(pod).terminated_reason) == ("Pending", 0, "")
    as_seen(seen, f"missing-image-{policy}", pod)


def test_the_first_failure_is_as_on_the_real_one(kube: Kube, seen: Seen) -> None:
    kube.create("missing", container={"image": MISSING})
    as_seen(seen, "missing-image-first", waits(kube, "missing", "ErrImagePull"))


def test_events_tell_of_a_missing_image(kube: Kube) -> None:
    uid = kube.create("missing", container={"image": MISSING})["metadata"]["uid"]
    said(kube, "missing", "Pulling", f'Pulling image "{MISSING}"$')
    failed = said(kube, "missing", "Failed", f'Failed to pull image "{MISSING}": ')
    assert failed["type"] == "Warning"
    said(kube, "missing", "Failed", "Error: ErrImagePull$")
    said(kube, "missing", "Failed", "Error: ImagePullBackOff$")
    assert said(kube, "missing", "BackOff", f'Back-off pulling image "{MISSING}"$')["type"] == "Normal"
    assert NOT_FOUND in kube.client.why_not_started(uid)


def test_a_name_that_is_none_is_told_apart(kube: Kube, seen: Seen) -> None:
    uid = kube.create("invalid", container={"image": INVALID})["metadata"]["uid"]
    pod = waits(kube, "invalid", "InvalidImageName")
    couldnt = f'Failed to apply default image tag "{INVALID}": couldn\'t parse image name "{INVALID}": '
    assert parse(pod).waiting_message.startswith(couldnt)
    as_seen(seen, "invalid-image-name", pod)
    said(kube, "invalid", "InspectFailed", couldnt)
    said(kube, "invalid", "Failed", "Error: InvalidImageName$")
    assert kube.client.why_not_started(uid).startswith(couldnt)


@pytest.mark.parametrize("image", ["a b", "http://x/y", "x:", "a" * 64])
def test_other_names_that_are_none(kube: Kube, seen: Seen, image: str) -> None:
    kube.create("invalid", container={"image": image})
    pod = waits(kube, "invalid", "InvalidImageName")
    case = "-".join(filter(None, "".join(c if c.isalnum() else " " for c in image).split()))[:12]
    as_seen(seen, f"invalid-image-name-{case}", pod)


def test_an_image_that_may_not_be_pulled(kube: Kube, seen: Seen) -> None:
    kube.create("never", container={"image": MISSING, "imagePullPolicy": "Never"})
    pod = waits(kube, "never", "ErrImageNeverPull")
    words = f'Container image "{MISSING}" is not present with pull policy of Never'
    assert parse(pod).waiting_message == words
    as_seen(seen, "never-pull", pod)
    said(kube, "never", "ErrImageNeverPull", f"{words}$")
    said(kube, "never", "Failed", "Error: ErrImageNeverPull$")


def test_another_image_heals_a_pod_that_waits_for_a_missing_one(kube: Kube) -> None:
    kube.create("healed", container={"image": MISSING})
    waits(kube, "healed", "ImagePullBackOff")
    kube.patch("healed", {"spec": {"containers": [{"name": "main", "image": kube.image}]}}, STRATEGIC)
    pod = parse(becomes(kube, "healed", lambda pod: pod.ready))
    assert (pod.restarts, pod.waiting_message) == (0, "")
