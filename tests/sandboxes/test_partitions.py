from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta

import pytest
from django.db import connection

from sandboxes import partitions
from sandboxes.models import Claim, Decision, Heartbeat, Sandbox
from tests.factories import ago, make_claim, make_decision, make_group, make_sandbox

pytestmark = pytest.mark.usefixtures("transactional_db")


@pytest.fixture(autouse=True)
def tables_as_they_were(transactional_db: None) -> Iterator[None]:
    yield
    with connection.cursor() as cursor:
        cursor.execute("SELECT inhrelid::regclass::text FROM pg_inherits JOIN pg_class c ON c.oid = inhrelid")
        for (name,) in cursor.fetchall():
            if name[-8:].isdigit():
                cursor.execute(f"DROP TABLE {name}")


def where(row: Sandbox | Decision) -> str:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT tableoid::regclass::text FROM {row._meta.db_table} WHERE id = %s", [row.pk])
        return str(cursor.fetchone()[0])


def test_days_are_made_ahead_and_take_the_rows_that_came_before_them() -> None:
    today = datetime.now(UTC).date()
    decision = make_decision(make_group(), age=0)
    assert where(decision) == "sandboxes_decision_default"
    partitions.housekeep()
    partitions.housekeep()
    assert where(decision) == partitions.partition("sandboxes_decision", today)
    assert where(make_decision(decision.group, age=-86400)).endswith(f"{today + timedelta(days=1):%Y%m%d}")


def test_ended_sandboxes_go_to_the_shelf_of_their_day_after_a_minute() -> None:
    live = make_sandbox(state="idle")
    old, new = make_sandbox(live.pool, "ended"), make_sandbox(live.pool, "ended")
    Sandbox.objects.filter(pk__in=[old.pk, new.pk]).update(shelf=datetime(9999, 12, 31, tzinfo=UTC))
    Sandbox.objects.filter(pk=old.pk).update(ended_at=ago(120))
    partitions.housekeep()
    assert where(live) == where(new) == "sandboxes_sandbox_live"
    assert where(old).removeprefix("sandboxes_sandbox_").isdigit()
    assert Sandbox.objects.get(pk=old.pk).state == "ended"


def test_old_days_are_dropped_whole() -> None:
    long_ago = date(2026, 1, 1)
    partitions.make("sandboxes_event", long_ago)
    partitions.housekeep()
    with connection.cursor() as cursor:
        cursor.execute("SELECT to_regclass('sandboxes_event_20260101')")
        assert cursor.fetchone() == (None,)


def test_old_claims_and_silent_heartbeats_are_forgotten() -> None:
    group = make_group()
    old = make_claim(group, "cancelled", finished_at=ago(8 * 86400))
    new = make_claim(group, "cancelled", finished_at=ago(60))
    Heartbeat.objects.create(name="edge-old", at=ago(2 * 86400))
    partitions.housekeep()
    assert list(Claim.objects.values_list("pk", flat=True)) == [new.pk]
    assert old.pk != new.pk
    assert not Heartbeat.objects.filter(name="edge-old").exists(), "that of other tests' edge may be there"
