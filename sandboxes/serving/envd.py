"""What the edge says to a sandbox's daemon itself: arm it, move its own deadline, read its metrics."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import aiohttp
from django.conf import settings
from yarl import URL

from sandboxes import tokens

from . import wire
from .asgi import encode

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
        claim = {
            "envVars": env_vars,
            "accessToken": tokens.access_token(sandbox_id),
            "defaultUser": DEFAULT_USER,
            "deadline": time.time() + lifetime,
        }
        health = wire.request("GET", "/health", pod_ip)
        return await told(pod_ip, [init(sandbox_id, pod_ip, claim), health])

    async def extend(self, sandbox_id: str, pod_ip: str, end_at: float) -> str:
        """Tell envd of a later deadline (unix seconds): "" or what is wrong."""
        return await told(pod_ip, [init(sandbox_id, pod_ip, {"deadline": end_at})])

    async def metrics(self, sandbox_id: str, pod_ip: str) -> dict[str, Any] | None:
        """envd's present figures, None when it does not answer."""
        headers = {"X-Access-Token": tokens.access_token(sandbox_id)}
        try:
            async with (
                asyncio.timeout(ATTEMPT_SECONDS),
                self._session.get(address(pod_ip, "/metrics"), headers=headers) as response,
            ):
                body = await response.json(content_type=None)
        except (*FAILURES, ValueError):
            return None
        return body if isinstance(body, dict) and response.status == 200 else None


def init(sandbox_id: str, pod_ip: str, settings_: dict[str, Any]) -> bytes:
    authorization = f"Bearer {tokens.bootstrap_token(sandbox_id)}"
    return wire.request("POST", "/init", pod_ip, encode(settings_), authorization)


async def told(pod_ip: str, requests: list[bytes]) -> str:
    """Ask the daemon: "" when all went well, else what is wrong."""
    try:
        async with asyncio.timeout(ATTEMPT_SECONDS):
            last = (await wire.ask(pod_ip, settings.ENVD_PORT, requests))[-1]
    except TimeoutError:
        return f"no answer within {ATTEMPT_SECONDS:.0f} s"
    except OSError as error:
        return str(error) or repr(error)
    return "" if last.status < 300 else f"it answered {last.status} {last.body[:200].decode(errors='replace')}"
