"""The control plane without HTTP: creates, schedules, patches and deletes objects, and hands Pods to what runs them."""

import asyncio
import logging
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Protocol

from sandboxes.localkube import admission, deletion, nodestatus, podstatus
from sandboxes.localkube.nodestatus import Refusal
from sandboxes.localkube.objects import KINDS, ApiError, Json, Kind, conflict, not_found, timestamp
from sandboxes.localkube.store import Collection, Entry, Key, Store

log = logging.getLogger("localkube")
POD = KINDS["pods"]
SIMULATED = "agentbox.io/simulated"
SCHEDULER = "default-scheduler"
EVENTS_KEPT = 20_000
RETRY_SECONDS = 0.05
NAMESPACES = ("default", "kube-system")


class Runtime(Protocol):
    """What gives Pods of a node their life: processes, or a simulation."""

    def start(self, pod: Json) -> None: ...
    def stop(self, key: Key, uid: str, grace: float) -> None: ...
    def image_changed(self, pod: Json) -> None: ...
    def node_lost(self, uids: list[str], eviction_seconds: float) -> None: ...


@dataclass
class Node:
    name: str
    runtime: Runtime
    room: dict[str, Decimal]  # cpu, memory, pods
    labels: dict[str, str]
    taken: dict[str, Decimal] = field(default_factory=dict)
    up: bool = True

    def lacks(self, wanted: dict[str, Decimal]) -> Refusal | None:
        nothing = Decimal(0)
        short = [
            resource
            for resource, limit in self.room.items()
            if self.taken.get(resource, nothing) + wanted.get(resource, nothing) > limit
        ]
        if not short:
            return None
        reasons = ["Too many pods" if resource == "pods" else f"Insufficient {resource}" for resource in short]
        return Refusal(tuple(reasons), any(wanted.get(each, nothing) > self.room[each] for each in short))

    def take(self, wanted: dict[str, Decimal], sign: int = 1) -> None:
        for resource in self.room:
            self.taken[resource] = self.taken.get(resource, Decimal(0)) + sign * wanted.get(resource, Decimal(0))


class Cluster:
    def __init__(self, namespace: str) -> None:
        self.store = Store()
        self.pods: Collection = self.store.collections["pods"]
        self.nodes: dict[str, Node] = {}
        self._waiting: dict[Key, str] = {}  # unschedulable Pods and their shape
        self._retry: asyncio.TimerHandle | None = None
        self._placed: dict[str, tuple[str, dict[str, Decimal]]] = {}  # by uid: node, what it takes there
        self._used: dict[str, dict[str, Decimal]] = {}  # by namespace, for quotas
        self._run = secrets.token_hex(8)
        self._events: dict[tuple[str, str, str], Key] = {}
        for name in (*NAMESPACES, namespace):
            self.create(KINDS["namespaces"], "", {"metadata": {"name": name}})

    # ---- objects -----------------------------------------------------------------------------------------------

    def of(self, kind: Kind) -> Collection:
        return self.store.collections[kind.plural]

    def get(self, kind: Kind, key: Key) -> Entry:
        if entry := self.of(kind).entries.get(key):
            return entry
        raise not_found(kind, key[1])

    def create(self, kind: Kind, namespace: str, item: Json) -> Entry:
        new = admission.new_object(kind, namespace, item)
        name = new["metadata"]["name"]
        if kind.namespaced:
            self.get(KINDS["namespaces"], ("", namespace))
        if (namespace, name) in self.of(kind).entries:
            raise ApiError(409, "AlreadyExists", f'{kind.plural} "{name}" already exists', name=name, kind=kind.plural)
        if kind.plural == "pods":
            return self._create_pod(new)
        if kind.plural == "namespaces":
            new |= {"spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}}
        return self.of(kind).put(new)

    def _create_pod(self, pod: Json) -> Entry:
        admission.complete_pod(pod)
        namespace = pod["metadata"]["namespace"]
        used = self._used.setdefault(namespace, {})
        for quota in self.of(KINDS["resourcequotas"]).entries.values():
            if quota.key[0] == namespace:
                admission.check_quota(pod, quota.load(), self.used(namespace))
        _add(used, admission.requests_of(pod), 1)
        podstatus.created(pod)
        entry = self.pods.put(pod)
        self.schedule(pod)
        return entry

    def patch(self, kind: Kind, key: Key, patch: Any, content_type: str) -> Entry:
        unchanged = self.get(kind, key)
        before = unchanged.load()
        after = admission.patched(kind, before, patch, content_type)
        if after == before:
            return unchanged
        if deletion.may_go(after):
            return self._remove(kind, after) or unchanged
        entry = self.of(kind).put(after)
        if kind.plural == "pods" and _image(before) != _image(after) and (node := self._node_of(after)):
            node.runtime.image_changed(after)
        return entry

    def delete(self, kind: Kind, key: Key, options: Json) -> Entry:
        """The object as it is after the request: a Pod lives on, marked, until its processes have gone."""
        entry = self.get(kind, key)
        _check_preconditions(kind, entry, options.get("preconditions") or {})
        if kind.plural == "pods":
            return self._delete_pod(entry, options.get("gracePeriodSeconds"))
        if kind.plural == "namespaces":
            for pod in [each for each in self.pods.entries.values() if each.key[0] == key[1]]:
                self._delete_pod(pod, 0)
        self.of(kind).remove(key)
        return entry

    def _delete_pod(self, entry: Entry, wanted: int | None) -> Entry:
        pod = entry.load()
        node = self._node_of(pod)
        grace = deletion.grace(pod, wanted)
        marked = self.pods.put(pod) if deletion.mark(pod, grace) else entry
        if node and (node.up or not grace):  # else nobody is there to end it
            node.runtime.stop(entry.key, entry.uid, grace)
        return (self.gone(entry.key, entry.uid) or marked) if grace == 0 else marked

    def gone(self, key: Key, uid: str) -> Entry | None:
        """A Pod is over: it leaves the API, unless a finalizer holds it there."""
        entry = self.pods.entries.get(key)
        if entry is None or entry.uid != uid:
            return None
        pod = entry.load()
        if deletion.mark(pod, 0):
            entry = self.pods.put(pod)
        return self._remove(POD, pod) if deletion.may_go(pod) else entry

    def _remove(self, kind: Kind, item: Json) -> Entry | None:
        """Out of the API, and a Pod's share off node and quota."""
        meta = item["metadata"]
        key = (meta.get("namespace", ""), meta["name"])
        if kind is POD:
            self._waiting.pop(key, None)
            self._release(item)
        return self.of(kind).remove(key)

    def edit_pod(self, key: Key, uid: str, change: Callable[[Json], None]) -> Json | None:
        """Change a Pod that still is the one with `uid`; None when it is not."""
        entry = self.pods.entries.get(key)
        if entry is None or entry.uid != uid:
            return None
        pod = entry.load()
        change(pod)
        self.pods.put(pod)
        if pod["status"]["phase"] in ("Succeeded", "Failed"):
            self._release(pod)
        return pod

    # ---- scheduling --------------------------------------------------------------------------------------------

    def add_node(self, node: Node, address: str) -> None:
        node.labels |= {"kubernetes.io/hostname": node.name, "kubernetes.io/os": "linux"}
        item = admission.new_object(KINDS["nodes"], "", {"metadata": {"name": node.name, "labels": node.labels}})
        item["status"] = nodestatus.up(node.room, node.name, address)
        self.nodes[node.name] = node
        self.of(KINDS["nodes"]).put(item)
        self.schedule_waiting()

    def schedule(self, pod: Json) -> bool:
        """Bind a Pod to a node with room and start it there; False leaves it waiting, with the reason in its status."""
        meta, wanted = pod["metadata"], admission.requests_of(pod)
        if pod["spec"]["schedulerName"] != SCHEDULER:
            return False  # another's; it waits for that one
        key = (meta["namespace"], meta["name"])
        node, message = self._choose(pod, wanted)
        if node is None:
            self._waiting[key] = f"{wanted} {pod['spec'].get('nodeSelector')}"
            if _scheduled_message(pod) != message:
                self.edit_pod(key, meta["uid"], lambda item: podstatus.unschedulable(item, message))
                self.event(pod, "Warning", "FailedScheduling", message, "default-scheduler")
            return False
        node.take(wanted)
        self._placed[meta["uid"]] = (node.name, wanted)
        self._waiting.pop(key, None)
        bound = self.edit_pod(key, meta["uid"], lambda item: podstatus.scheduled(item, node.name, "127.0.0.1"))
        assigned = f"Successfully assigned {key[0]}/{key[1]} to {node.name}"
        self.event(pod, "Normal", "Scheduled", assigned, "default-scheduler")
        if bound:
            node.runtime.start(bound)
        return True

    def schedule_waiting(self) -> None:
        """After room was made. Pods of one shape fail together, so a long queue costs one look per shape."""
        self._retry = None
        failed: set[str] = set()
        for key, shape in list(self._waiting.items()):
            if shape not in failed and not self.schedule(self.pods.entries[key].load()):
                failed.add(shape)

    def _choose(self, pod: Json, wanted: dict[str, Decimal]) -> tuple[Node | None, str]:
        selector = pod["spec"].get("nodeSelector") or {}
        real = any(SIMULATED not in node.labels for node in self.nodes.values())
        refusals = []
        for node in self.nodes.values():
            matches = all(node.labels.get(name) == value for name, value in selector.items())
            if not node.up:
                refusal: Refusal | None = nodestatus.TAINTED
            elif not matches or (real and SIMULATED in node.labels and SIMULATED not in selector):
                refusal = nodestatus.OTHER_NODE
            else:
                refusal = node.lacks(wanted)
            if refusal is None:
                return node, ""
            refusals.append(refusal)
        return None, nodestatus.no_room(refusals)

    def used(self, namespace: str) -> dict[str, Decimal]:
        """For quotas; what has ended counts as an object only."""
        objects = sum(key[0] == namespace for key in self.pods.entries)
        return self._used.get(namespace, {}) | {admission.COUNT: Decimal(objects)}

    def _node_of(self, pod: Json) -> Node | None:
        return self.nodes.get(pod["spec"].get("nodeName", ""))

    def _release(self, pod: Json) -> None:
        """Idempotent: a Pod that ended no longer counts, and counts no less when it is removed later."""
        uid = pod["metadata"]["uid"]
        name, wanted = self._placed.pop(uid, ("", {}))
        if name in self.nodes:
            self.nodes[name].take(wanted, -1)
        if wanted or not pod["spec"].get("nodeName"):
            _add(self._used.setdefault(pod["metadata"]["namespace"], {}), admission.requests_of(pod), -1)
        if self._waiting and self._retry is None:
            self._retry = asyncio.get_running_loop().call_later(RETRY_SECONDS, self.schedule_waiting)

    def node_down(self, name: str, eviction_seconds: float) -> None:
        """The node stops answering; its Pods stay in the API, not ready, until they are evicted."""
        item = self.get(KINDS["nodes"], ("", name)).load()
        self.nodes[name].up = False
        nodestatus.lost(item)
        self.of(KINDS["nodes"]).put(item)
        lost = [entry for entry in self.pods.entries.values() if entry.fields["spec.nodeName"] == name]
        for entry in lost:
            pod = self.edit_pod(entry.key, entry.uid, podstatus.node_lost)
            if pod:
                self.event(pod, "Warning", "NodeNotReady", "Node is not ready", "node-controller")
        self.nodes[name].runtime.node_lost([entry.uid for entry in lost], eviction_seconds)

    # ---- events ------------------------------------------------------------------------------------------------

    def event(self, pod: Json, kind: str, reason: str, message: str, component: str = "kubelet") -> None:
        meta, events = pod["metadata"], self.of(KINDS["events"])
        same = (meta["uid"], reason, message)
        if (key := self._events.get(same)) and (known := events.entries.get(key)):
            again = known.load()
            events.put(again | {"count": again["count"] + 1, "lastTimestamp": timestamp()})
            return
        number = f"{self.store.version + 1:016x}"
        involved = {"kind": "Pod", "apiVersion": "v1", **{each: meta[each] for each in ("name", "namespace", "uid")}}
        now, own = timestamp(), {"name": f"{meta['name']}.{number}", "namespace": meta["namespace"]}
        item: Json = {"metadata": own | {"uid": f"e{self._run}-{number}", "creationTimestamp": now}}
        item |= {"involvedObject": involved, "reason": reason, "message": message, "source": {"component": component}}
        item |= {"firstTimestamp": now, "lastTimestamp": now, "count": 1, "type": kind, "reportingComponent": component}
        self._events[same] = events.put(item).key
        if len(self._events) > EVENTS_KEPT:
            events.remove(self._events.pop(next(iter(self._events))))


def _check_preconditions(kind: Kind, entry: Entry, wanted: Json) -> None:
    name, uid, version = entry.key[1], wanted.get("uid"), wanted.get("resourceVersion")
    if uid is not None and uid != entry.uid:
        why = f"the UID in the precondition ({uid}) does not match the UID in record ({entry.uid})."
        raise conflict(kind, name, f"{why} The object might have been deleted and then recreated", called=kind.name)
    if version is not None and version != str(entry.version):
        why = f"the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in record"
        raise conflict(kind, name, f"{why} ({entry.version}). The object might have been modified", called=kind.name)


def _scheduled_message(pod: Json) -> str:
    found = [each.get("message", "") for each in pod["status"].get("conditions", []) if each["type"] == "PodScheduled"]
    return found[0] if found else ""


def _add(used: dict[str, Decimal], amounts: dict[str, Decimal], sign: int) -> None:
    for resource, amount in amounts.items():
        used[resource] = used.get(resource, Decimal(0)) + sign * amount


def _image(pod: Json) -> str:
    return str(pod["spec"]["containers"][podstatus.MAIN]["image"])
