"""The product's own Pods on the real cluster: envd brought by its image, and commands with what the env added."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from pools.pod_template import problems
from sandboxes.cluster.manifest import CAPABILITIES, manifest
from sandboxes.tokens import bootstrap_digest
from tests.kubernetes.images import Images, push_all
from tests.kubernetes.single_node import SingleNode, is_ready, until
from tests.sandboxes.cluster.test_wishes import run
from tests.sandboxes.pods import SPEC

TEMPLATE: dict[str, Any] = {
    "nodeSelector": {"kubernetes.io/os": "linux"},
    "tolerations": [{"key": "gpu", "operator": "Exists"}],
    "env": [
        {"name": "GREETING", "value": "from the env"},
        {"name": "LD_PRELOAD", "value": "/no/library"},
        {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "rl.hub", "key": "token"}}},
    ],
    "volumes": [{"name": "scratch", "emptyDir": {"sizeLimit": "10Mi"}}],
    "volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}],
}
ASK = "cat /etc/image; id -u; env; grep -E 'CapBnd|NoNewPrivs|Seccomp:' /proc/self/status; cd /scratch; touch a; ls"


@pytest.fixture(scope="module")
def images(cluster: SingleNode) -> Images:
    return push_all(cluster.registry)


@pytest.fixture(scope="module", autouse=True)
def secret(cluster: SingleNode) -> Iterator[None]:
    cluster.kubectl(
        "--namespace", "agentbox", "create", "secret", "generic", "rl.hub", "--from-literal", "token=s3cret"
    )
    yield
    cluster.kubectl("--namespace", "agentbox", "delete", "secret", "rl.hub")


@pytest.fixture
def start(cluster: SingleNode, images: Images) -> Iterator[Callable[..., str]]:
    """The address of a ready sandbox of that image."""
    spec = replace(SPEC, envd_image=images.envd, envd_install=["/opt/agentbox/bin/envd", "install", "/target"])
    spec = replace(spec, disk_mib=512, cpu_millis=200, node_selector={}, bootstrap_digest=bootstrap_digest("iabc"))

    def started(image: str, **template: Any) -> str:
        assert problems(template, "rl") == []
        cluster.client.create(manifest(replace(spec, image=image, template=template)))
        until(lambda: is_ready(cluster.pod(SPEC.name)), "the sandbox is Ready")
        return str(cluster.pod(SPEC.name)["status"]["podIP"])

    yield started
    cluster.delete_pod(SPEC.name)


@pytest.mark.parametrize(("kind", "uid"), [("debian", "1000"), ("busybox", "0"), ("nonroot", "1001")])
def test_commands_have_what_the_env_added_and_no_right_too_many(
    start: Callable[..., str], images: Images, kind: str, uid: str
) -> None:
    seen = run(start(getattr(images, kind), **TEMPLATE), "iabc", "/bin/sh", "-c", ASK).splitlines()
    assert seen[:2] == [kind, uid]
    assert {"GREETING=from the env", "TOKEN=s3cret", "LD_PRELOAD=/no/library"} <= set(seen)
    bound = int(next(line for line in seen if line.startswith("CapBnd")).split()[1], 16)
    assert bound.bit_count() == len(CAPABILITIES)
    assert {"NoNewPrivs:\t1", "Seccomp:\t2"} <= set(seen)
    assert seen[-1] == "a"


def test_root_works_for_users_with_the_capabilities_that_are_left(start: Callable[..., str], images: Images) -> None:
    script = "cd /home/user && touch mine && chown user:user mine && chmod 600 mine && ls -ln mine; id -u"
    seen = run(start(images.debian), "iabc", "/bin/sh", "-c", script, defaultUser="root")
    assert "1000 1000" in seen
    assert seen.splitlines()[-1] == "0"
