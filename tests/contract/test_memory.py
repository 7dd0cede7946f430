"""What happens to one that takes more memory than its limit."""

from __future__ import annotations

import pytest

from sandboxes.cluster.snapshot import parse
from tests.contract.kube import Kube
from tests.contract.lives import as_seen, ends, shell, waits
from tests.contract.sightings import Seen

pytestmark = pytest.mark.namespaces

HUNGRY = shell("exec dd if=/dev/zero of=/dev/null bs=256M count=1") | {"resources": {"limits": {"memory": "32Mi"}}}


@pytest.fixture(autouse=True)
def limits(kube: Kube) -> None:
    if not kube.judge.limits:
        pytest.skip("Control groups cannot be written here.")


def test_too_much_memory_ends_a_pod_with_its_own_reason(kube: Kube, seen: Seen) -> None:
    kube.create("hungry", container=HUNGRY)
    pod = ends(kube, "hungry")
    found = parse(pod)
    assert (found.phase, found.terminated_reason, found.exit_code) == ("Failed", "OOMKilled", 137)
    as_seen(seen, "out-of-memory", pod)


def test_too_much_memory_again_and_again_is_a_crash_loop_with_that_reason(kube: Kube, seen: Seen) -> None:
    kube.create("hungry", container=HUNGRY, restartPolicy="Always")
    pod = waits(kube, "hungry", "CrashLoopBackOff")
    found = parse(pod)
    assert (found.terminated_reason, found.exit_code, found.restarts) == ("OOMKilled", 137, 1)
    as_seen(seen, "out-of-memory-loop", pod)
