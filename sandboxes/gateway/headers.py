"""Which headers cross the gateway: all but those of one hop, and none that could pass for ours."""

from __future__ import annotations

from collections.abc import Iterable

from multidict import CIMultiDict

from sandboxes.serving.asgi import EXPOSED, OPEN_TO_BROWSERS, Header, Scope

from .routes import Route
from .target import Target

HOP = {
    b"connection",
    b"keep-alive",
    b"proxy-authenticate",
    b"proxy-authorization",
    b"proxy-connection",
    b"te",
    b"trailer",
    b"transfer-encoding",
    b"upgrade",
}
NOT_FORWARDED = HOP | {b"expect"}
WEBSOCKET = b"sec-websocket-"
RELAY = b"x-envd-relay-"
"""Ours alone: they name the port that envd relays to."""
NOT_RETURNED = HOP | {b"date"}
"""uvicorn adds a date of its own."""


def to_sandbox(scope: Scope, route: Route, target: Target, envd_port: int) -> CIMultiDict[str]:
    """The caller's headers for the sandbox; for a user port with envd's relay headers."""
    dropped = NOT_FORWARDED | listed(scope["headers"])
    headers: CIMultiDict[str] = CIMultiDict()
    for name, value in scope["headers"]:
        if name not in dropped and not name.startswith((RELAY, WEBSOCKET)):
            headers.add(name.decode("latin-1"), decoded(value))
    if target.port != envd_port:
        headers["X-Envd-Relay-Port"] = str(target.port)
        headers["X-Envd-Relay-Token"] = route.token
    return headers


def to_caller(raw_headers: Iterable[Header], *, from_envd: bool) -> list[Header]:
    """The sandbox's headers for the caller. envd is open to browsers; a user's program decides for itself."""
    pairs = [(name.lower(), value) for name, value in raw_headers]
    dropped = NOT_RETURNED | listed(pairs)
    headers = [(name, value) for name, value in pairs if name not in dropped]
    if from_envd:
        have = {name for name, _ in headers}
        headers += [pair for pair in (OPEN_TO_BROWSERS, EXPOSED) if pair[0] not in have]
    return headers


def listed(headers: Iterable[Header]) -> set[bytes]:
    """Headers that `Connection` declares to be of this hop."""
    names: set[bytes] = set()
    for name, value in headers:
        if name == b"connection":
            names.update(part.strip().lower() for part in value.split(b","))
    return names


def decoded(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")
