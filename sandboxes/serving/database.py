"""The edge's way to PostgreSQL: eight threads, one connection each, whatever the number of waiting requests.

Two of the threads are kept for upkeep (heartbeat, fallback, routes, cancels), so that a burst of creates can never
make this process look dead or its gateway slow. A connection that breaks is closed, so the next use makes a new one.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import local
from typing import Any

import structlog
from django.db import InterfaceError, OperationalError, connection
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created

log = structlog.get_logger(__name__)

REQUEST_THREADS = 6
UPKEEP_THREADS = 2
STATEMENT_TIMEOUT_MS = 10_000
CHECK_AFTER_IDLE = 1.0
"""A connection unused for longer (seconds) is tried before use: a restart of PostgreSQL then costs no request."""
BROKEN = (OperationalError, InterfaceError)

thread = local()


class Database:
    def __init__(self) -> None:
        connection_created.connect(limit_statements)
        self._requests = ThreadPoolExecutor(REQUEST_THREADS, "edge-request")
        self._upkeep = ThreadPoolExecutor(UPKEEP_THREADS, "edge-upkeep")

    async def run[**P, R](self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """`function` in a request thread. Raises what it raises; BROKEN when the database is not there."""
        return await in_thread(self._requests, function, args, kwargs)

    async def upkeep[**P, R](self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """The same in an upkeep thread, for what must not wait behind creates."""
        return await in_thread(self._upkeep, function, args, kwargs)

    @staticmethod
    def ping() -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")

    def close(self) -> None:
        for pool, size in ((self._requests, REQUEST_THREADS), (self._upkeep, UPKEEP_THREADS)):
            for _ in range(size):
                pool.submit(connection.close)
            pool.shutdown(wait=True)
        connection_created.disconnect(limit_statements)


async def in_thread[R](pool: ThreadPoolExecutor, function: Callable[..., R], args: Any, kwargs: Any) -> R:
    return await asyncio.get_running_loop().run_in_executor(pool, lambda: call(function, args, kwargs))


def call[R](function: Callable[..., R], args: Any, kwargs: Any) -> R:
    drop_if_broken()
    try:
        return function(*args, **kwargs)
    except BROKEN:
        connection.close()
        raise
    finally:
        thread.used = time.monotonic()


def drop_if_broken() -> None:
    """Each thread has a connection of its own; Django's health check, one round trip, only after a pause."""
    idle = time.monotonic() - getattr(thread, "used", 0.0)
    if idle > CHECK_AFTER_IDLE and connection.connection is not None and not connection.is_usable():
        log.warning("database connection lost, making a new one")
        connection.close()


def limit_statements(connection: BaseDatabaseWrapper, **_: Any) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"SET statement_timeout = {STATEMENT_TIMEOUT_MS}")
