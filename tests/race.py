"""Calls side by side, each on a thread and a database connection of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable

from django.db import connection


def side_by_side(*calls: Callable[[], object]) -> None:
    """Let all calls go at once, wait for all, and fail with whatever any of them raised."""
    barrier = threading.Barrier(len(calls))
    errors: list[BaseException] = []

    def work(call: Callable[[], object]) -> None:
        try:
            barrier.wait(10)
            call()
        except BaseException as error:  # noqa: BLE001 - told to the test
            errors.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=work, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert errors == []
