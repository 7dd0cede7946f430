"""A database that is away for a while: new connections are refused, those that are open are broken."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from django.db import connection


@contextmanager
def database_outage() -> Iterator[None]:
    name = connection.settings_dict["NAME"]
    with server() as cursor:
        cursor.execute(f'ALTER DATABASE "{name}" WITH ALLOW_CONNECTIONS false')
        cursor.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name])
    try:
        yield
    finally:
        with server() as cursor:
            cursor.execute(f'ALTER DATABASE "{name}" WITH ALLOW_CONNECTIONS true')
        connection.close()


@contextmanager
def server() -> Iterator[psycopg.Cursor[tuple[object, ...]]]:
    """The same server, seen from another of its databases."""
    parts = connection.settings_dict
    with (
        psycopg.connect(host=parts["HOST"], user=parts["USER"], dbname="postgres", autocommit=True) as other,
        other.cursor() as cursor,
    ):
        yield cursor
