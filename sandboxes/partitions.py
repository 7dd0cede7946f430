"""Daily partitions: made ahead, dropped when old. History is dropped, never deleted row by row (design, section 4)."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

from django.db import connection, transaction

from . import transitions

KEEP_DAYS = {"sandboxes_sandbox": 30, "sandboxes_event": 14, "sandboxes_decision": 14}
AHEAD_DAYS = 3
SHELVE_AFTER = 60
"""Seconds after its end a sandbox's row moves from the live partition to its day's."""
BATCH = 5000
CLAIMS_KEPT_DAYS = 7


def housekeep() -> None:
    """Make the next days' partitions, drop the old ones, move ended sandboxes to their day, forget old claims."""
    today = datetime.now(UTC).date()
    for table, days in KEEP_DAYS.items():
        for offset in range(AHEAD_DAYS):
            make(table, today + timedelta(days=offset))
        drop_before(table, today - timedelta(days=days))
    shelve()
    forget_claims()


def partition(table: str, day: date) -> str:
    return f"{table}_{day:%Y%m%d}"


def make(table: str, day: date) -> None:
    """The day's partition, unless it exists; rows of that day that landed in the default one are moved along."""
    name = partition(table, day)
    with connection.cursor() as cursor:
        cursor.execute("SELECT to_regclass(%s)", [name])
        if cursor.fetchone() != (None,):
            return
    key = "shelf" if table == "sandboxes_sandbox" else "at"
    start, end = f"'{day}'", f"'{day + timedelta(days=1)}'"
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(f"CREATE TABLE {name} (LIKE {table} INCLUDING DEFAULTS INCLUDING CONSTRAINTS)")
        cursor.execute(f"LOCK TABLE {table}_default IN ACCESS EXCLUSIVE MODE")
        cursor.execute(
            f"""WITH moved AS (DELETE FROM {table}_default WHERE {key} >= {start} AND {key} < {end} RETURNING *)
            INSERT INTO {name} SELECT * FROM moved"""
        )
        cursor.execute(f"ALTER TABLE {table} ATTACH PARTITION {name} FOR VALUES FROM ({start}) TO ({end})")


def drop_before(table: str, day: date) -> None:
    oldest = partition(table, day)
    with connection.cursor() as cursor:
        cursor.execute("SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = %s::regclass", [table])
        names = [name for (name,) in cursor.fetchall()]
        for name in names:
            if name[len(table) + 1 :].isdigit() and name < oldest:
                cursor.execute(f"DROP TABLE {name}")


def shelve() -> int:
    """Move a batch of ended rows out of the live partition; nothing changes them any more, so nothing races."""
    rows = transitions.run(
        f"""UPDATE sandboxes_sandbox s SET shelf = s.ended_at WHERE s.id IN (
               SELECT id FROM sandboxes_sandbox s WHERE s.state = 'ended' AND {transitions.LIVE_ONLY}
                  AND s.ended_at < now() - make_interval(secs => %s) LIMIT %s) AND {transitions.LIVE_ONLY}
        RETURNING s.id""",
        [SHELVE_AFTER, BATCH],
    )
    return len(rows)


def forget_claims() -> None:
    transitions.run(
        """DELETE FROM sandboxes_claim WHERE id IN (SELECT id FROM sandboxes_claim
             WHERE finished_at < now() - make_interval(days => %s) LIMIT %s) RETURNING id""",
        [CLAIMS_KEPT_DAYS, BATCH],
    )
    transitions.run("DELETE FROM sandboxes_heartbeat WHERE at < now() - interval '1 day' RETURNING name", [])
