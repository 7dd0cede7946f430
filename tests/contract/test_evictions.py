"""A Pod that its kubelet puts out, for taking more of the disk than it may; on localkube a fault does it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sandboxes.cluster.snapshot import parse
from tests.contract import judges
from tests.contract.conftest import ON
from tests.contract.kube import Json, Kube, container_state, told
from tests.contract.lives import ends, said, shell
from tests.contract.sightings import Seen

GREEDY = shell("dd if=/dev/zero of=/tmp/much bs=1M count=20; sleep 3600")
GREEDY |= {"resources": {"limits": {"ephemeral-storage": "4Mi"}}}


@pytest.fixture(params=ON)
def evicting(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Kube]:
    if request.param == "localkube":
        with judges.simulated(tmp_path, evicted=1, evict_after=0.1) as (judge, _):
            yield Kube(judge, "agentbox")
        return
    yield Kube(request.getfixturevalue("kubernetes"), "default")


@pytest.mark.parametrize("policy", ["Always", "Never"])
def test_an_evicted_pod_has_failed_whatever_its_policy(evicting: Kube, policy: str) -> None:
    name = f"greedy-{policy.lower()}"
    evicting.create(name, container=GREEDY, restartPolicy=policy)
    pod = ends(evicting, name)
    found, seen = parse(pod), Seen(evicting)
    evicting.delete(name)
    assert (found.phase, found.reason, found.ready) == ("Failed", "Evicted", False)
    assert found.message
    assert found.exit_code == 137
    assert found.terminated_reason in {"Error", "ContainerStatusUnknown"}, "the kubelet may lose sight of it"
    assert "terminated" in container_state(pod)
    assert without_cause(seen.stable(pod)) == without_cause(seen(f"evicted-{policy.lower()}", pod))
    assert said(evicting, name, "Evicted", "")["message"] == found.message


def without_cause(pod: Json) -> Json:
    """What was lacking, how much of it, and whether the end of the container was seen, differ each time."""
    return told(parse(pod)) | {"message": "", "terminated_reason": ""}
