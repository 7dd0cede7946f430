"""Failed sign-ins by name and address, counted in the cache. Without a cache nobody is locked out."""

from __future__ import annotations

import hashlib
from typing import Any

import structlog
from django.core.cache import cache
from django.http import HttpRequest
from redis.exceptions import RedisError

log = structlog.get_logger(__name__)

MOST = 8
WINDOW = 60
"""Seconds; eight tries a minute are plenty for a person."""


def key(request: HttpRequest | None, username: str) -> str:
    address = request.META.get("REMOTE_ADDR", "") if request else ""
    return "signin:" + hashlib.sha256(f"{address} {username.lower()}".encode()).hexdigest()


def too_many(who: str) -> bool:
    return int(_ask(lambda: cache.get(who, 0)) or 0) >= MOST


def note(who: str) -> None:
    _ask(lambda: (cache.add(who, 0, WINDOW), cache.incr(who)))


def forget(who: str) -> None:
    _ask(lambda: cache.delete(who))


def _ask(question: Any) -> Any:
    try:
        return question()
    except (RedisError, ValueError) as error:
        log.warning("sign-in tries not counted", error=str(error))
        return None
