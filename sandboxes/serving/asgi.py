"""Plain ASGI: read a header, send an answer. No framework stands between a request and its answer (design, Claims)."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from starlette.types import Receive, Scope, Send

Header = tuple[bytes, bytes]

JSON = (b"content-type", b"application/json")
OPEN_TO_BROWSERS = (b"access-control-allow-origin", b"*")
"""The SDK runs in browsers too, and its requests carry no cookies."""
EXPOSED = (b"access-control-expose-headers", b"*")


def header(scope: Scope, name: bytes) -> str | None:
    """The first header of that lower-case name."""
    for key, value in scope["headers"]:
        if key == name:
            return str(value, "latin-1")
    return None


def encode(payload: Any) -> bytes:
    return json.dumps(payload, separators=(",", ":")).encode()


async def send_answer(send: Send, status: int, body: bytes = b"", headers: Iterable[Header] = ()) -> None:
    length = [] if status == 204 else [(b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": [*headers, *length]})
    await send({"type": "http.response.body", "body": body})


async def send_json(send: Send, status: int, payload: Any, headers: Iterable[Header] = ()) -> None:
    await send_answer(send, status, encode(payload), [JSON, OPEN_TO_BROWSERS, EXPOSED, *headers])


async def send_preflight(scope: Scope, send: Send) -> None:
    """Browsers may call from anywhere: what protects a sandbox is its token, not the caller's origin."""
    wanted = header(scope, b"access-control-request-headers") or "*"
    headers = [
        OPEN_TO_BROWSERS,
        (b"access-control-allow-methods", b"GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"),
        (b"access-control-allow-headers", wanted.encode("latin-1")),
        (b"access-control-max-age", b"7200"),
        (b"vary", b"access-control-request-headers"),
    ]
    await send_answer(send, 204, headers=headers)


def is_preflight(scope: Scope) -> bool:
    return scope["method"] == "OPTIONS" and header(scope, b"access-control-request-method") is not None


__all__ = [
    "Header",
    "Receive",
    "Scope",
    "Send",
    "encode",
    "header",
    "is_preflight",
    "send_answer",
    "send_json",
    "send_preflight",
]
