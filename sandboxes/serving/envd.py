"""What the edge says to a sandbox's daemon itself: arm it, move its own deadline, read its metrics."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import aiohttp
from django.conf import settings
from yarl import URL

from sandboxes import tokens

ATTEMPT_SECONDS = 4.0
"""For one sandbox to be armed: the claim's deadline and this stay below the SDK's patience."""
DEFAULT_USER = "user"
KEEPALIVE_SECONDS = 30.0
"""Much shorter than envd's own, so that a pooled connection is never closed under a request."""
FAILURES = (aiohttp.ClientError, OSError, TimeoutError)


def make_session(*, pooled: bool = True) -> aiohttp.ClientSession:
    """Connections to sandboxes, without limits of its own: every use brings its time limit.

    What envd relays to a user's program must not be pooled: the connection belongs to that program from then on.
    """
    keep = {"keepalive_timeout": KEEPALIVE_SECONDS} if pooled else {"force_close": True}
    connector = aiohttp.TCPConnector(limit=0, use_dns_cache=False, **keep)
    return aiohttp.ClientSession(
        connector=connector,
        auto_decompress=False,
        cookie_jar=aiohttp.DummyCookieJar(),
        read_bufsize=1 << 17,
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=ATTEMPT_SECONDS),
        skip_auto_headers=["User-Agent", "Accept", "Accept-Encoding", "Content-Type"],
    )


def address(pod_ip: str, path: str) -> URL:
    """`path` as it stands on the wire, query included."""
    host = f"[{pod_ip}]" if ":" in pod_ip else pod_ip
    return URL(f"http://{host}:{settings.ENVD_PORT}{path}", encoded=True)


class Envd:
    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session

    async def arm(self, sandbox_id: str, pod_ip: str, env_vars: dict[str, str], lifetime: float) -> str:
        """Give a bound sandbox its caller's variables, token and deadline, and see it alive: "" or what is wrong.

        The deadline is the one that `claims.deliver` will store, give or take this call: envd adds a margin anyway.
        """
        settings_ = {
            "envVars": env_vars,
            "accessToken": tokens.access_token(sandbox_id),
            "defaultUser": DEFAULT_USER,
            "deadline": time.time() + lifetime,
        }
        try:
            async with asyncio.timeout(ATTEMPT_SECONDS):
                await self._init(sandbox_id, pod_ip, settings_)
                await self._expect("GET", pod_ip, "/health")
        except FAILURES as error:
            return f"its daemon did not take the claim: {error or repr(error)}"
        return ""

    async def extend(self, sandbox_id: str, pod_ip: str, end_at: float) -> str:
        """Tell envd of a later deadline (unix seconds): "" or what is wrong."""
        try:
            async with asyncio.timeout(ATTEMPT_SECONDS):
                await self._init(sandbox_id, pod_ip, {"deadline": end_at})
        except FAILURES as error:
            return str(error) or repr(error)
        return ""

    async def metrics(self, sandbox_id: str, pod_ip: str) -> dict[str, Any] | None:
        """envd's present figures, None when it does not answer."""
        headers = {"X-Access-Token": tokens.access_token(sandbox_id)}
        try:
            async with asyncio.timeout(ATTEMPT_SECONDS):
                body = await self._expect("GET", pod_ip, "/metrics", headers=headers, answer=True)
        except (*FAILURES, ValueError):
            return None
        return body if isinstance(body, dict) else None

    async def _init(self, sandbox_id: str, pod_ip: str, payload: dict[str, Any]) -> None:
        headers = {"Authorization": f"Bearer {tokens.bootstrap_token(sandbox_id)}"}
        await self._expect("POST", pod_ip, "/init", json=payload, headers=headers)

    async def _expect(self, method: str, pod_ip: str, path: str, *, answer: bool = False, **options: Any) -> Any:
        async with self._session.request(method, address(pod_ip, path), **options) as response:
            if response.status >= 300:
                text = (await response.text())[:200]
                raise aiohttp.ClientError(f"{method} {path} answered {response.status} {text}")
            return await response.json(content_type=None) if answer else await response.read()
