"""What the contract suite asks: one cluster, be it localkube or a real Kubernetes, through the product's own door."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from sandboxes.cluster.client import JSON, ClusterClient, connect, lines
from sandboxes.cluster.errors import Gone
from sandboxes.cluster.snapshot import PodSnapshot

type Json = dict[str, Any]

MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
SLEEP = ["/bin/sh", "-c", "trap 'exit 0' TERM; sleep 3600 & wait"]
"""Runs until it is told to stop, then ends at once and well."""
NOBODY = "nobody"
"""No scheduler has this name: a Pod that waits for it never runs, and nothing changes it."""
LIMIT = 60.0
OWN_TO_A_RUN = ("name", "uid", "version", "sandbox_id", "ip", "node", "created_at", "image", "container_id")
"""Fields of a snapshot that no two Pods share."""


@dataclass(frozen=True)
class Judge:
    """A running cluster. `compact` makes it forget all versions before now; `server` is what a container needs to serve
    a page at port 49983 after a second; `limits`: it can hold a container to its memory limit."""

    name: str
    version: str
    kubeconfig: str
    image: str
    other_image: str
    compact: Callable[[], None]
    server: Json = field(default_factory=dict)
    limits: bool = True


@dataclass(frozen=True)
class Answer:
    """Of one request: what a refusal says counts as much as a success."""

    status: int
    body: Json

    @property
    def reason(self) -> str:
        return str(self.body.get("reason", ""))

    @property
    def message(self) -> str:
        return str(self.body.get("message", ""))


class Kube:
    """One namespace of a judge, under admin rights."""

    def __init__(self, judge: Judge, namespace: str) -> None:
        self.judge = judge
        self.namespace = namespace
        self.image, self.other_image, self.compact = judge.image, judge.other_image, judge.compact
        self.client: ClusterClient = connect(judge.kubeconfig, namespace)
        self.pods = self.client.pods

    def path(self, plural: str, name: str = "") -> str:
        return f"/api/v1/namespaces/{self.namespace}/{plural}{name and '/'}{name}"

    def call(
        self, verb: str, path: str, body: Any = None, content_type: str = JSON, query: dict[str, str] | None = None
    ) -> Answer:
        """One request, whatever comes of it."""
        with self.client.send(verb, path, query=query, body=body, content_type=content_type) as response:
            data = response.read()
            return Answer(response.status, json.loads(data) if data.startswith(b"{") else {"message": data.decode()})

    def manifest(self, name: str, *, container: Json | None = None, metadata: Json | None = None, **spec: Any) -> Json:
        """A Pod that runs until it is stopped; `container`, `metadata` and `spec` add to it."""
        main = {"name": "main", "image": self.image, "command": SLEEP, "imagePullPolicy": "IfNotPresent"}
        usual = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "automountServiceAccountToken": False}
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name} | (metadata or {}),
            "spec": usual | {"containers": [main | (container or {})]} | spec,
        }

    def create(self, name: str, **changes: Any) -> Json:
        return self.client.call("POST", self.pods, body=self.manifest(name, **changes))

    def park(self, name: str, **changes: Any) -> Json:
        """A Pod that nobody schedules."""
        return self.create(name, schedulerName=NOBODY, **changes)

    def pod(self, name: str) -> Json:
        return self.client.call("GET", f"{self.pods}/{name}")

    def patch(self, name: str, body: Any, content_type: str = MERGE) -> Answer:
        return self.call("PATCH", f"{self.pods}/{name}", body, content_type)

    def delete(self, name: str, **options: Any) -> Answer:
        return self.call("DELETE", f"{self.pods}/{name}", options)

    def list(self, **query: str) -> Answer:
        return self.call("GET", self.pods, query=query)

    def names(self, **query: str) -> list[str]:
        return [item["metadata"]["name"] for item in self.list(**query).body["items"]]

    def version(self) -> str:
        """To watch from."""
        return str(self.list(limit="1").body["metadata"]["resourceVersion"])

    def watch(self, version: str, plural: str = "pods", **query: str) -> Iterator[Json]:
        """Raw events until the server ends the watch. With `timeoutSeconds` that is soon."""
        query = {"watch": "true", "resourceVersion": version, "timeoutSeconds": "20"} | query
        with self.client.send("GET", self.path(plural), query={k: v for k, v in query.items() if v}) as response:
            assert response.status == 200, response.read()
            yield from map(json.loads, lines(response))

    def running(self, name: str) -> Json:
        return until(lambda: self.pod(name), lambda pod: pod["status"].get("phase") == "Running")

    def is_there(self, name: str) -> bool:
        try:
            self.pod(name)
        except Gone:
            return False
        return True

    def gone(self, name: str) -> None:
        until(lambda: self.is_there(name), lambda there: not there)


def until[T](look: Callable[[], T], good: Callable[[T], object], limit: float = LIMIT) -> T:
    """What `look` gives as soon as it is good; fails with the last look when time is up."""
    deadline = time.monotonic() + limit
    while not good(seen := look()):
        assert time.monotonic() < deadline, json.dumps(seen, indent=1, default=str)
        time.sleep(0.03)
    return seen


def condition(pod: Json, kind: str) -> Json:
    found = [each for each in pod["status"].get("conditions", []) if each["type"] == kind]
    return found[0] if found else {"status": "Unknown"}


def container_state(pod: Json) -> Json:
    state: Json = (pod["status"].get("containerStatuses") or [{"state": {}}])[0]["state"]
    return state


def told(pod: PodSnapshot) -> Json:
    """What the product reads of a Pod and is alike in every run."""
    return {name: getattr(pod, name) for name in PodSnapshot.__slots__ if name not in OWN_TO_A_RUN}
