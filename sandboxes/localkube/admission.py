"""What may come in: defaults and checks of new objects, resource quotas, patches. Keeps nothing."""

import json
import uuid
from decimal import Decimal
from typing import Any

from sandboxes.localkube.objects import (
    KINDS,
    NAME,
    ApiError,
    Json,
    Kind,
    bad_request,
    conflict,
    forbidden,
    in_words,
    invalid,
    quantity,
    timestamp,
)  # fmt: skip

POD = KINDS["pods"]
STRATEGIC, MERGE = "application/strategic-merge-patch+json", "application/merge-patch+json"
_MUTABLE = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
_BAD_NAME = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.'"
_POD_DEFAULTS = {
    "restartPolicy": "Always", "terminationGracePeriodSeconds": 30, "dnsPolicy": "ClusterFirst",
    "enableServiceLinks": True, "schedulerName": "default-scheduler", "securityContext": {},
    "serviceAccountName": "default",
}  # fmt: skip


def parse(body: bytes) -> Json:
    try:
        item = json.loads(body)
    except ValueError as error:
        raise bad_request(f"the object provided is unrecognized: {error}") from None
    if not isinstance(item, dict):
        raise bad_request("the object provided is unrecognized: it must be a JSON object")
    return item


def new_object(kind: Kind, namespace: str, item: Json) -> Json:
    """Checked and completed metadata; a 400 or 422 names what is wrong."""
    meta = item.get("metadata")
    if not isinstance(meta, dict) or item.get("kind", kind.name) != kind.name:
        raise bad_request(f"the object must be a {kind.name} with metadata")
    name = meta.get("name") or (meta["generateName"] + uuid.uuid4().hex[:5] if meta.get("generateName") else "")
    if not isinstance(name, str) or not NAME.fullmatch(name):
        why = f'Invalid value: "{name}": {_BAD_NAME}' if name else "Required value: name or generateName is required"
        raise invalid(kind, str(name), "metadata.name", why)
    if kind.namespaced and meta.get("namespace", namespace) != namespace:
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
    _check_strings(kind, name, meta)
    place = {"namespace": namespace} if kind.namespaced else {}
    meta = meta | place | {"name": name, "uid": str(uuid.uuid4()), "creationTimestamp": timestamp()}
    for server_side in ("deletionTimestamp", "deletionGracePeriodSeconds", "resourceVersion"):
        meta.pop(server_side, None)
    return {"metadata": meta, "spec": item.get("spec") or {}}


def _check_strings(kind: Kind, name: str, meta: Json) -> None:
    for field in ("labels", "annotations"):
        values = meta.get(field) or {}
        if not isinstance(values, dict) or not all(isinstance(value, str) for value in values.values()):
            raise invalid(kind, name, f"metadata.{field}", "Invalid value: every value must be a string")


def complete_pod(pod: Json) -> None:
    """Defaults and checks of a new Pod. Limits of localkube are refused here, in words, rather than ignored."""
    name, spec = pod["metadata"]["name"], pod["spec"]
    containers = spec.get("containers") if isinstance(spec, dict) else None
    if not isinstance(containers, list) or not containers or not all(isinstance(each, dict) for each in containers):
        raise invalid(POD, name, "spec.containers", "Required value")
    if len(containers) > 1 or spec.get("initContainers"):
        why = "Forbidden: localkube runs one container and no init containers; give files with --mount"
        raise invalid(POD, name, "spec.initContainers" if spec.get("initContainers") else "spec.containers[1]", why)
    container = containers[0]
    for field in ("name", "image"):
        if not container.get(field) or not isinstance(container[field], str):
            raise invalid(POD, name, f"spec.containers[0].{field}", "Required value")
    _check_resources(name, container.setdefault("resources", {}))
    if spec.get("restartPolicy", "Always") not in ("Always", "OnFailure", "Never"):
        why = f'Unsupported value: "{spec["restartPolicy"]}": supported values: "Always", "OnFailure", "Never"'
        raise invalid(POD, name, "spec.restartPolicy", why)
    pod["spec"] = _POD_DEFAULTS | spec
    container.setdefault("imagePullPolicy", "Always" if container["image"].endswith(":latest") else "IfNotPresent")


def _check_resources(name: str, resources: Json) -> None:
    limits, requests = resources.get("limits") or {}, dict(resources.get("requests") or {})
    for resource, limit in limits.items():
        if quantity(str(requests.setdefault(resource, limit))) > quantity(str(limit)):
            why = f'Invalid value: "{requests[resource]}": must be less than or equal to {resource} limit of {limit}'
            raise invalid(POD, name, "spec.containers[0].resources.requests", why)
    if requests:
        resources["requests"] = requests


def requests_of(pod: Json) -> dict[str, Decimal]:
    """What a Pod counts for in quotas and on its node."""
    resources = pod["spec"]["containers"][0].get("resources", {})
    counted = {"pods": Decimal(1)}
    for resource, amount in (resources.get("requests") or {}).items():
        counted[f"requests.{resource}"] = counted[resource] = quantity(str(amount))
    for resource, amount in (resources.get("limits") or {}).items():
        counted[f"limits.{resource}"] = quantity(str(amount))
    return counted


def check_quota(pod: Json, quota: Json, used: dict[str, Decimal]) -> None:
    """403 in the words of the real admission plugin when `pod` would take `used` above `quota`."""
    name, wanted = pod["metadata"]["name"], requests_of(pod)
    hard = {each.removeprefix("count/"): quantity(str(most)) for each, most in quota["spec"].get("hard", {}).items()}
    title = quota["metadata"]["name"]
    if missing := [each for each in hard if each not in wanted and each.split(".")[-1] in ("cpu", "memory")]:
        named = [f"{each} for: {pod['spec']['containers'][0]['name']}" for each in missing]
        raise forbidden(POD, name, f"failed quota: {title}: must specify {','.join(named)}")
    over = [each for each in sorted(hard) if each in wanted and used.get(each, Decimal(0)) + wanted[each] > hard[each]]
    if over:
        parts = (("requested", wanted), ("used", used), ("limited", hard))
        told = [f"{word}: {_listed(amounts, over)}" for word, amounts in parts]
        raise forbidden(POD, name, f"exceeded quota: {title}, {', '.join(told)}")


def _listed(amounts: dict[str, Decimal], resources: list[str]) -> str:
    return ",".join(f"{each}={in_words(amounts.get(each, Decimal(0)), each)}" for each in resources)


def patched(kind: Kind, item: Json, patch: Json, content_type: str) -> Json:
    """`item` after a merge or strategic merge patch; 415 for other patches, 422 for what may not change."""
    if content_type not in (STRATEGIC, MERGE):
        raise ApiError(415, "UnsupportedMediaType", f"unknown patch format: use {STRATEGIC} or {MERGE}")
    before = json.dumps(_fixed(kind, item))
    merged: Json = _merge(item, patch, strategic=content_type == STRATEGIC)
    name = item["metadata"]["name"]
    wanted = patch.get("metadata", {}).get("resourceVersion", item["metadata"]["resourceVersion"])
    if wanted != item["metadata"]["resourceVersion"]:
        why = "the object has been modified; please apply your changes to the latest version and try again"
        raise conflict(kind, name, why)
    if json.dumps(_fixed(kind, merged)) != before:
        field, why = ("spec", _MUTABLE) if kind is POD else ("metadata", "field is immutable")
        raise invalid(kind, name, field, f"Forbidden: {why}")
    _check_strings(kind, name, merged["metadata"])
    return merged


def _fixed(kind: Kind, item: Json) -> Any:
    """The part of an object that a patch must leave alone."""
    meta = [item["metadata"].get(field) for field in ("name", "namespace", "uid", "creationTimestamp")]
    if kind is not POD:
        return meta
    containers = [{**container, "image": ""} for container in item["spec"]["containers"]]
    return [meta, {**item["spec"], "containers": containers}, item.get("status")]


def _merge(target: Any, patch: Any, *, strategic: bool) -> Any:
    if isinstance(patch, dict) and isinstance(target, dict):
        result = dict(target)
        for key, value in patch.items():
            if value is None:
                result.pop(key, None)
            elif not key.startswith("$"):
                result[key] = _merge(result.get(key), value, strategic=strategic)
        return result
    lists = isinstance(patch, list) and isinstance(target, list)
    named = strategic and lists and all(isinstance(each, dict) and "name" in each for each in patch)
    return _merge_named(target, patch) if named else patch


def _merge_named(target: list[Json], patch: list[Json]) -> list[Json]:
    """Lists of containers and the like are merged by name."""
    merged = {each["name"]: each for each in target}
    for each in patch:
        merged[each["name"]] = _merge(merged.get(each["name"], {}), each, strategic=True)
    return list(merged.values())
