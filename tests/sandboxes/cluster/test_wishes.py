"""What an env adds reaches its sandboxes: from the row over drain to a real Pod, and to the commands in it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.db import IntegrityError

from console.up.options import Options
from console.up.programs import mounts
from pools import services
from pools.models import InstanceType, Pool
from sandboxes import drain, transitions
from sandboxes.cluster.client import connect
from sandboxes.cluster.snapshot import PodSnapshot
from sandboxes.models import pod_name
from sandboxes.tokens import bootstrap_token, new_sandbox_id
from tests.factories import make_cluster, make_env, make_group, make_pool, make_team
from tests.localkube_process import LocalKube, start
from tests.sandboxes.envd.daemon import enveloped, output, unpacked

PODS = "/api/v1/namespaces/agentbox/pods"
JSON = {"Content-Type": "application/json"}
NODE = {"kubernetes.io/hostname": "here"}


@pytest.fixture
def real(tmp_path: Path) -> Iterator[LocalKube]:
    """A localkube with a real node, called here, and simulated ones beside it."""
    places = mounts(Options(port=0, var=tmp_path))[1::2]
    with start(tmp_path / "kube", node_name="here", simulated_nodes=2, image="*", mount=places) as kube:
        yield kube


@pytest.fixture
def place(real: LocalKube, transactional_db: None) -> Pool:
    cluster = make_cluster("real", kubeconfig=str(real.kubeconfig), create_rate=200)
    return make_pool(make_group(env=make_env(make_team("rl"), image="base:1")), cluster, node_selector=NODE)


def started(place: Pool) -> str:
    """A sandbox of the pool, once its Pod has been posted."""
    sandbox_id = new_sandbox_id()
    transitions.insert_pending(place.pk, [sandbox_id])
    assert drain.drain(place.cluster_id) == 1
    return sandbox_id


def edit(place: Pool, **template: Any) -> None:
    env = place.group.env
    env.refresh_from_db()
    services.edit_env(env=env, actor="test", generation=env.generation, template=template)


def ready(place: Pool, name: str) -> PodSnapshot:
    api = connect(place.cluster.kubeconfig, "agentbox")
    deadline = time.monotonic() + 30
    while not (found := next(pod for pod in api.list_pods()[0] if pod.name == name)).ready:
        assert time.monotonic() < deadline, found
        time.sleep(0.05)
    return found


def run(ip: str, sandbox_id: str, *command: str, **init: Any) -> str:
    """The output of a command in the sandbox, after its /init."""
    connection = HTTPConnection(ip, 49983, timeout=20)
    token = {"Authorization": f"Bearer {bootstrap_token(sandbox_id)}"}
    connection.request("POST", "/init", json.dumps({"accessToken": "secret", **init}), JSON | token)
    connection.getresponse().read()
    process = {"process": {"cmd": command[0], "args": command[1:]}, "stdin": False}
    headers = {"Content-Type": "application/connect+json", "X-Access-Token": "secret"}
    connection.request("POST", "/process.Process/Start", enveloped(process), headers)
    answer = connection.getresponse().read()
    connection.close()
    return output(list(unpacked(answer))).decode()


@pytest.mark.namespaces
def test_commands_in_a_real_pod_see_the_envs_variables_and_volumes(place: Pool) -> None:
    variables = [{"name": "GREETING", "value": "from the env"}, {"name": "WINNER", "value": "env"}]
    volumes = [{"name": "scratch", "emptyDir": {}}]
    mounted = [{"name": "scratch", "mountPath": "/scratch"}]
    edit(place, env=[*variables, {"name": "LD_PRELOAD", "value": "/no/library"}], volumes=volumes, volumeMounts=mounted)
    sandbox_id = started(place)
    pod = ready(place, pod_name(sandbox_id))
    assert pod.node == "here"
    seen = run(
        pod.ip, sandbox_id, "/bin/sh", "-c", "env; touch /scratch/it && ls /scratch", envVars={"WINNER": "claim"}
    )
    lines = seen.splitlines()
    assert {"GREETING=from the env", "WINNER=claim", "LD_PRELOAD=/no/library"} <= set(lines)
    assert lines[-1] == "it"
    assert "ENVD_" not in seen


@pytest.mark.namespaces
def test_root_acts_as_other_users_with_the_capabilities_that_are_left(place: Pool) -> None:
    sandbox_id = started(place)
    pod = ready(place, pod_name(sandbox_id))
    look = "grep -h -E 'CapBnd|CapEff|NoNewPrivs|Seccomp:' /proc/1/status /proc/self/status; id -u"
    seen = run(pod.ip, sandbox_id, "/bin/sh", "-c", look, defaultUser="root")
    bounds = {int(line.split()[1], 16) for line in seen.splitlines() if line.startswith("CapBnd")}
    six = sum(1 << number for number in (0, 1, 3, 5, 6, 7))
    assert bounds == {six}, seen


@pytest.mark.namespaces
def test_a_changed_template_is_for_new_pods_only(place: Pool, real: LocalKube) -> None:
    old = pod_name(started(place))
    edit(place, nodeSelector={"agentbox.io/simulated": "true"}, tolerations=[{"key": "gpu", "operator": "Exists"}])
    new = pod_name(started(place))
    assert real.call("GET", f"{PODS}/{old}")["spec"]["nodeSelector"] == NODE
    spec = real.call("GET", f"{PODS}/{new}")["spec"]
    assert spec["nodeSelector"] == {"agentbox.io/simulated": "true"} | NODE
    assert spec["tolerations"] == [{"key": "gpu", "operator": "Exists"}]
    assert "nodeName" not in spec, "no node has both labels"


def test_a_type_that_reserves_little_fits_more_often_on_a_node_than_it_would_by_its_size(
    real: LocalKube, place: Pool
) -> None:
    InstanceType.objects.update(cpu_millis=64_000, cpu_request_millis=10, memory_request_mib=32)
    pod = ready(place, pod_name(started(place)))
    container = real.call("GET", f"{PODS}/{pod.name}")["spec"]["containers"][0]
    assert container["resources"]["requests"] == {"cpu": "10m", "memory": "32Mi", "ephemeral-storage": "1024Mi"}
    assert container["resources"]["limits"]["cpu"] == "64000m"


def test_a_type_cannot_reserve_more_than_a_sandbox_may_use(place: Pool) -> None:
    with pytest.raises(IntegrityError, match="reserves_no_more"):
        InstanceType.objects.update(memory_request_mib=1_000_000)
    with pytest.raises(ValidationError, match="cannot reserve more"):
        InstanceType(name="odd", cpu_millis=10, memory_mib=64, cpu_request_millis=20).full_clean()
