"""The three kinds of patches: merge, strategic merge, and JSON patch. Pure."""

import copy
import json
from typing import Any

from sandboxes.localkube.objects import ApiError, Json, bad_request

STRATEGIC, MERGE = "application/strategic-merge-patch+json", "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"


def parse(body: bytes, content_type: str) -> Any:
    """A patch of that kind; 415 for an unknown kind, 400 for what is none."""
    if content_type not in (STRATEGIC, MERGE, JSON_PATCH):
        raise ApiError(415, "UnsupportedMediaType", "415: Unsupported Media Type")
    try:
        patch = json.loads(body)
    except ValueError as error:
        raise bad_request(f"error decoding patch: {error}") from None
    if content_type == JSON_PATCH:
        good = isinstance(patch, list) and all(isinstance(step, dict) for step in patch)
    else:
        good = isinstance(patch, dict)
    if not good:
        raise bad_request(f"error decoding patch: {type(patch).__name__} is no {content_type}")
    return patch


def apply(item: Json, patch: Any, content_type: str) -> Json:
    """`item` after the patch; 422 for a step that cannot be taken."""
    if content_type == JSON_PATCH:
        return _in_steps(item, patch)
    merged: Json = _merge(item, patch, strategic=content_type == STRATEGIC)
    return merged


def _merge(target: Any, patch: Any, *, strategic: bool) -> Any:
    if isinstance(patch, dict):
        result = dict(target) if isinstance(target, dict) else {}
        for key, value in patch.items():
            if value is None:
                result.pop(key, None)
            elif strategic and key == "finalizers" and isinstance(value, list):
                before = result.get(key) or []
                result[key] = [*before, *(each for each in value if each not in before)]
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


class _NoStepError(Exception):
    """This step cannot be taken."""


def _in_steps(item: Json, steps: list[Json]) -> Json:
    result = copy.deepcopy(item)
    for step in steps:
        try:
            _take(result, step)
        except (_NoStepError, KeyError, IndexError, ValueError, TypeError) as error:
            words = f"the server rejected our request due to an error in our request ({step}: {error})"
            raise ApiError(422, "Invalid", words) from None
    return result


def _take(item: Json, step: Json) -> None:
    action, path = step["op"], _steps(step["path"])
    match action:
        case "add" | "replace":
            _put(item, path, step["value"], insert=action == "add")
        case "remove":
            _cut(item, path)
        case "move":
            _put(item, path, _cut(item, _steps(step["from"])), insert=True)
        case "copy":
            _put(item, path, copy.deepcopy(_at(item, _steps(step["from"]))), insert=True)
        case "test":
            if _at(item, path) != step["value"]:
                raise _NoStepError("testing value failed")
        case _:
            raise _NoStepError("unexpected kind of step")


def _steps(pointer: str) -> list[str]:
    if not pointer.startswith("/"):
        raise _NoStepError("a path begins with /")
    return [each.replace("~1", "/").replace("~0", "~") for each in pointer[1:].split("/")]


def _at(item: Any, path: list[str]) -> Any:
    for step in path:
        item = item[int(step)] if isinstance(item, list) else item[step]
    return item


def _put(item: Json, path: list[str], value: Any, *, insert: bool) -> None:
    place, last = _at(item, path[:-1]), path[-1]
    if not isinstance(place, list):
        place[last] = value
    elif not insert:
        place[int(last)] = value
    else:
        place.insert(len(place) if last == "-" else int(last), value)


def _cut(item: Json, path: list[str]) -> Any:
    place, last = _at(item, path[:-1]), path[-1]
    return place.pop(int(last) if isinstance(place, list) else last)
