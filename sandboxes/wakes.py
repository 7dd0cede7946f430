"""Wakes: the speed of the control loops. A lost wake costs a second or two, because the sweep finds what is due.

Celery tasks are called by name, so nothing here imports upwards; a message costs about 2 ms, hence the deduplication.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import structlog
from celery import current_app
from django.db import transaction
from kombu.exceptions import OperationalError

from . import live

log = structlog.get_logger(__name__)

DEDUPLICATE_MS = 100
EXPIRES = 10.0
WORK_MS = 1000
"""A pass at work that is not heard of for longer is taken for dead, and woken."""

_asked: dict[str, float] = {}
"""When this process last woke each subject: at a hundred claims a second most wakes need not even ask Redis."""


def wake_group(group_id: int) -> None:
    """Plan the group soon after the present transaction commits."""
    transaction.on_commit(lambda: wake("sandboxes.plan_group", group_id))


def wake_groups(group_ids: Iterable[int]) -> None:
    for group_id in set(group_ids):
        wake_group(group_id)


def wake_cluster(cluster_id: int) -> None:
    """Drain the cluster soon after the present transaction commits."""
    transaction.on_commit(lambda: wake("sandboxes.drain_cluster", cluster_id))


def wake(task: str, subject: int) -> None:
    """Send the task, unless it was sent just now, is at work, or the broker, which is the same Redis, is away."""
    key = key_of(task, subject)
    if asked_lately(key) or not live.first_in(key, DEDUPLICATE_MS):
        return
    try:
        current_app.send_task(task, args=[subject], expires=EXPIRES, retry=False)
    except (OperationalError, OSError) as error:
        log.warning("wake not sent", task=task, subject=subject, error=str(error))


@contextmanager
def at_work(task: str, subject: int) -> Iterator[Callable[[], None]]:
    """While a pass follows a burst nobody needs to wake it. Call what this gives at each step.

    After the block wakes are sent again; so look once more then, for what came between the last look and now.
    """
    key = key_of(task, subject)
    try:
        yield lambda: live.hold(key, WORK_MS)
    finally:
        live.let_go(key)


def key_of(task: str, subject: int) -> str:
    return f"wake:{task}:{subject}"


def asked_lately(key: str) -> bool:
    now = time.monotonic()
    if now - _asked.get(key, 0.0) < DEDUPLICATE_MS / 1000:
        return True
    _asked[key] = now
    return False
