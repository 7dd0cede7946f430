"""Simulated nodes: start times, faults, and the stub that answers for all."""

import http.client
import urllib.error
from collections.abc import Iterator

import pytest

from .conftest import PODS, SIMULATED, Kube, condition, container_state, wait_for

FAULTS = {"slow": 0, "never_ready": 0, "image_missing": 0, "crash_loop": 0, "evicted": 0}


@pytest.fixture
def simulated(kube: Kube) -> Iterator[Kube]:
    """With its faults taken back afterwards."""
    yield kube
    kube.call("PUT", "/localkube/simulation", FAULTS | {"start_median": 0.05})


def troubled(kube: Kube, **settings: float) -> Kube:
    kube.call("PUT", "/localkube/simulation", settings)
    kube.create("sim", nodeSelector=SIMULATED, restartPolicy="Always")
    return kube


def reason(pod: dict) -> str:
    return str(container_state(pod).get("waiting", {}).get("reason", ""))


def test_a_simulated_pod_is_ready_and_its_stub_answers_until_it_is_gone(simulated: Kube) -> None:
    simulated.create("sim", nodeSelector=SIMULATED)
    address = simulated.ready("sim")["status"]["podIP"]
    connection = http.client.HTTPConnection(address, 49983, timeout=5)
    for method, path, status in (("GET", "/health", 204), ("POST", "/init", 204), ("GET", "/other", 404)):
        connection.request(method, path, b'{"token": "x"}' if method == "POST" else None)
        with connection.getresponse() as answer:
            assert answer.status == status
    connection.close()
    simulated.delete("sim")
    simulated.gone("sim")
    with pytest.raises(ConnectionRefusedError):
        http.client.HTTPConnection(address, 49983, timeout=5).connect()


def test_a_slow_pod_takes_its_time(simulated: Kube) -> None:
    troubled(simulated, slow=1, slow_factor=1000)
    with pytest.raises(AssertionError):
        wait_for(lambda: simulated.pod("sim"), lambda pod: condition(pod, "Ready")["status"] == "True", seconds=0.5)


def test_one_that_never_gets_ready_runs_all_the_same(simulated: Kube) -> None:
    troubled(simulated, never_ready=1)
    pod = wait_for(lambda: simulated.pod("sim"), lambda pod: pod["status"]["phase"] == "Running")
    assert condition(pod, "Ready")["reason"] == "ContainersNotReady"


def test_a_missing_image_backs_off(simulated: Kube) -> None:
    troubled(simulated, image_missing=1)
    wait_for(lambda: simulated.pod("sim"), lambda pod: reason(pod) == "ImagePullBackOff")


def test_a_crash_loop_backs_off(simulated: Kube) -> None:
    troubled(simulated, crash_loop=1, crash_after=0.05)
    wait_for(lambda: simulated.pod("sim"), lambda pod: reason(pod) == "CrashLoopBackOff")


def test_an_evicted_pod_has_failed(simulated: Kube) -> None:
    troubled(simulated, evicted=1, evict_after=0.05)
    pod = wait_for(lambda: simulated.pod("sim"), lambda pod: pod["status"]["phase"] == "Failed")
    assert pod["status"]["reason"] == "Evicted"
    assert condition(pod, "Ready")["status"] == "False"


def test_another_image_restarts_a_simulated_container(simulated: Kube) -> None:
    simulated.create("sim", nodeSelector=SIMULATED)
    simulated.ready("sim")
    patch = {"spec": {"containers": [{"name": "main", "image": "base:2"}]}}
    simulated.call("PATCH", f"{PODS}/sim", patch, "application/strategic-merge-patch+json")
    wait_for(lambda: simulated.pod("sim"), lambda pod: pod["status"]["containerStatuses"][0]["restartCount"] == 1)
    assert simulated.ready("sim")["status"]["containerStatuses"][0]["image"] == "base:2"


def test_settings_are_checked(simulated: Kube) -> None:
    for bad in ({"nonsense": 1}, {"slow": 2}, {"start_median": "soon"}, {"start_sigma": -1}, {"slow": None}):
        with pytest.raises(urllib.error.HTTPError) as caught:
            simulated.call("PUT", "/localkube/simulation", bad)
        caught.value.close()
        assert caught.value.code == 400
    assert simulated.call("GET", "/localkube/simulation")["slow"] == 0


def refuses(address: str) -> bool:
    connection = http.client.HTTPConnection(address, 49983, timeout=5)
    try:
        connection.connect()
    except ConnectionRefusedError:
        return True
    finally:
        connection.close()
    return False


def test_a_lost_node_takes_its_pods(start_kube) -> None:
    flags = {"node_name": "", "simulated_nodes": 2, "simulated_pods_per_node": 2}
    kube = start_kube(**flags, simulate=["start_median=0.01", "node_eviction=0.5"])
    for number in range(4):
        kube.create(f"p-{number}")
    for number in range(4):
        kube.ready(f"p-{number}")
    lost = set(kube.names(fieldSelector="spec.nodeName%3Dsimulated-0"))
    address = kube.pod(min(lost))["status"]["podIP"]
    kube.call("POST", "/localkube/nodes/simulated-0/down")
    assert all(condition(kube.pod(name), "Ready")["status"] == "False" for name in lost)
    wait_for(lambda: refuses(address), bool)
    kube.gone(*lost)
    kube.create("late")
    assert "untolerated taint" in condition(kube.pod("late"), "PodScheduled")["message"]


def test_hundreds_of_pods_come_and_go(start_kube) -> None:
    flags = {"node_name": "", "simulated_nodes": 2, "simulated_pods_per_node": 150}
    kube = start_kube(**flags, simulate=["start_median=0.05", "stop_median=0.01"])
    for number in range(300):
        kube.create(f"p-{number}")
    wait_for(lambda: ready_pods(kube), lambda count: count == 300, seconds=30)
    kube.create("one-too-many")
    assert "2 Too many pods" in condition(kube.pod("one-too-many"), "PodScheduled")["message"]
    kube.delete("p-0")
    kube.ready("one-too-many")


def ready_pods(kube: Kube) -> int:
    return sum(condition(pod, "Ready")["status"] == "True" for pod in kube.call("GET", PODS)["items"])
