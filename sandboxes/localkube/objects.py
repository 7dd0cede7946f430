"""Kubernetes objects as plain JSON: kinds, errors in the API's own words, quantities, selectors."""

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Any

from sandboxes.localkube import words

Json = dict[str, Any]
Fields = dict[str, str]  # values that a field selector may ask for, by dotted path
_QUANTITY = re.compile(r"([+-]?[0-9.]+)([eE][+-]?[0-9]+)?(m|k|[MGTPE]i?|Ki)?")
_SUFFIX = {"m": Decimal("0.001"), "": Decimal(1), "k": Decimal(1000)}
_SUFFIX |= {letter: Decimal(1000) ** power for power, letter in enumerate("MGTPE", 2)}
_SUFFIX |= {f"{letter}i": Decimal(1024) ** power for power, letter in enumerate("KMGTPE", 1)}
_LABEL_TERM = re.compile(r"\s*(!?)([\w./-]+)\s*(?:(=|==|!=)\s*([\w.-]*)|\s(in|notin)\s*\(([^)]*)\))?\s*(?:,|$)")


@dataclass(frozen=True)
class Kind:
    name: str
    plural: str
    short: tuple[str, ...]
    verbs: tuple[str, ...]
    namespaced: bool = True
    fields: tuple[str, ...] = ()

    def selectable(self, item: Json) -> Fields:
        meta = item["metadata"]
        names = {"metadata.name": meta["name"], "metadata.namespace": meta.get("namespace", "")}
        return names | {path: dig(item, path) for path in self.fields}


_READ = ("get", "list", "watch")
_WRITE = ("create", "delete", "patch")
_OF_EVENT = ("reason", "type", *(f"involvedObject.{field}" for field in ("kind", "name", "namespace", "uid")))
_OF_POD = tuple(f"spec.{field}" for field in ("nodeName", "restartPolicy", "schedulerName", "serviceAccountName"))
_OF_POD += ("status.phase", "status.podIP", "status.nominatedNodeName")
KINDS = {
    kind.plural: kind
    for kind in (
        Kind("Namespace", "namespaces", ("ns",), _READ + _WRITE, False, ("status.phase",)),
        Kind("Node", "nodes", ("no",), (*_READ, "patch"), False, ("spec.unschedulable",)),
        Kind("Pod", "pods", ("po",), _READ + _WRITE, True, _OF_POD),
        Kind("ResourceQuota", "resourcequotas", ("quota",), _READ + _WRITE),
        Kind("Event", "events", ("ev",), _READ, True, _OF_EVENT),
    )
}


_CAUSES = {"Required value": "FieldValueRequired", "Unsupported value": "FieldValueNotSupported"}
_CAUSES |= {"Forbidden": "FieldValueForbidden"}


class ApiError(Exception):
    """An answer of the API that is not a success, as a `Status` object."""

    def __init__(self, code: int, reason: str, message: str, **details: Any) -> None:
        super().__init__(message)
        self.code = code
        self.status: Json = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
        self.status |= {"message": message, "reason": reason, "details": details, "code": code}


def bad_request(message: str) -> ApiError:
    return ApiError(400, "BadRequest", message)


def not_found(kind: Kind, name: str) -> ApiError:
    return ApiError(404, "NotFound", f'{kind.plural} "{name}" not found', name=name, kind=kind.plural)


def forbidden(kind: Kind, name: str, why: str) -> ApiError:
    return ApiError(403, "Forbidden", f'{kind.plural} "{name}" is forbidden: {why}', name=name, kind=kind.plural)


def conflict(kind: Kind, name: str, why: str, *, called: str = "") -> ApiError:
    message = f'Operation cannot be fulfilled on {called or kind.plural} "{name}": {why}'
    return ApiError(409, "Conflict", message, name=name, kind=kind.plural)


def invalid(kind: Kind, name: str, field: str, why: str) -> ApiError:
    cause = {"reason": _CAUSES.get(why.partition(":")[0], "FieldValueInvalid"), "message": why, "field": field}
    message = f'{kind.name} "{name}" is invalid: {field}: {why}'
    return ApiError(422, "Invalid", message, name=name, kind=kind.name, causes=[cause])


def expired(message: str) -> ApiError:
    return ApiError(410, "Expired", message)


def dig(item: Json, path: str) -> str:
    value: Any = item
    for step in path.split("."):
        if (value := value.get(step)) is None:
            return ""
    return value if isinstance(value, str) else str(value).lower()


def timestamp(after: float = 0) -> str:
    return _written(int(time.time() + after))


@lru_cache(8)
def _written(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


@lru_cache(4096)
def quantity(text: str) -> Decimal:
    """A Kubernetes quantity (250m, 1.5, 64Mi) as a plain number; 400 for what is none."""
    match = _QUANTITY.fullmatch(text)
    if not match or match[1].count(".") > 1:
        raise bad_request(f"quantities must match the regular expression '{_QUANTITY.pattern}': {text!r}")
    return Decimal(match[1] + (match[2] or "")) * _SUFFIX[match[3] or ""]


def in_words(value: Decimal, resource: str) -> str:
    """A quantity as Kubernetes writes it: cores in whole or milli, bytes in the largest binary unit that fits."""
    if value != int(value):
        return f"{int(value * 1000)}m"
    for letter, size in (("Gi", 1024**3), ("Mi", 1024**2), ("Ki", 1024)):
        if "memory" in resource and value and value % size == 0:
            return f"{int(value / size)}{letter}"
    return str(int(value))


def label_selector(text: str) -> Callable[[Fields], bool]:
    """`a=b,c!=d,e in (f,g),h,!i` as a test of a label set."""
    terms, position, more = [], 0, bool(text.strip())
    while more:
        match = _LABEL_TERM.match(text, position)
        if not match:
            raise bad_request(f"unable to parse requirement: found '{text[position:]}', expected: identifier")
        terms.append(_label_term(match))
        position, more = match.end(), match[0].endswith(",")
    return lambda labels: all(term(labels) for term in terms)


def _label_term(match: re.Match[str]) -> Callable[[Fields], bool]:
    absent, key, sign, value, member, values = match.groups()
    allowed = {each.strip() for each in (values or value or "").split(",")}
    if why := next(filter(None, [words.bad_key(key), *map(words.bad_label_value, allowed)]), ""):
        raise bad_request(f"unable to parse requirement: {why}")
    if member:
        wanted = member == "in"
        return lambda labels: (labels.get(key) in allowed) is wanted
    if sign:
        return lambda labels: (labels.get(key) == value) is (sign != "!=")
    return lambda labels: (key in labels) is not bool(absent)


def field_selector(kind: Kind, text: str) -> Callable[[Fields], bool]:
    terms = []
    for term in filter(None, text.split(",")):
        match = re.fullmatch(r"([\w.]+)(==|=|!=)(.*)", term)
        if not match:
            raise bad_request(f"invalid selector: {text!r}; can't understand {term!r}")
        if match[1] not in ("metadata.name", "metadata.namespace", *kind.fields):
            raise bad_request(f"field label not supported: {match[1]}")
        terms.append((match[1], match[3], match[2] != "!="))
    return lambda fields: all((fields[path] == value) is wanted for path, value, wanted in terms)
