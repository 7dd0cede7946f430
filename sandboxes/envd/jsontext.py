"""JSON through the interpreter's own C scanner and encoder.

`import json` pulls in `re`, which costs every sandbox 10 ms of CPU at start; the C parts beneath it are the same code.
"""

from __future__ import annotations

import _json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class _Rules:
    """What the C scanner wants to be told (the attributes of `json.JSONDecoder`)."""

    strict = True
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_int = int
    memo: dict[str, str] = {}

    @staticmethod
    def parse_constant(name: str) -> float:
        raise ValueError(f"{name} is not JSON")


def _refuse(value: object) -> object:
    raise TypeError(f"{type(value).__name__} is not JSON")


_rules: Any = _Rules
_scan: Any = _json.make_scanner(_rules)
_encode: Any = _json.make_encoder(
    None,
    _refuse,
    _json.encode_basestring_ascii,
    None,
    ":",
    ",",
    False,
    False,
    False,
)


def parse(data: bytes) -> Any:
    """The value that `data` holds; ValueError when it is not JSON."""
    text = data.decode().strip(" \t\r\n")
    try:
        value, end = _scan(text, 0)
    except StopIteration:
        raise ValueError("the text is not JSON") from None
    except RecursionError:
        raise ValueError("the JSON is nested too deeply") from None
    if end != len(text):
        raise ValueError("there is text after the JSON value")
    return value


def dump(value: object) -> bytes:
    return "".join(_encode(value, 0)).encode()
