"""The only sender of live hints: what changed, told to web and edge processes through Redis after commit.

Hints may be lost or arrive out of order; PostgreSQL is the truth and every reader re-reads it (design, Live feed).
Streams `live:<team id>` carry rows for the browser; channels `edge:<name>`, `gone` and `deadline` wake edge processes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from datetime import datetime
from functools import cache
from typing import Any

import orjson
import redis
import structlog
from django.conf import settings

log = structlog.get_logger(__name__)

STREAM_LENGTH = 5000
TIMEOUT = 0.5
MUTE_SECONDS = 1.0
"""After a failure nothing is sent for this long, so that a dead Redis slows nobody down."""

_muted_until = 0.0


@cache
def client() -> redis.Redis:
    return redis.Redis.from_url(settings.REDIS_URL, socket_timeout=TIMEOUT, socket_connect_timeout=TIMEOUT)


def send(command: Callable[[redis.Redis], Any]) -> Any:
    """The command's answer, or None when Redis does not answer: a hint is worth no more than TIMEOUT."""
    global _muted_until
    if time.monotonic() < _muted_until:
        return None
    try:
        return command(client())
    except redis.RedisError as error:
        _muted_until = time.monotonic() + MUTE_SECONDS
        log.warning("live hint not sent", error=str(error))
        return None


def stream(team_id: int) -> str:
    return f"live:{team_id}"


def publish(messages: Iterable[tuple[int, dict[str, Any]]], gone: Iterable[str] = ()) -> None:
    """Append each (team id, message) to its team's stream, and tell the edge which sandbox ids are gone."""
    ids = list(gone)

    def pipeline(connection: redis.Redis) -> None:
        with connection.pipeline(transaction=False) as pipe:
            for team_id, message in messages:
                pipe.xadd(stream(team_id), {"data": encode(message)}, maxlen=STREAM_LENGTH, approximate=True)
            if ids:
                pipe.publish("gone", encode(ids))
            pipe.execute()

    send(pipeline)


def publish_deadline(sandbox_id: str, end_at: datetime) -> None:
    send(lambda connection: connection.publish("deadline", encode({"id": sandbox_id, "end_at": end_at})))


def publish_bound(claims: Iterable[tuple[str, int]]) -> None:
    """Tell each edge process which of its waiting claims is bound: (edge, claim id)."""

    def pipeline(connection: redis.Redis) -> None:
        with connection.pipeline(transaction=False) as pipe:
            for edge, claim_id in claims:
                pipe.publish(f"edge:{edge}", encode({"claim": claim_id}))
            pipe.execute()

    send(pipeline)


def first_in(key: str, milliseconds: int) -> bool:
    """Whether nobody asked for `key` within the last `milliseconds`; False as well when Redis does not answer.

    The broker is that same Redis: Celery would try to reach it for seconds, and the sweep finds what is due anyway.
    """
    return bool(send(lambda connection: connection.set(key, 1, nx=True, px=milliseconds)))


def hold(key: str, milliseconds: int) -> None:
    """`first_in` of this key says no for so long."""
    send(lambda connection: connection.set(key, 1, px=milliseconds))


def let_go(key: str) -> None:
    send(lambda connection: connection.delete(key))


def encode(message: dict[str, Any] | list[str]) -> bytes:
    """Times become ISO 8601."""
    return orjson.dumps(message)
