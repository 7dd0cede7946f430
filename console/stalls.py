"""What stands still behind the pages, judged by when work was last done (design section 4), never by processes."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.utils import timezone
from django.utils.translation import gettext as _

from sandboxes import times

from .shown import span
from .truth import PoolNow, Truth

OLD = timedelta(seconds=times.NO_RECONCILE_ALERT)


def stalls(truth: Truth) -> list[str]:
    """One sentence each for clusters nobody looks at and pools no pass has finished for, with the way out."""
    return [*_unseen_clusters(truth), *_unplanned_pools(truth)]


def _unseen_clusters(truth: Truth) -> list[str]:
    ages = {pool.cluster: _age(pool.synced) for pool in truth.pools}
    text = _("Nobody has looked at cluster %(name)s for %(age)s: its watcher is not running. States below may be old.")
    return [text % {"name": name, "age": span(age.total_seconds())} for name, age in ages.items() if age and age > OLD]


def _unplanned_pools(truth: Truth) -> list[str]:
    old = [(pool, age) for pool in truth.pools if (age := _age(pool.passed)) and age > OLD]
    if not old:
        return []
    pool, age = max(old, key=lambda pair: pair[1])
    return [_unplanned(pool, len(old), age)]


def _unplanned(pool: PoolNow, count: int, age: timedelta) -> str:
    said = {"name": pool.name, "count": count - 1, "age": span(age.total_seconds())}
    text = _("No pass has finished for pool %(name)s for %(age)s") % said
    if count > 1:
        text = _("No pass has finished for pool %(name)s and %(count)d more for %(age)s") % said
    return f"{text}: {pool.failure}" if pool.failure else _("%s: worker or beat is not running.") % text


def _age(stamp: str | None) -> timedelta | None:
    return timezone.now() - datetime.fromisoformat(stamp) if stamp else None
