"""The columns of `kubectl get`, which wants them from the server."""

import time
from calendar import timegm
from collections.abc import Callable

from sandboxes.localkube.objects import Json, Kind, dig
from sandboxes.localkube.store import Entry, Page
from sandboxes.localkube.store import encode as encode_json

_COLUMNS: dict[str, dict[str, Callable[[Json], str]]] = {
    "Pod": {
        "Ready": lambda pod: f"{sum(each['ready'] for each in pod['status'].get('containerStatuses', ()))}/1",
        "Status": lambda pod: _pod_status(pod),
        "Restarts": lambda pod: str(sum(each["restartCount"] for each in pod["status"].get("containerStatuses", ()))),
    },
    "Node": {
        "Status": lambda node: "Ready" if node["status"]["conditions"][0]["status"] == "True" else "NotReady",
        "Version": lambda node: dig(node, "status.nodeInfo.kubeletVersion"),
    },
    "Namespace": {"Status": lambda namespace: dig(namespace, "status.phase")},
    "Event": {
        "Type": lambda event: event["type"],
        "Reason": lambda event: event["reason"],
        "Object": lambda event: f"pod/{event['involvedObject']['name']}",
        "Message": lambda event: event["message"],
    },
}
_WIDE: dict[str, dict[str, Callable[[Json], str]]] = {
    "Pod": {"IP": lambda pod: dig(pod, "status.podIP") or "<none>", "Node": lambda pod: dig(pod, "spec.nodeName") or "<none>"},
}


def wanted(accept: str) -> bool:
    return "as=Table" in accept


def encode(kind: Kind, entries: list[Entry], page: Page | None = None) -> bytes:
    narrow, wide = _COLUMNS.get(kind.name, {}), _WIDE.get(kind.name, {})
    columns = {"Name": lambda item: item["metadata"]["name"], **narrow, "Age": _age, **wide}
    definitions = [{"name": name, "type": "string", "format": "", "description": "", "priority": int(name in wide)} for name in columns]
    meta = {"resourceVersion": str(page.version), "continue": page.token} if page else {}
    rows = [_row(entry.load(), columns) for entry in entries]
    table = {"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": meta, "columnDefinitions": definitions, "rows": rows}
    return encode_json(table).encode()


def _row(item: Json, columns: dict[str, Callable[[Json], str]]) -> Json:
    shown = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": item["metadata"]}
    return {"cells": [column(item) for column in columns.values()], "object": shown}


def _pod_status(pod: Json) -> str:
    if "deletionTimestamp" in pod["metadata"]:
        return "Terminating"
    for each in pod["status"].get("containerStatuses", ()):
        for state in ("waiting", "terminated"):
            if reason := each["state"].get(state, {}).get("reason"):
                return str(reason)
    return str(pod["status"].get("reason") or pod["status"]["phase"])


def _age(item: Json) -> str:
    created = timegm(time.strptime(item["metadata"]["creationTimestamp"], "%Y-%m-%dT%H:%M:%SZ"))
    seconds = max(0, int(time.time() - created))
    for letter, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size}{letter}"
    return f"{seconds}s"
