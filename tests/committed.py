"""A database whose rows other processes see, emptied after the test.

pytest-django's `transactional_db` truncates every table and makes content types anew (over a second with our
partitions); deleting the few rows of a test takes milliseconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection

KEPT = {"django_content_type", "auth_permission", "django_migrations"}


@contextmanager
def committed(blocker: object) -> Iterator[None]:
    """`blocker` is pytest-django's django_db_blocker; use django_db_setup beside it."""
    with blocker.unblock():  # type: ignore[attr-defined]
        try:
            yield
        finally:
            empty()
            connection.close()


def empty() -> None:
    """Delete all rows, whatever refers to whatever: foreign keys are not checked in this transaction."""
    tables = [name for name in connection.introspection.django_table_names(only_existing=True) if name not in KEPT]
    deletes = ";".join(f'DELETE FROM "{name}"' for name in tables)
    with connection.cursor() as cursor:
        cursor.execute(f"BEGIN; SET LOCAL session_replication_role = replica; {deletes}; COMMIT")
