"""What may come in: defaults and checks of new objects, resource quotas, patches. Keeps nothing."""

import json
import uuid
from decimal import Decimal
from typing import Any

from sandboxes.localkube import patches, words
from sandboxes.localkube.objects import (
    KINDS,
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
COUNT = "count/pods"
_MUTABLE = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
_OTHER_NAMESPACE = "the namespace of the provided object does not match the namespace sent on the request"
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
    if not isinstance(name, str):
        raise bad_request(f"metadata.name: {name!r} must be a string")
    if not name:
        raise invalid(kind, "", "metadata.name", "Required value: name or generateName is required")
    if why := words.bad_subdomain(name):
        raise invalid(kind, name, "metadata.name", f'Invalid value: "{name}": {why}')
    if kind.namespaced and meta.get("namespace", namespace) != namespace:
        raise bad_request(_OTHER_NAMESPACE)
    _check_metadata(kind, name, meta)
    place = {"namespace": namespace} if kind.namespaced else {}
    meta = meta | place | {"name": name, "uid": str(uuid.uuid4()), "creationTimestamp": timestamp()}
    for server_side in ("deletionTimestamp", "deletionGracePeriodSeconds", "resourceVersion"):
        meta.pop(server_side, None)
    return {"metadata": meta, "spec": item.get("spec") or {}}


def _check_metadata(kind: Kind, name: str, meta: Json) -> None:
    """400 for what is of another type, 422 for words that are not allowed."""
    labels, annotations, finalizers = (meta.get(field) or {} for field in ("labels", "annotations", "finalizers"))
    for field, pairs in (("labels", labels), ("annotations", annotations)):
        if not isinstance(pairs, dict) or not all(isinstance(value, str) for value in pairs.values()):
            raise bad_request(f"metadata.{field}: every value must be a string")
        for key in pairs:
            _check_word(kind, name, f"metadata.{field}", key, words.bad_key(key))
    for value in labels.values():
        _check_word(kind, name, "metadata.labels", value, words.bad_label_value(value))
    if finalizers and not (isinstance(finalizers, list) and all(isinstance(each, str) for each in finalizers)):
        raise bad_request("metadata.finalizers must be a list of strings")
    for number, each in enumerate(finalizers):
        _check_word(kind, name, f"metadata.finalizers[{number}]", each, words.bad_finalizer(each))


def _check_word(kind: Kind, name: str, field: str, word: str, why: str) -> None:
    if why:
        raise invalid(kind, name, field, f'Invalid value: "{word}": {why}')


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
    _check_word(POD, name, "spec.containers[0].name", container["name"], words.bad_container_name(container["name"]))
    _check_resources(name, container.setdefault("resources", {}))
    if spec.get("restartPolicy", "Always") not in ("Always", "OnFailure", "Never"):
        why = f'Unsupported value: "{spec["restartPolicy"]}": supported values: "Always", "OnFailure", "Never"'
        raise invalid(POD, name, "spec.restartPolicy", why)
    pod["spec"] = _POD_DEFAULTS | spec
    container.setdefault("imagePullPolicy", "Always" if container["image"].endswith(":latest") else "IfNotPresent")


def _check_resources(name: str, resources: Json) -> None:
    limits, requests = resources.get("limits") or {}, dict(resources.get("requests") or {})
    for field, amounts in (("limits", limits), ("requests", requests)):
        for resource, amount in amounts.items():
            if quantity(str(amount)) < 0:
                why = f'Invalid value: "{amount}": must be greater than or equal to 0'
                raise invalid(POD, name, f"spec.containers[0].resources.{field}[{resource}]", why)
    for resource, limit in limits.items():
        if quantity(str(requests.setdefault(resource, limit))) > quantity(str(limit)):
            why = f'Invalid value: "{requests[resource]}": must be less than or equal to {resource} limit of {limit}'
            raise invalid(POD, name, "spec.containers[0].resources.requests", why)
    if requests:
        resources["requests"] = requests


def requests_of(pod: Json) -> dict[str, Decimal]:
    """What a Pod counts for in quotas and on its node."""
    resources = pod["spec"]["containers"][0].get("resources", {})
    counted = {"pods": Decimal(1), COUNT: Decimal(1)}
    for resource, amount in (resources.get("requests") or {}).items():
        counted[f"requests.{resource}"] = counted[resource] = quantity(str(amount))
    for resource, amount in (resources.get("limits") or {}).items():
        counted[f"limits.{resource}"] = quantity(str(amount))
    return counted


def check_quota(pod: Json, quota: Json, used: dict[str, Decimal]) -> None:
    """403 in the words of the real admission plugin when `pod` would take `used` above `quota`."""
    name, wanted = pod["metadata"]["name"], requests_of(pod)
    hard = {each: quantity(str(most)) for each, most in quota["spec"].get("hard", {}).items()}
    title = quota["metadata"]["name"]
    if missing := [each for each in sorted(hard) if each not in wanted and each.split(".")[-1] in ("cpu", "memory")]:
        named = [f"{each} for: {pod['spec']['containers'][0]['name']}" for each in missing]
        raise forbidden(POD, name, f"failed quota: {title}: must specify {'; '.join(named)}")
    over = [each for each in sorted(hard) if each in wanted and used.get(each, Decimal(0)) + wanted[each] > hard[each]]
    if over:
        parts = (("requested", wanted), ("used", used), ("limited", hard))
        told = [f"{word}: {_listed(amounts, over)}" for word, amounts in parts]
        raise forbidden(POD, name, f"exceeded quota: {title}, {', '.join(told)}")


def _listed(amounts: dict[str, Decimal], resources: list[str]) -> str:
    return ",".join(f"{each}={in_words(amounts.get(each, Decimal(0)), each)}" for each in resources)


def patched(kind: Kind, item: Json, patch: Any, content_type: str) -> Json:
    """`item` after a patch; what the server alone writes stays. 400, 409 or 422 for what else may not change."""
    after = patches.apply(item, patch, content_type)
    if not isinstance(after.get("metadata"), dict) or (kind is POD and not isinstance(after.get("spec"), dict)):
        raise bad_request("the patch leaves no object")
    _check_identity(kind, item, after)
    for field in ("creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "resourceVersion"):
        _keep(item["metadata"], after["metadata"], field)
    if kind is POD:
        _keep(item, after, "status")
        _check_pod_change(item, after)
    _check_metadata(kind, item["metadata"]["name"], after["metadata"])
    _check_finalizers(kind, item, after)
    return after


def _keep(before: Json, after: Json, field: str) -> None:
    after.pop(field, None)
    if field in before:
        after[field] = before[field]


def _check_identity(kind: Kind, item: Json, after: Json) -> None:
    before, meta = item["metadata"], after["metadata"]
    name = before["name"]
    if meta.get("name") != name:
        why = f"the name of the object ({meta.get('name')}) does not match the name on the URL ({name})"
        raise bad_request(why)
    for field in ("namespace", "uid", "resourceVersion"):
        if not meta.get(field):
            _keep(before, meta, field)
    if meta.get("namespace") != before.get("namespace"):
        raise bad_request(_OTHER_NAMESPACE)
    if meta["uid"] != before["uid"]:
        raise invalid(kind, name, "metadata.uid", f'Invalid value: "{meta["uid"]}": field is immutable')
    if meta["resourceVersion"] != before["resourceVersion"]:
        why = "the object has been modified; please apply your changes to the latest version and try again"
        raise conflict(kind, name, why)


def _check_pod_change(item: Json, after: Json) -> None:
    name, containers = item["metadata"]["name"], after["spec"].get("containers") or []
    if len(containers) != len(item["spec"]["containers"]):
        raise invalid(POD, name, "spec.containers", "Forbidden: pod updates may not add or remove containers")
    if _fixed(item["spec"]) != _fixed(after["spec"]):
        raise invalid(POD, name, "spec", f"Forbidden: {_MUTABLE}")


def _fixed(spec: Json) -> Json:
    """The part of a Pod's spec that a patch must leave alone."""
    return {**spec, "containers": [{**container, "image": ""} for container in spec["containers"]]}


def _check_finalizers(kind: Kind, item: Json, after: Json) -> None:
    """What is going takes no more of them."""
    before, now = (set(each["metadata"].get("finalizers") or ()) for each in (item, after))
    if "deletionTimestamp" in item["metadata"] and now - before:
        why = "no new finalizers can be added if the object is being deleted, found new finalizers"
        shown = ", ".join(f'"{each}"' for each in sorted(now - before))
        raise invalid(kind, item["metadata"]["name"], "metadata.finalizers", f"Forbidden: {why} []string{{{shown}}}")
