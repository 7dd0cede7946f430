"""The columns of `kubectl get`, which wants them from the server. Other kinds than these show name and age only."""

import json
import time
from calendar import timegm
from collections.abc import AsyncIterator, Callable

from sandboxes.localkube.objects import Json, Kind, dig
from sandboxes.localkube.store import Entry, Page
from sandboxes.localkube.store import encode as encode_json


def _pod_status(pod: Json) -> str:
    if "deletionTimestamp" in pod["metadata"]:
        return "Terminating"
    states = [state for each in pod["status"].get("containerStatuses", ()) for state in each["state"].values()]
    reasons = [state["reason"] for state in states if "reason" in state]
    return str(pod["status"].get("reason") or (reasons or [pod["status"]["phase"]])[0])


def _age(item: Json) -> str:
    created = timegm(time.strptime(item["metadata"]["creationTimestamp"], "%Y-%m-%dT%H:%M:%SZ"))
    seconds = max(0, int(time.time() - created))
    units = [(letter, size) for letter, size in (("d", 86400), ("h", 3600), ("m", 60)) if seconds >= 2 * size]
    return f"{seconds // units[0][1]}{units[0][0]}" if units else f"{seconds}s"


Columns = dict[str, Callable[[Json], str]]
_MORE: dict[str, Columns] = {
    "Pod": {
        "Ready": lambda pod: f"{sum(each['ready'] for each in pod['status'].get('containerStatuses', ()))}/1",
        "Status": _pod_status,
        "Restarts": lambda pod: str(sum(each["restartCount"] for each in pod["status"].get("containerStatuses", ()))),
    },
    "Node": {"Status": lambda node: {"True": "Ready"}.get(node["status"]["conditions"][0]["status"], "NotReady")},
    "Event": {each.title(): lambda event, each=each: event[each] for each in ("type", "reason", "message")},  # type: ignore[misc]
}
_WIDE: dict[str, Columns] = {
    "Pod": {"IP": lambda pod: dig(pod, "status.podIP"), "Node": lambda pod: dig(pod, "spec.nodeName")}
}


def wanted(accept: str) -> bool:
    return "as=Table" in accept


def encode(kind: Kind, entries: list[Entry], page: Page | None = None) -> bytes:
    meta = {"resourceVersion": str(page.version), "continue": page.token} if page else {}
    return encode_json(_table(kind, [entry.load() for entry in entries], meta))


def _table(kind: Kind, items: list[Json], meta: Json | None = None) -> Json:
    wide = _WIDE.get(kind.name, {})
    columns: Columns = {"Name": lambda item: str(item["metadata"]["name"]), **_MORE.get(kind.name, {}), "Age": _age}
    columns |= wide
    heads = [{"name": name, "type": "string", "format": "", "priority": int(name in wide)} for name in columns]
    rows = [_row(item, columns) for item in items]
    table = {"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": meta or {}}
    return table | {"columnDefinitions": heads, "rows": rows}


async def watch(kind: Kind, lines: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Each object of a watch as a table of one row; `kubectl get --watch` shows nothing else well."""
    async for chunk in lines:
        for event in map(json.loads, chunk.splitlines()):
            if event["type"] not in ("BOOKMARK", "ERROR"):
                event["object"] = _table(kind, [event["object"]])
            yield encode_json(event) + b"\n"


def _row(item: Json, columns: Columns) -> Json:
    shown = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": item["metadata"]}
    return {"cells": [column(item) for column in columns.values()], "object": shown}
