"""Checks of JSON documents that people write: each problem has the path of its field and a sentence. Pure.

A check is a function of a path and a value. Small ones (`text`, `number`) are put together with `items`, `mapping` and
`record`, so that a document's shape reads like the document.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, NamedTuple


class Problem(NamedTuple):
    """`text` goes on where the path ends: "podTemplate.env[0].name" "must be given."."""

    field: str
    text: str

    def __str__(self) -> str:
        return f"{self.field}: {self.text}"


type Check = Callable[[str, Any], Iterator[Problem]]
type Refusal = Callable[[str, Any, Collection[str]], Iterator[Problem]]
"""What to say of a field that is not taken: its path, its value, and the names that are."""


def text(pattern: str, words: str) -> Check:
    """Text that matches the whole pattern and that any database can keep."""
    form = re.compile(pattern, re.DOTALL)

    def check(path: str, value: Any) -> Iterator[Problem]:
        if not isinstance(value, str) or not form.fullmatch(value) or not storable(value):
            yield Problem(path, words)

    return check


def storable(value: str) -> bool:
    try:
        return b"\0" not in value.encode()
    except UnicodeEncodeError:
        return False


def number(low: int, high: int) -> Check:
    def check(path: str, value: Any) -> Iterator[Problem]:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            yield Problem(path, f"must be a whole number from {low} to {high}.")

    return check


def boolean(path: str, value: Any) -> Iterator[Problem]:
    if not isinstance(value, bool):
        yield Problem(path, "must be true or false.")


def one_of(*choices: str) -> Check:
    def check(path: str, value: Any) -> Iterator[Problem]:
        if value not in choices:
            yield Problem(path, f"must be one of {', '.join(choices)}.")

    return check


def items(check_item: Check, most: int) -> Check:
    def check(path: str, value: Any) -> Iterator[Problem]:
        if not isinstance(value, list) or len(value) > most:
            yield Problem(path, f"must be a list of at most {most}.")
            return
        for index, item in enumerate(value):
            yield from check_item(f"{path}[{index}]", item)

    return check


def mapping(check_key: Check, check_value: Check) -> Check:
    def check(path: str, value: Any) -> Iterator[Problem]:
        if not isinstance(value, dict):
            yield Problem(path, "must be an object of names and values.")
            return
        for key, inner in value.items():
            where = f"{path}[{key}]"
            yield from list(check_key(where, key)) or check_value(where, inner)

    return check


def record(fields: Mapping[str, Check], refused: Refusal, required: Collection[str] = ()) -> Check:
    def check(path: str, value: Any) -> Iterator[Problem]:
        if not isinstance(value, dict):
            yield Problem(path, f"must be an object with {' or '.join(fields)}.")
            return
        for name, inner in value.items():
            where = f"{path}.{name}"
            known = fields.get(name)
            yield from known(where, inner) if known else refused(where, inner, fields)
        for name in required:
            if name not in value:
                yield Problem(f"{path}.{name}", "must be given.")

    return check


def first(*checks: Check) -> Check:
    """The problems of the first check that has any: later ones may rely on it."""

    def check(path: str, value: Any) -> Iterator[Problem]:
        for each in checks:
            if found := list(each(path, value)):
                yield from found
                return

    return check
