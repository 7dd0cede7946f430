"""Fixtures for all tests. The servers come from `tests.servers`."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import urlencode

import pytest
import redis

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(autouse=True)
def empty_valkey() -> None:
    """Every test finds an empty Valkey, as it finds an empty database."""
    with redis.Redis.from_url(os.environ["REDIS_URL"], socket_timeout=5) as client:
        client.flushall()


@pytest.fixture
def environment(transactional_db: None) -> dict[str, str]:
    """The environment of a process of ours that shares this test's database and Valkey."""
    from django.db import connection

    parts = connection.settings_dict
    database = f"postgresql://{parts['USER']}@/{parts['NAME']}?{urlencode({'host': parts['HOST']})}"
    return os.environ | {"DATABASE_URL": database, "DJANGO_SETTINGS_MODULE": "console.settings"}
