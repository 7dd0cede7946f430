"""What an env may add to the Pods of its sandboxes: a small subset of Kubernetes' PodSpec, in its own names. Pure.

Everything that is not named here is refused, so that a field which Kubernetes gets later cannot weaken isolation.
Sandboxes of all teams live in one namespace: a secret, config map or claim is of the team that its name begins with.
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Collection, Iterator
from functools import partial
from itertools import islice
from typing import Any

from . import documents, isolation
from .documents import Check, Problem, boolean, first, items, mapping, number, one_of, text

FIELD = "podTemplate"
ENVD_PLACE = "/opt/agentbox"
OURS = "agentbox-"
"""Names of volumes that begin so are ours."""
LARGEST = 16_384
MOST_PROBLEMS = 20
LONGEST_VALUE = 8192
KINDS = ("emptyDir", "configMap", "secret", "persistentVolumeClaim", "ephemeral")
RESERVED_VARIABLES = ("ENVD_", "LISTEN_")
CONTROL_PLANE = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")

record = partial(documents.record, refused=isolation.refused)
_WORD = r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_LABEL = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
_DOMAIN = rf"(?=[-a-z0-9.]{{1,253}}(?![-a-z0-9.])){_LABEL}(\.{_LABEL})*"
qualified = text(rf"({_DOMAIN}/)?{_WORD}", "must be a label's name, such as zone or example.com/zone.")
label_value = text(rf"({_WORD})?", "must be a label's value: at most 63 letters, digits, dashes, dots, underscores.")
domain_name = text(_DOMAIN, "must be a name of lower-case letters, digits, dashes and dots.")
short_name = text(_LABEL, "must be a name of lower-case letters, digits and dashes.")
file_key = text(r"[-._a-zA-Z0-9]{1,253}", "must be a key: letters, digits, dashes, dots, underscores.")
variable_value = text(rf".{{0,{LONGEST_VALUE}}}", f"must be text of at most {LONGEST_VALUE} characters.")
size = text(r"[1-9][0-9]*([KMGTPE]i|[kMGTPE])?", "must be a size in quotes, such as 10Gi or 500M.")
file_mode = number(0, 0o777)


def problems(template: Any, team: str) -> list[Problem]:
    """What is wrong with the template of an env of `team`; empty when its sandboxes may have it."""
    try:
        length = len(json.dumps(template))
    except RecursionError:
        return [Problem(FIELD, "is nested too deeply to be read.")]
    if length > LARGEST:
        return [Problem(FIELD, f"is {length} bytes; {LARGEST} are possible. Put files into a config map or the image.")]
    found = islice(first(shape(team), consistent)(FIELD, template), MOST_PROBLEMS)
    return [Problem(printable(field), text) for field, text in found]


def printable(path: str) -> str:
    """Names of fields come from outside: half a surrogate pair could not be answered with."""
    return path.encode(errors="backslashreplace").decode()


def shape(team: str) -> Check:
    owned = name_of_team(team)
    return record(
        {
            "nodeSelector": mapping(qualified, label_value),
            "tolerations": items(toleration, 16),
            "env": items(variable(owned), 100),
            "volumes": items(volume(owned), 16),
            "volumeMounts": items(mount, 32),
            "resources": record({"limits": mapping(extra_resource, amount)}),
            "runtimeClassName": domain_name,
            "imagePullSecrets": items(record({"name": owned}, required=("name",)), 8),
        }
    )


def name_of_team(team: str) -> Check:
    """Team names have no dot, so no team's prefix is the beginning of another's."""

    def check(path: str, value: Any) -> Iterator[Problem]:
        if not str(value).startswith(f"{team}."):
            yield Problem(path, f"must begin with “{team}.”: all teams' objects are in one namespace, these are yours.")

    return first(domain_name, check)


def toleration(path: str, value: Any) -> Iterator[Problem]:
    effect = one_of("NoSchedule", "PreferNoSchedule", "NoExecute")
    fields = {"operator": one_of("Exists", "Equal"), "value": label_value, "effect": effect}
    fields |= {"key": first(qualified, no_control_plane), "tolerationSeconds": number(0, 86_400)}
    yield from record(fields, required=("key",))(path, value)


def no_control_plane(path: str, value: Any) -> Iterator[Problem]:
    if value in CONTROL_PLANE:
        yield Problem(path, "would put sandboxes beside the cluster's control plane; choose nodes for work.")


def variable(owned: Check) -> Check:
    reference = record({"name": owned, "key": file_key, "optional": boolean}, required=("name", "key"))
    source = first(record({"secretKeyRef": reference, "configMapKeyRef": reference}), only_one("a reference"))
    fields = {"name": variable_name, "value": variable_value, "valueFrom": source}
    return record(fields, required=("name",))


def variable_name(path: str, value: Any) -> Iterator[Problem]:
    named = text("[A-Za-z_][A-Za-z0-9_]{0,127}", "must be a variable's name: letters, digits, underscores.")
    wrong = list(named(path, value))
    yield from wrong
    if not wrong and value.startswith(RESERVED_VARIABLES):
        yield Problem(path, f"is one of envd's own ({' and '.join(RESERVED_VARIABLES)}); choose another name.")


def volume(owned: Check) -> Check:
    files = items(record({"key": file_key, "path": relative, "mode": file_mode}, required=("key", "path")), 64)
    more = {"items": files, "optional": boolean, "defaultMode": file_mode}
    wanted = record({"requests": record({"storage": size}, required=("storage",))}, required=("requests",))
    modes = items(one_of("ReadWriteOnce", "ReadWriteOncePod", "ReadWriteMany", "ReadOnlyMany"), 4)
    claim = {"accessModes": modes, "resources": wanted, "storageClassName": domain_name}
    claimed = record({"spec": record(claim, required=("accessModes", "resources"))}, required=("spec",))
    kinds = {
        "emptyDir": record({"medium": one_of("", "Memory"), "sizeLimit": size}),
        "configMap": record({"name": owned, **more}, required=("name",)),
        "secret": record({"secretName": owned, **more}, required=("secretName",)),
        "persistentVolumeClaim": record({"claimName": owned, "readOnly": boolean}, required=("claimName",)),
        "ephemeral": record({"volumeClaimTemplate": claimed}, required=("volumeClaimTemplate",)),
    }
    named = record({"name": first(short_name, not_ours), **kinds}, required=("name",))
    return first(named, only_one("a kind", KINDS))


def only_one(words: str, names: Collection[str] = ()) -> Check:
    """Exactly one of the fields called `names` (of all, when there are none)."""

    def check(path: str, value: Any) -> Iterator[Problem]:
        if len([name for name in value if name in (names or value)]) != 1:
            yield Problem(path, f"must have {words}, and one only.")

    return check


def not_ours(path: str, value: Any) -> Iterator[Problem]:
    if value.startswith(OURS):
        yield Problem(path, f"is one of our own names ({OURS}...); choose another.")


def mount(path: str, value: Any) -> Iterator[Problem]:
    fields = {"name": short_name, "mountPath": mount_path, "subPath": relative, "readOnly": boolean}
    yield from record(fields, required=("name", "mountPath"))(path, value)


def relative(path: str, value: Any) -> Iterator[Problem]:
    inside = text(r"[^/:].{0,1023}", "must be a path such as data/train.")
    wrong = list(inside(path, value))
    yield from wrong
    if not wrong and ".." in value.split("/"):
        yield Problem(path, "must not lead out of the volume by “..”.")


def mount_path(path: str, value: Any) -> Iterator[Problem]:
    absolute = text(r"/[^:]{1,1023}", "must be an absolute path such as /data, without a colon.")
    wrong = list(absolute(path, value))
    yield from wrong
    if wrong:
        return
    if posixpath.normpath(value) != value:
        yield Problem(path, f"must be in its plain form: {posixpath.normpath(value)}.")
    elif within(value, ENVD_PLACE) or within(ENVD_PLACE, value):
        yield Problem(path, f"would hide envd, which is at {ENVD_PLACE}; choose another place.")
    elif value == "/dev" or within(value, "/proc") or within(value, "/sys"):
        yield Problem(path, "would hide what the kernel shows there; choose another place.")


def within(inner: str, outer: str) -> bool:
    return inner == outer or inner.startswith(f"{outer}/")


def extra_resource(path: str, value: Any) -> Iterator[Problem]:
    domain, slash, _ = str(value).partition("/")
    if value in ("cpu", "memory", "ephemeral-storage"):
        yield Problem(path, "comes from the instance type; choose another type.")
    elif not slash or domain == "kubernetes.io" or domain.endswith(".kubernetes.io"):
        yield Problem(path, "must be a resource that a device plugin offers, such as nvidia.com/gpu.")
    else:
        yield from qualified(path, value)


def amount(path: str, value: Any) -> Iterator[Problem]:
    plain = int(value) if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 9 else value
    yield from number(1, 1_000_000)(path, plain)


def consistent(path: str, template: Any) -> Iterator[Problem]:
    """What holds between the parts, once each is well formed."""
    volumes = template.get("volumes", [])
    mounts = template.get("volumeMounts", [])
    yield from twice(f"{path}.volumes", volumes, "name")
    yield from twice(f"{path}.volumeMounts", mounts, "mountPath")
    yield from twice(f"{path}.env", template.get("env", []), "name")
    names = {each["name"] for each in volumes}
    for index, each in enumerate(mounts):
        if each["name"] not in names:
            yield Problem(f"{path}.volumeMounts[{index}].name", f"is no volume of {path}.volumes; add it there.")
    for index, each in enumerate(template.get("env", [])):
        if "value" in each and "valueFrom" in each:
            yield Problem(f"{path}.env[{index}].valueFrom", "cannot be given together with value; leave one out.")


def twice(path: str, parts: list[dict[str, Any]], name: str) -> Iterator[Problem]:
    seen: set[str] = set()
    for index, each in enumerate(parts):
        if each[name] in seen:
            yield Problem(f"{path}[{index}].{name}", f"is there already: {each[name]}.")
        seen.add(each[name])
