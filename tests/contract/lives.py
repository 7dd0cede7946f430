"""What the Pods' half of the suite asks again and again: a Pod's course, what was said of it, its log, its commands."""

from __future__ import annotations

import json
import re
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from urllib.parse import urlencode

from websockets.sync.client import ClientConnection, connect

from sandboxes.cluster.client import WATCH, lines
from sandboxes.cluster.snapshot import PodSnapshot, parse
from tests.contract.kube import LIMIT, Answer, Json, Kube, told, until
from tests.contract.sightings import Seen

STDIN, STDOUT, STDERR, STATUS, RESIZE, CLOSE = 0, 1, 2, 3, 4, 255
HANDSHAKES = 3
"""Channels of a stream into a Pod; the last, of v5, says that one of the others has ended."""


def shell(script: str) -> Json:
    return {"command": ["/bin/sh", "-c", script]}


def becomes(kube: Kube, name: str, good: Callable[[PodSnapshot], object], limit: float = LIMIT) -> Json:
    """The Pod as soon as what the product reads of it is good."""
    return until(lambda: kube.pod(name), lambda pod: good(parse(pod)), limit)


def waits(kube: Kube, name: str, reason: str) -> Json:
    return becomes(kube, name, lambda pod: pod.waiting_reason == reason)


def ends(kube: Kube, name: str) -> Json:
    return becomes(kube, name, lambda pod: pod.finished)


def course(kube: Kube, name: str, version: str, good: Callable[[PodSnapshot], object]) -> list[PodSnapshot]:
    """All that a watch from `version` on tells of a Pod, until it is good or deleted."""
    query = {"watch": "true", "resourceVersion": version, "timeoutSeconds": str(int(LIMIT))}
    query["fieldSelector"] = f"metadata.name={name}"
    seen: list[PodSnapshot] = []
    with kube.client.send("GET", kube.pods, query=query, timeout=WATCH) as response:
        for event in map(json.loads, lines(response)):
            seen.append(parse(event["object"]))
            if good(seen[-1]) or event["type"] == "DELETED":
                return seen
    raise AssertionError(seen)


def events(kube: Kube, name: str, **fields: str) -> list[Json]:
    """What was said of a Pod, oldest first; but for what the kubelet says of a cluster without DNS."""
    about = {"involvedObject.name": name}
    if kube.is_there(name):  # it may not be the first of that name
        about["involvedObject.uid"] = kube.pod(name)["metadata"]["uid"]
    selector = ",".join(f"{key}={value}" for key, value in {**about, **fields}.items())
    items: list[Json] = kube.call("GET", kube.path("events"), query={"fieldSelector": selector}).body["items"]
    return [event for event in items if event["reason"] != "MissingClusterDNS"]


def said(kube: Kube, name: str, reason: str, words: str) -> Json:
    """The event of that reason whose message matches `words` from its beginning; events come a little late."""
    found = until(
        lambda: events(kube, name),
        lambda items: any(e["reason"] == reason and re.match(words, e["message"]) for e in items),
    )
    return next(e for e in found if e["reason"] == reason and re.match(words, e["message"]))


def log(kube: Kube, name: str, **query: Any) -> Answer:
    """The answer whole: `message` is the log, or says why there is none."""
    return kube.call("GET", f"{kube.pods}/{name}/log", query={key: str(value) for key, value in query.items()})


def as_seen(seen: Seen, case: str, pod: Json) -> Json:
    """What the product reads of a Pod: here, and then as it was on the real cluster. The two must be equal."""
    on_kubernetes = _read(seen(case, pod))
    assert _read(seen.stable(pod)) == on_kubernetes
    return on_kubernetes


def _read(item: Json) -> Json:
    pod = parse(item)
    return told(pod) | {name: bool(getattr(pod, name)) for name in ("ip", "node", "container_id")}


@dataclass
class Output:
    """What a command in a Pod gave; `status` is the answer of the API when it has ended."""

    stdout: bytes = b""
    stderr: bytes = b""
    status: Json = field(default_factory=dict)

    @property
    def code(self) -> int:
        """Its exit code, in Kubernetes' way to tell it."""
        if self.status["status"] == "Success":
            return 0
        (cause,) = [each for each in self.status["details"]["causes"] if each["reason"] == "ExitCode"]
        return int(cause["message"])


@contextmanager
def session(
    kube: Kube, name: str, *command: str, protocol: str = "v5.channel.k8s.io", **wanted: bool | str
) -> Iterator[ClientConnection]:
    """A WebSocket to a command in a Pod, which is running when the session begins."""
    streams = {"stdout": "true", "stderr": "true"} | {key: str(value).lower() for key, value in wanted.items()}
    configuration = kube.client.api.configuration
    token = configuration.auth_settings().get("BearerToken")
    url = f"{configuration.host}{kube.pods}/{name}/exec?{urlencode({'command': command, **streams}, doseq=True)}"
    trust = _trust(configuration) if url.startswith("https") else None
    headers = {"Authorization": token["value"]} if token else {}
    with _connected(url.replace("http", "ws", 1), protocol, headers, trust) as socket:
        assert socket.subprotocol == protocol
        yield socket


def _connected(url: str, protocol: str, headers: dict[str, str], trust: ssl.SSLContext | None) -> ClientConnection:
    """containerd now and then never answers for a command that ends at once: then it is asked again."""
    ask = partial(connect, url, subprotocols=[protocol], additional_headers=headers, ssl=trust, proxy=None)
    for _ in range(HANDSHAKES - 1):
        with suppress(TimeoutError):
            return ask()
    return ask()


def _trust(configuration: Any) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=configuration.ssl_ca_cert)
    if configuration.cert_file:
        context.load_cert_chain(configuration.cert_file, configuration.key_file)
    return context


def send(socket: ClientConnection, channel: int, data: bytes) -> None:
    socket.send(bytes([channel]) + data)


def output(socket: ClientConnection) -> Output:
    """All that comes until the command has ended."""
    result = Output()
    for message in socket:
        channel, data = message[0], bytes(message[1:])
        if channel == STDOUT:
            result.stdout += data
        elif channel == STDERR:
            result.stderr += data
        elif channel == STATUS:
            result.status = json.loads(data)
    return result


def run(kube: Kube, name: str, *command: str, **wanted: bool | str) -> Output:
    with session(kube, name, *command, **wanted) as socket:
        return output(socket)
