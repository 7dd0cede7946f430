"""Calls to one Kubernetes cluster: raw JSON in and out, a timeout on each, errors classified.

One retry authority per layer: nothing is retried here. The client library is imported on first use, because it costs
a second (codebases.md 0.6).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any
from urllib.parse import urlencode

import orjson
from urllib3 import BaseHTTPResponse, Timeout
from urllib3.exceptions import HTTPError

from sandboxes import times

from .errors import AlreadyExists, ClusterError, Gone, NotAllowed, PreconditionFailed, Transient, classify
from .manifest import SELECTOR
from .snapshot import IMAGE_CHANGED, Json, PodSnapshot, parse

PAGE = 500
CONNECTIONS = 32
CHUNK = 1 << 16
JSON = "application/json"
STRATEGIC_MERGE = "application/strategic-merge-patch+json"
CONTAINER = "sandbox"
"""The manifest's name of the container whose image may change."""
WHY_NOT_STARTED = ("Failed", "InspectFailed")
"""Reasons of events in which a kubelet says why it could not pull an image or start a container."""
WATCH_SECONDS = 300
REQUEST = Timeout(total=times.API_REQUEST)
WATCH = Timeout(connect=times.API_REQUEST, read=90.0)
"""A watch without even a bookmark for this long is dead: bookmarks come about once a minute."""


@dataclass(frozen=True, slots=True)
class Change:
    """One watch event. `kind`: ADDED, MODIFIED, DELETED or BOOKMARK (then without a Pod)."""

    kind: str
    version: str
    pod: PodSnapshot | None


@cache
def connect(kubeconfig: str, namespace: str) -> ClusterClient:
    """One client a process for each cluster; `kubeconfig` "" means KUBECONFIG, then the Pod's own account."""
    return ClusterClient(api_client(kubeconfig), namespace)


def api_client(kubeconfig: str) -> Any:
    from kubernetes import client, config

    configuration = client.Configuration()
    try:
        config.load_config(config_file=kubeconfig or None, client_configuration=configuration)
    except config.ConfigException as error:
        raise NotAllowed(f"No usable kubeconfig ({error}). Set KUBECONFIG or the cluster's kubeconfig.") from error
    configuration.retries = False
    configuration.keep_alive = True
    configuration.connection_pool_maxsize = CONNECTIONS
    return client.ApiClient(configuration)


class ClusterClient:
    """The verbs we use, on Pods of ours in one namespace. Safe to share between threads."""

    def __init__(self, api: Any, namespace: str) -> None:
        self.api = api
        self.namespace = namespace
        self.pods = f"/api/v1/namespaces/{namespace}/pods"

    def uid(self) -> str:
        """The cluster's identity: the uid of its kube-system namespace."""
        return str(self.call("GET", "/api/v1/namespaces/kube-system")["metadata"]["uid"])

    def create(self, pod: Json) -> str:
        """The new Pod's uid; AlreadyExists if the name is taken."""
        return str(self.call("POST", self.pods, body=pod)["metadata"]["uid"])

    def delete(self, name: str, uid: str = "") -> None:
        """Ask for the Pod's end. Gone if it is not there, PreconditionFailed if another has the name."""
        body: Json = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
        if uid:
            body["preconditions"] = {"uid": uid}
        try:
            self.call("DELETE", f"{self.pods}/{name}", body=body)
        except AlreadyExists as error:
            raise PreconditionFailed(error.message) from error

    def read(self, name: str) -> PodSnapshot:
        """The one Pod, not from a cache; Gone if it is not there."""
        return parse(self.call("GET", f"{self.pods}/{name}"))

    def exists(self, name: str) -> bool:
        try:
            self.read(name)
        except Gone:
            return False
        return True

    def patch_image(self, name: str, image: str) -> PodSnapshot:
        """Have the Pod's container replaced, in place, by one of another image; the Pod as it was at that moment.

        Names are unique for ever, so no uid guards it.
        """
        spec = {"containers": [{"name": CONTAINER, "image": image}]}
        body = {"metadata": {"annotations": {IMAGE_CHANGED: "true"}}, "spec": spec}
        return parse(self.call("PATCH", f"{self.pods}/{name}", body=body, content_type=STRATEGIC_MERGE))

    def why_not_started(self, uid: str) -> str:
        """The newest words of a kubelet about an image or container of this Pod that would not start, "" if none.

        A Pod that is never restarted ends without them in its status.
        """
        query = {"fieldSelector": f"involvedObject.uid={uid},type=Warning"}
        events = self.call("GET", f"/api/v1/namespaces/{self.namespace}/events", query=query)["items"]
        said = [event["message"] for event in events if event.get("reason") in WHY_NOT_STARTED]
        causes = [message for message in said if not message.startswith("Error: ")] or said
        return causes[-1] if causes else ""

    def list_pods(self) -> tuple[list[PodSnapshot], str]:
        """All Pods of ours and the resourceVersion to watch from."""
        pods: list[PodSnapshot] = []
        query = {"labelSelector": SELECTOR, "limit": str(PAGE)}
        token = ""
        while True:
            answer = self.call("GET", self.pods, query=query | {"continue": token} if token else query)
            pods.extend(parse(item) for item in answer["items"])
            token = answer["metadata"].get("continue", "")
            if not token:
                return pods, answer["metadata"]["resourceVersion"]

    def watch(self, version: str) -> Iterator[Change]:
        """Changes after `version` until the server ends the watch; Expired when that version is too old."""
        query = {
            "watch": "true",
            "labelSelector": SELECTOR,
            "resourceVersion": version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(WATCH_SECONDS),
        }
        with reachable("The watch broke"), self.send("GET", self.pods, query=query, timeout=WATCH) as response:
            if response.status >= 400:
                raise refused(response)
            for line in lines(response):
                yield as_change(orjson.loads(line))

    def call(
        self,
        verb: str,
        path: str,
        *,
        query: dict[str, str] | None = None,
        body: Json | None = None,
        content_type: str = JSON,
    ) -> Json:
        """One request; the answer's JSON, or a ClusterError."""
        with (
            reachable("The Kubernetes API does not answer"),
            self.send(verb, path, query=query, body=body, content_type=content_type) as response,
        ):
            if response.status >= 400:
                raise refused(response)
            answer: Json = orjson.loads(response.read())
            return answer

    def send(
        self,
        verb: str,
        path: str,
        *,
        query: dict[str, str] | None = None,
        body: Json | None = None,
        content_type: str = JSON,
        timeout: Timeout = REQUEST,
    ) -> BaseHTTPResponse:
        """By the client library's connections and credentials, past its models: they cost half a millisecond a call."""
        configuration = self.api.configuration
        token = configuration.auth_settings().get("BearerToken")
        authorization = {"Authorization": token["value"]} if token else {}
        response: BaseHTTPResponse = self.api.rest_client.pool_manager.request(
            verb,
            f"{configuration.host}{path}?{urlencode(query)}" if query else f"{configuration.host}{path}",
            body=None if body is None else orjson.dumps(body),
            headers={**self.api.default_headers, "Accept": JSON, "Content-Type": content_type, **authorization},
            timeout=timeout,
            preload_content=False,
            retries=False,
        )
        return response


@contextmanager
def reachable(otherwise: str) -> Iterator[None]:
    """Trouble on the way is Transient, in the words of `otherwise`."""
    try:
        yield
    except (OSError, HTTPError) as error:
        raise Transient(f"{otherwise}: {error}") from error


def refused(response: BaseHTTPResponse) -> ClusterError:
    retry_after = response.headers.get("Retry-After", "")
    return classify(response.status, message_of(response.read()), float(retry_after) if retry_after.isdigit() else 0.0)


def lines(response: BaseHTTPResponse) -> Iterator[bytes]:
    rest = b""
    for chunk in response.stream(CHUNK):
        *whole, rest = (rest + chunk).split(b"\n")
        yield from whole


def as_change(event: Json) -> Change:
    """Raises what an ERROR event says; 410 in the midst of a watch comes as one."""
    kind, item = event["type"], event["object"]
    if kind == "ERROR":
        raise classify(item.get("code", 0), item.get("message", "The watch ended with an error."))
    return Change(kind, item["metadata"]["resourceVersion"], None if kind == "BOOKMARK" else parse(item))


def message_of(data: bytes) -> str:
    """The server's own words from a Status object, or the body's beginning."""
    try:
        return str(orjson.loads(data)["message"])
    except (ValueError, KeyError, TypeError):
        return data[:200].decode(errors="replace")
