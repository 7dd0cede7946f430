"""The headline figures, the pools' lines and the pool's sentence: from the truth to what pages and live feed show."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from pools.scaling import Binding

from .shown import NOTHING, Chip, bar_title, duration, finding_word, pool_chip, segments, span
from .truth import Counts, PoolNow, Truth, Waits


@dataclass(frozen=True, slots=True)
class Figure:
    """`parts` are figures with their units, joined by a slash; `tone` is a kind of state or ""."""

    key: str
    label: str
    parts: list[tuple[str, str]]
    note: str
    tone: str = ""

    def json(self) -> dict[str, Any]:
        return {"parts": self.parts, "note": self.note, "tone": self.tone}


def of_team(truth: Truth) -> list[Figure]:
    """The five headline figures of the overview."""
    counts = truth.counts
    return [*_common(counts, truth.queued, truth.oldest, truth.waits), stuck(truth)]


def of_pool(truth: Truth, pool: PoolNow) -> list[Figure]:
    """The five headline figures of a pool's page."""
    waits = truth.group_waits.get(pool.group_id, Waits())
    return [*_common(pool.counts, pool.queued, pool.oldest, waits), quota_left(truth)]


def _common(counts: Counts, queued: int, oldest: datetime | None, waits: Waits) -> list[Figure]:
    idle_note = _("idle and ready") if counts.idle else _("none idle")
    return [
        Figure("claimable", _("Claimable now"), [(number(counts.idle), "")], idle_note),
        Figure("claimed", _("Claimed"), [(number(counts.claimed), "")], _("of %s live") % number(counts.live)),
        Figure("queue", _("Queue"), [(number(queued), "")], _queue_note(oldest), "working" if queued else ""),
        Figure("waits", _("Claim wait p50 / p99"), [duration(waits.p50), duration(waits.p99)], _waits_note(waits)),
    ]


def _queue_note(oldest: datetime | None) -> str:
    if oldest is None:
        return _("no claim waits")
    return _("oldest waits %s") % span((timezone.now() - oldest).total_seconds())


def _waits_note(waits: Waits) -> str:
    if not waits.count:
        return _("no claims in 15 min")
    return ngettext("%s claim in 15 min", "%s claims in 15 min", waits.count) % number(waits.count)


def stuck(truth: Truth) -> Figure:
    count, causes = truth.counts.stuck, len(truth.counts.causes)
    note = ngettext("%d cause", "%d causes", causes) % causes if causes else _("nothing stuck")
    return Figure("stuck", _("Stuck"), [(number(count), "")], note, "stuck" if count else "")


def quota_left(truth: Truth) -> Figure:
    if truth.quota is None:
        return Figure("quota", _("Quota left"), [(NOTHING, "")], _("no quota is set"), "stuck")
    left = truth.quota_left or 0
    note = _("of %s sandboxes") % number(truth.quota)
    return Figure("quota", _("Quota left"), [(number(left), "")], note, "" if left else "stuck")


def number(count: int) -> str:
    return f"{count:,}"


@dataclass(frozen=True, slots=True)
class Bar:
    """Segments in percent and what they say in words."""

    segments: list[tuple[str, str, str]]
    title: str


def pool_bar(pool: PoolNow) -> Bar:
    """Of its ceiling; a pool above a lowered ceiling fills the track."""
    whole = max(pool.ceiling, pool.counts.live)
    return Bar(segments(pool.counts, pool.asked, whole), bar_title(pool.counts, pool.asked, whole))


def quota_bar(truth: Truth) -> Bar:
    asked = sum(pool.asked for pool in truth.pools)
    whole = max(truth.quota or 0, truth.counts.live)
    return Bar(segments(truth.counts, asked, whole), bar_title(truth.counts, asked, whole))


@dataclass(frozen=True, slots=True)
class PoolLine:
    """A pool as one line of the pools' table."""

    pool: PoolNow
    bar: Bar
    chip: Chip

    def json(self) -> dict[str, Any]:
        counts = self.pool.counts
        figures = {"idle": number(counts.idle), "claimed": number(counts.claimed), "queue": number(self.pool.queued)}
        return {"figures": figures, "bar": bar_json(self.bar), "chip": self.chip}


def bar_json(bar: Bar) -> dict[str, Any]:
    return {"segments": bar.segments, "title": bar.title}


def pool_line(pool: PoolNow) -> PoolLine:
    return PoolLine(pool, pool_bar(pool), pool_chip(pool))


@dataclass(frozen=True, slots=True)
class Headline:
    """What is true of a pool now, why, and since when: its newest decision in words."""

    kind: str
    lead: str
    text: str
    at: str = ""
    action: str = ""
    href: str = ""
    """Where what to do can be done: a link within the page."""

    def json(self) -> dict[str, str]:
        return asdict(self)


def headline(pool: PoolNow) -> Headline:
    """The lead names the binding constraint, the text is the decision's own sentence."""
    chip = pool_chip(pool)
    if pool.sentence is None:
        text = _("The autoscaler has not decided yet; its first pass comes within 10 s of a change.")
        return Headline("ended", _("No decision yet."), text)
    return Headline(chip.kind, lead(pool), pool.sentence, pool.at or "", *action(pool))


def action(pool: PoolNow) -> tuple[str, str]:
    """What to do about the binding constraint, ("", "") when nothing is to be done."""
    if pool.counts.stuck:
        return _("See the stuck ones"), "?state=stuck#sandboxes"
    if pool.bound is Binding.CEILING:
        return _("Raise the ceiling"), "#scale"
    if pool.bound is Binding.QUOTA:
        return _("See who holds the quota"), "../"
    return "", ""


def lead(pool: PoolNow) -> str:
    """What the decision comes to in a few words, "" where its sentence begins with them."""
    if pool.bound is Binding.HELD:
        cause = pool.counts.causes.most_common(1)
        return _("Not growing: %s.") % (finding_word(cause[0][0]).lower() if cause else _("sandboxes are stuck"))
    return {
        Binding.CEILING: _("Not growing: at its ceiling."),
        Binding.QUOTA: _("Not growing: the quota is used up."),
        Binding.STARTING: _("Growing as fast as it may."),
        Binding.DEMAND: _("Growing."),
        Binding.QUIET: _("Shrinking soon."),
    }.get(pool.bound, "")


def team_now(truth: Truth) -> dict[str, Any]:
    """What the live feed says of a team: everything the overview and the sidebar show as figures."""
    return {
        "figures": {figure.key: figure.json() for figure in [*of_team(truth), quota_left(truth)]},
        "pools": {pool.id: pool_line(pool).json() for pool in truth.pools},
        "quota": {"used": number(truth.counts.live), "bar": bar_json(quota_bar(truth))},
        "states": state_counts(truth.counts),
    }


def pool_now(truth: Truth, pool: PoolNow) -> dict[str, Any]:
    """What the live feed says on a pool's page."""
    return {
        "figures": {figure.key: figure.json() for figure in of_pool(truth, pool)},
        "pools": {pool.id: pool_line(pool).json()},
        "headline": headline(pool).json(),
        "decision": pool.decision,
        "states": state_counts(pool.counts) | {"all": number(truth.counts.live)},
    }


def state_counts(counts: Counts) -> dict[str, str]:
    """By the states of console.sandboxes.listing; ended ones are not counted."""
    names = ("live", "claimed", "idle", "starting", "stuck", "stopping")
    return {name: number(getattr(counts, name)) for name in names} | {"all": number(counts.live)}
