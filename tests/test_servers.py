"""The servers of the test run are real and private to it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import redis
from django.db import connection

from tests.conftest import ROOT


@pytest.mark.django_db
def test_the_database_is_a_postgresql_of_this_run() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SHOW listen_addresses")
        assert cursor.fetchone() == ("",)


def test_valkey_is_empty_at_the_start_of_a_test() -> None:
    with redis.Redis.from_url(os.environ["REDIS_URL"]) as client:
        assert client.dbsize() == 0
        client.set("left", "behind")


def test_valkey_is_empty_at_the_start_of_the_next_test() -> None:
    test_valkey_is_empty_at_the_start_of_a_test()


def test_a_process_shares_the_database_of_its_test(environment: dict[str, str]) -> None:
    from pools.models import Team

    Team.objects.create(name="shared")
    code = "import django; django.setup(); from pools.models import Team; print(Team.objects.get().name)"
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, cwd=ROOT, capture_output=True, text=True, timeout=90
    )
    assert done.stdout == "shared\n", done.stderr
