"""A localkube with one real node and a few simulated ones, and the clients that people use on it."""

import json
import shutil
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client, config

from tests import localkube_process

NAMESPACE = "agentbox"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
SIMULATED = {"agentbox.io/simulated": "true"}
PYTHON = "/opt/python/bin/python3"
MOUNT = f"{Path(sys.base_prefix).resolve()}:/opt/python"
DAEMON = """
import socket, signal, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
listener = socket.socket(fileno=3)
print("serving", flush=True)
while True:
    connection, _ = listener.accept()
    connection.recv(65536)
    connection.sendall(b"HTTP/1.1 204 No Content\\r\\n\\r\\n")
    connection.close()
"""
Json = dict[str, Any]


class Kube:
    """One localkube and a typed client of it."""

    def __init__(self, process: localkube_process.LocalKube) -> None:
        self.process = process
        self.call = process.call
        self.client = client.CoreV1Api(config.new_client_from_config(str(process.kubeconfig)))

    def create(self, name: str, **changes: Any) -> Json:
        return self.call("POST", PODS, manifest(name, **changes))

    def pod(self, name: str) -> Json:
        return self.call("GET", f"{PODS}/{name}")

    def delete(self, name: str, **options: Any) -> Json:
        return self.call("DELETE", f"{PODS}/{name}", options)

    def names(self, **query: str) -> list[str]:
        words = "&".join(f"{name}={value}" for name, value in query.items())
        return [item["metadata"]["name"] for item in self.call("GET", f"{PODS}?{words}")["items"]]

    def ready(self, name: str) -> Json:
        return wait_for(lambda: self.pod(name), lambda pod: condition(pod, "Ready")["status"] == "True")

    def gone(self, *names: str) -> None:
        wait_for(self.names, lambda present: not set(names) & set(present))

    def call_text(self, path: str) -> str:
        headers = {"Authorization": f"Bearer {self.process.token}"}
        request = urllib.request.Request(self.process.url + path, headers=headers)
        with urllib.request.urlopen(request, timeout=20) as answer:
            text: str = answer.read().decode()
        return text

    def refused_text(self, path: str) -> str:
        """The words of a request that must fail."""
        with pytest.raises(urllib.error.HTTPError) as caught:
            self.call_text(path)
        with caught.value as answer:
            return answer.read().decode()

    def run(self, name: str, *command: str) -> str:
        """Output of a command in a Pod, through the real client."""
        from kubernetes import stream

        connect = self.client.connect_get_namespaced_pod_exec
        wanted = {"stdout": True, "stderr": True, "stdin": False, "tty": False}
        return stream.stream(connect, name, NAMESPACE, command=list(command), **wanted)


def manifest(name: str, *, command: list[str] | None = None, image: str = "base", **spec: Any) -> Json:
    """A Pod with a daemon that is ready at once; `container` and `labels` go where they belong, the rest is spec."""
    labels, more = spec.pop("labels", {}), spec.pop("container", {})
    container: Json = {"name": "main", "image": image, "command": command or [PYTHON, "-S", "-c", DAEMON]}
    container["env"] = [{"name": "LD_LIBRARY_PATH", "value": "/opt/python/lib"}]
    if command is None:
        container["readinessProbe"] = {"httpGet": {"path": "/health", "port": 49983}, "periodSeconds": 1}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels},
        "spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [container | more]} | spec,
    }


def wait_for[T](look: Callable[[], T], good: Callable[[T], bool], seconds: float = 20) -> T:
    """What `look` gives as soon as it is good; fails with the last look when time is up."""
    deadline = time.monotonic() + seconds
    while not good(seen := look()):
        assert time.monotonic() < deadline, json.dumps(seen, indent=1, default=str)
        time.sleep(0.02)
    return seen


def condition(pod: Json, kind: str) -> Json:
    found = [each for each in pod["status"].get("conditions", []) if each["type"] == kind]
    return found[0] if found else {"status": "Unknown"}


def container_state(pod: Json) -> Json:
    return pod["status"].get("containerStatuses", [{"state": {}}])[0]["state"]


FLAGS: Json = {"image": ["base", "base:2"], "mount": [MOUNT], "node_name": "here", "node_cpu": 8}


@pytest.fixture(scope="session")
def shared_kube(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kube]:
    flags = {**FLAGS, "simulated_nodes": 2, "simulated_pods_per_node": 50, "simulate": ["start_median=0.05"]}
    with localkube_process.start(tmp_path_factory.mktemp("localkube"), **flags) as process:
        yield Kube(process)


@pytest.fixture
def kube(shared_kube: Kube) -> Iterator[Kube]:
    """Left without Pods for the next test."""
    yield shared_kube
    for name in shared_kube.names():
        shared_kube.delete(name, gracePeriodSeconds=0)


@pytest.fixture
def start_kube(tmp_path: Path) -> Iterator[Callable[..., Kube]]:
    """Starts a localkube of the test's own; the same `name` is the same state folder."""
    started: list[Kube] = []

    def start(name: str = "own", **flags: Any) -> Kube:
        started.append(Kube(localkube_process.start(tmp_path / name, **{**FLAGS, **flags})))
        return started[-1]

    yield start
    for each in started:
        each.process.stop()


@pytest.fixture(scope="session")
def kubectl() -> str:
    found = shutil.which("kubectl")
    if not found:
        pytest.skip("kubectl is not installed")
    return found
