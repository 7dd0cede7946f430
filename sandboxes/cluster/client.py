"""Calls to one Kubernetes cluster: raw JSON in and out, a timeout on each, errors classified.

One retry authority per layer: nothing is retried here. The client library is imported on first use, because it costs
a second (codebases.md 0.6).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from sandboxes import times

from .errors import AlreadyExists, Expired, Gone, PreconditionFailed, Rejected, Transient, classify
from .manifest import SELECTOR
from .snapshot import Json, PodSnapshot, parse

PAGE = 500
CONNECTIONS = 32
WATCH_SECONDS = 300
WATCH_SILENCE = 90.0
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
        raise Rejected(f"No usable kubeconfig ({error}). Set KUBECONFIG or the cluster's kubeconfig.") from error
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

    def exists(self, name: str) -> bool:
        """A read of the one Pod, not of a cache."""
        try:
            self.call("GET", f"{self.pods}/{name}")
        except Gone:
            return False
        return True

    def list_pods(self) -> tuple[list[PodSnapshot], str]:
        """All Pods of ours and the resourceVersion to watch from."""
        pods: list[PodSnapshot] = []
        query = [("labelSelector", SELECTOR), ("limit", str(PAGE))]
        token = ""
        while True:
            answer = self.call("GET", self.pods, query=[*query, ("continue", token)] if token else query)
            pods.extend(parse(item) for item in answer["items"])
            token = answer["metadata"].get("continue", "")
            if not token:
                return pods, answer["metadata"]["resourceVersion"]

    def watch(self, version: str) -> Iterator[Change]:
        """Changes after `version` until the server ends the watch; Expired when that version is too old."""
        from kubernetes import client, watch

        try:
            for event in watch.Watch(return_type="object").stream(
                client.CoreV1Api(self.api).list_namespaced_pod,
                self.namespace,
                label_selector=SELECTOR,
                resource_version=version,
                allow_watch_bookmarks=True,
                timeout_seconds=WATCH_SECONDS,
                _request_timeout=(times.API_REQUEST, WATCH_SILENCE),
            ):
                yield as_change(event["type"], event["raw_object"])
        except client.ApiException as error:
            if error.status == 410:
                raise Expired(str(error.reason)) from error
            raise classify(error.status or 0, str(error.reason)) from error
        except (OSError, transport_error()) as error:
            raise Transient(f"The watch broke: {error}") from error

    def call(
        self, verb: str, path: str, *, query: list[tuple[str, str]] | None = None, body: Json | None = None
    ) -> Json:
        """One request; the answer's JSON, or a ClusterError."""
        headers = {"Accept": "application/json", "Content-Type": "application/json"}
        request = self.api.param_serialize(
            verb, path, query_params=query or [], header_params=headers, body=body, auth_settings=["BearerToken"]
        )
        try:
            response = self.api.call_api(*request, _request_timeout=times.API_REQUEST)
            data = response.read()
        except (OSError, transport_error(), api_exception()) as error:
            raise Transient(f"The Kubernetes API does not answer: {error}") from error
        if response.status >= 400:
            retry_after = response.headers.get("Retry-After", "")
            raise classify(response.status, message_of(data), float(retry_after) if retry_after.isdigit() else 0.0)
        return dict(json.loads(data))


def as_change(kind: str, item: Json) -> Change:
    version = item["metadata"]["resourceVersion"]
    return Change(kind, version, None if kind == "BOOKMARK" else parse(item))


def message_of(data: bytes) -> str:
    """The server's own words from a Status object, or the body's beginning."""
    try:
        return str(json.loads(data)["message"])
    except (ValueError, KeyError, TypeError):
        return data[:200].decode(errors="replace")


@cache
def transport_error() -> type[Exception]:
    from urllib3.exceptions import HTTPError

    return HTTPError


@cache
def api_exception() -> type[Exception]:
    from kubernetes.client import ApiException

    exception: type[Exception] = ApiException
    return exception
