"""Reading typed fields out of JSON messages; a wrong one is named in the error."""

from __future__ import annotations

from binascii import Error as Base64Error
from binascii import a2b_base64

from .errors import RpcError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Message = dict[str, Any]


def pick(message: Message, name: str) -> Any:
    """A field by its JSON name (lowerCamel) or its proto name (snake_case); None when absent."""
    value = message.get(name)
    if value is None and not name.islower():
        value = message.get("".join(f"_{each.lower()}" if each.isupper() else each for each in name))
    return value


def text(message: Message, name: str, default: str = "") -> str:
    value = pick(message, name)
    if value is None:
        return default
    if not _usable(value):
        raise RpcError("invalid_argument", f"{name} must be a string without NUL and stray surrogates")
    return str(value)


def flag(message: Message, name: str, default: bool = False) -> bool:
    value = pick(message, name)
    if value is None:
        return default
    if not isinstance(value, bool):
        raise RpcError("invalid_argument", f"{name} must be true or false")
    return value


def number(message: Message, name: str, most: int, default: int = 0) -> int:
    value = pick(message, name)
    if value is None:
        return default
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 20:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
        raise RpcError("invalid_argument", f"{name} must be a whole number from 0 to {most}")
    return value


def inner(message: Message, name: str) -> Message:
    """A nested message; empty when absent."""
    value = pick(message, name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise RpcError("invalid_argument", f"{name} must be an object")
    return value


def texts(message: Message, name: str) -> list[str]:
    value = pick(message, name)
    if value is None:
        return []
    if not isinstance(value, list) or not all(map(_usable, value)):
        raise RpcError("invalid_argument", f"{name} must be a list of strings without NUL and stray surrogates")
    return value


def variables(message: Message, name: str) -> dict[str, str]:
    """Environment variables: names without `=`, values without NUL."""
    value = inner(message, name)
    for key, each in value.items():
        if not key or "=" in key or not _usable(key):
            raise RpcError("invalid_argument", f"{name} holds a name that no environment variable can have")
        if not _usable(each):
            raise RpcError("invalid_argument", f"{name}.{key} must be a string without NUL and stray surrogates")
    return value


def blob(message: Message, name: str) -> bytes:
    """Bytes, which JSON carries as base64 (standard or URL-safe, padded or not)."""
    value = text(message, name).replace("-", "+").replace("_", "/")
    try:
        return a2b_base64(value + "=" * (-len(value) % 4), strict_mode=True)
    except (Base64Error, ValueError):
        raise RpcError("invalid_argument", f"{name} must be base64") from None


def _usable(value: object) -> bool:
    """Whether the kernel can take it as an argument, a variable or a path."""
    if not isinstance(value, str) or "\0" in value:
        return False
    try:
        return value.isascii() or bool(value.encode("utf-8", "surrogateescape"))
    except UnicodeEncodeError:
        return False
