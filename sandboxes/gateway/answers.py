"""The gateway's own answers, word for word what the SDKs look for (e2b-protocol 3.5)."""

from __future__ import annotations

import html
from typing import Any

from sandboxes.serving.asgi import Scope, Send, encode, header, send_answer, send_json

NOT_FOUND = "The sandbox was not found"
PORT_CLOSED = "The sandbox is running but port is not open"


def not_found(sandbox_id: str) -> dict[str, Any]:
    return {"sandboxId": sandbox_id, "message": NOT_FOUND, "code": 502}


def port_closed(sandbox_id: str, port: int) -> dict[str, Any]:
    return {"sandboxId": sandbox_id, "message": PORT_CLOSED, "port": port, "code": 502}


def unauthorized() -> dict[str, Any]:
    return {"code": 401, "message": "The access token is missing or wrong: send the sandbox's envdAccessToken."}


def hidden_path() -> dict[str, Any]:
    return {"code": 404, "message": "There is no such path."}


def busy() -> dict[str, Any]:
    return {"code": 503, "message": "Where this sandbox is cannot be looked up at the moment. Ask again."}


async def send_refusal(scope: Scope, send: Send, status: int, payload: dict[str, Any]) -> None:
    """JSON, or a page when a person's browser navigates here."""
    if not navigates(scope):
        return await send_json(send, status, payload)
    page = f"<!doctype html><meta charset=utf-8><title>{status}</title><h1>{status}</h1><p>{html.escape(text(payload))}"
    return await send_answer(send, status, page.encode(), [(b"content-type", b"text/html; charset=utf-8")])


def text(payload: dict[str, Any]) -> str:
    where = ", ".join(f"{name} {payload[name]}" for name in ("sandboxId", "port") if name in payload)
    return f"{payload['message']}{f' ({where})' if where else ''}."


def navigates(scope: Scope) -> bool:
    return scope["method"] == "GET" and (header(scope, b"accept") or "").startswith("text/html")


async def deny_websocket(send: Send, status: int, payload: dict[str, Any]) -> None:
    """An HTTP answer instead of the handshake."""
    headers = [(b"content-type", b"application/json")]
    await send({"type": "websocket.http.response.start", "status": status, "headers": headers})
    await send({"type": "websocket.http.response.body", "body": encode(payload)})
