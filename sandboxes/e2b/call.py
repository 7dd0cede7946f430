"""One request to the control plane: its body, its key, and whether its caller is still there."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from starlette.types import Message

from sandboxes.serving.asgi import Receive, Scope, header

from .answers import Refusal

if TYPE_CHECKING:
    from .control import Control
    from .keys import Key

LARGEST_BODY = 1 << 20
BODY_SECONDS = 30.0


class CallerGone(Exception):
    """Nobody waits for the answer."""


@dataclass(slots=True)
class Call:
    control: Control
    scope: Scope
    receive: Receive
    key: Key
    params: dict[str, str] = field(default_factory=dict)

    @property
    def sandbox_id(self) -> str:
        """Old SDKs append `-<clientID>`; ids themselves have no dash (e2b-protocol 0.12)."""
        return self.params["sandbox"].split("-", 1)[0]

    def header(self, name: bytes) -> str | None:
        return header(self.scope, name)

    def query(self) -> dict[str, str]:
        """Query parameters, decoded once; the last of a repeated name wins."""
        try:
            return dict(parse_qsl(self.scope["query_string"].decode("ascii"), keep_blank_values=True, errors="strict"))
        except UnicodeDecodeError as error:
            raise Refusal(400, "query: must be percent-encoded UTF-8.") from error

    async def json(self) -> dict[str, Any]:
        """The body, an object; an empty body is an empty object (JS sends it chunked, without a length)."""
        body = await self.body()
        if not body.strip():
            return {}
        try:
            value = json.loads(body)
        except ValueError as error:
            raise Refusal(400, f"body: is not JSON ({error}).") from error
        except RecursionError as error:
            raise Refusal(400, "body: is nested too deeply.") from error
        if not isinstance(value, dict):
            raise Refusal(400, "body: must be a JSON object.")
        return value

    async def body(self) -> bytes:
        length = self.header(b"content-length") or "0"
        if length.isdigit() and int(length) > LARGEST_BODY:
            raise too_large()
        try:
            async with asyncio.timeout(BODY_SECONDS):
                return await self._read()
        except TimeoutError as error:
            raise Refusal(408, f"body: was not complete after {BODY_SECONDS:.0f} s.") from error

    async def _read(self) -> bytes:
        parts: list[bytes] = []
        size = 0
        while True:
            message = await self.receive()
            if message["type"] == "http.disconnect":
                raise CallerGone
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            if size > LARGEST_BODY:
                raise too_large()
            if not message.get("more_body", False):
                return b"".join(parts)

    def gone(self) -> asyncio.Task[Message]:
        """Done when the caller disconnects. Only after the body was read; cancel it when the answer is there."""
        return asyncio.ensure_future(self._gone())

    async def _gone(self) -> Message:
        while (message := await self.receive())["type"] != "http.disconnect":
            pass
        return message


def too_large() -> Refusal:
    return Refusal(413, f"body: is larger than {LARGEST_BODY} bytes; write files into the sandbox instead.")
