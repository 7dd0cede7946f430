"""How states are said: the one place that turns codes into shape, word and sentence, for pages and live feed alike.

`kind` picks shape and colour: claimed and ready a filled circle, working a ring, stuck a square, ended a dash.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, NamedTuple

from django.utils.translation import gettext_lazy as _

from pools.scaling import Binding
from sandboxes.lifecycle import EndReason, State
from sandboxes.models import Sandbox

from .truth import Counts, PoolNow

STATES = {
    State.PENDING: ("working", _("Asked for")),
    State.STARTING: ("working", _("Starting")),
    State.IDLE: ("ready", _("Idle")),
    State.CLAIMED: ("claimed", _("Claimed")),
    State.STOPPING: ("working", _("Stopping")),
}
ENDS = {
    EndReason.KILLED: _("Ended on request"),
    EndReason.TIMEOUT: _("Deadline reached"),
    EndReason.CALLER_GONE: _("Caller gone"),
    EndReason.NOT_DELIVERED: _("Answer lost"),
    EndReason.NOT_ARMED: _("Not armed"),
    EndReason.SURPLUS: _("Surplus"),
    EndReason.START_TIMEOUT: _("Start timed out"),
    EndReason.FAILED: _("Failed"),
    EndReason.EVICTED: _("Evicted"),
    EndReason.POD_GONE: _("Pod vanished"),
    EndReason.REJECTED: _("Rejected"),
}
FINDINGS = {
    "no_room": _("No room in the cluster"),
    "image": _("Image not found"),
    "start_failed": _("Container cannot start"),
    "crash_loop": _("Crash loop"),
    "start_timeout": _("Slow to start"),
    "cluster_quota": _("Cluster quota reached"),
    "cluster_api": _("Cluster does not answer"),
    "create_refused": _("Refused by the cluster"),
    "rejected": _("Rejected by the cluster"),
}
BOUND_BY = {
    Binding.NONE: ("ready", _("At target")),
    Binding.DEMAND: ("ready", _("Demand")),
    Binding.FLOOR: ("ready", _("Floor")),
    Binding.CEILING: ("stuck", _("Ceiling")),
    Binding.QUOTA: ("stuck", _("Quota")),
    Binding.STARTING: ("working", _("Creates at once")),
    Binding.HELD: ("stuck", _("Stuck sandboxes")),
    Binding.QUIET: ("working", _("Quiet window")),
}


NOTHING = "\u2013"


class Chip(NamedTuple):
    """A state as people see it."""

    kind: str
    word: str


@dataclass(frozen=True, slots=True)
class Line:
    """A sandbox as one line of a table, rendered by the server or patched by live.js; times are ISO 8601 or ""."""

    id: str
    rev: int
    state: str
    kind: str
    word: str
    why: str
    pool_id: int
    pool: str
    node: str
    created: str
    deadline: str
    ended: str

    @property
    def live(self) -> bool:
        return self.state != State.ENDED

    @property
    def can_end(self) -> bool:
        return self.state not in (State.ENDED, State.STOPPING)

    def json(self) -> dict[str, Any]:
        return asdict(self)


def finding_word(code: str) -> str:
    return str(FINDINGS.get(code) or code.replace("_", " ").replace("-", " ").capitalize())


def end_word(reason: str) -> str:
    return str(ENDS[EndReason(reason)]) if reason in list(EndReason) else str(_("Ended"))


def sandbox_chip(state: str, finding: str, end_reason: str) -> Chip:
    if state == State.ENDED:
        return Chip("ended", end_word(end_reason))
    if finding:
        return Chip("stuck", finding_word(finding))
    kind, word = STATES[State(state)]
    return Chip(kind, str(word))


def line(sandbox: Sandbox) -> Line:
    """Needs `pool` loaded."""
    row = {name: getattr(sandbox, name) for name in FIELDS}
    return line_of(row | {"pool": sandbox.pool.name})


FIELDS = (
    "id", "rev", "state", "pool_id", "node", "created_at", "end_at", "ended_at", "end_reason", "finding", "finding_text"
)  # fmt: skip


def line_of(row: dict[str, Any]) -> Line:
    """From a live row (sandboxes.transitions.Moved.row), whose times may be text."""
    chip = sandbox_chip(row["state"], row["finding"], row["end_reason"])
    return Line(
        id=row["id"],
        rev=row["rev"],
        state=row["state"],
        kind=chip.kind,
        word=chip.word,
        why=row["finding_text"],
        pool_id=row["pool_id"],
        pool=row["pool"],
        node=row["node"],
        created=iso(row["created_at"]),
        deadline=iso(row["end_at"]) if row["state"] == State.CLAIMED else "",
        ended=iso(row["ended_at"]),
    )


def iso(moment: datetime | str | None) -> str:
    """UTC to the microsecond, one spelling, whatever it came as."""
    if not moment:
        return ""
    if isinstance(moment, str):
        moment = datetime.fromisoformat(moment)
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")


def pool_chip(pool: PoolNow) -> Chip:
    """The state of a pool, as the reason a person would give."""
    if pool.counts.causes:
        return Chip("stuck", finding_word(pool.counts.causes.most_common(1)[0][0]))
    if pool.queued and pool.bound is Binding.CEILING:
        return Chip("stuck", str(_("At its ceiling")))
    if pool.queued and pool.bound is Binding.QUOTA:
        return Chip("stuck", str(_("Quota reached")))
    return _calm_chip(pool)


def _calm_chip(pool: PoolNow) -> Chip:
    counts = pool.counts
    if counts.starting or pool.asked or pool.queued:
        return Chip("working", str(_("Growing")))
    if pool.bound is Binding.QUIET:
        return Chip("working", str(_("Shrinking soon")))
    if not counts.live:
        return Chip("ended", str(_("Empty")))
    if pool.bound is Binding.FLOOR and counts.claimed == 0:
        return Chip("ready", str(_("At its floor")))
    return Chip("ready", str(_("At target")))


def bound_by(binding: str) -> Chip:
    kind, word = BOUND_BY.get(binding, ("ended", binding))  # type: ignore[call-overload]
    return Chip(kind, str(word))


def segments(counts: Counts, asked: int, whole: int) -> list[tuple[str, str, str]]:
    """The bar: (kind, x, width) in percent of `whole`; what does not fit is cut at the track's end."""
    parts = [("claimed", counts.claimed), ("ready", counts.idle), ("working", counts.starting)]
    parts += [("stuck", counts.stuck), ("ended", counts.stopping), ("asked", asked)]
    shares = [(kind, 100 * count / max(whole, 1)) for kind, count in parts]
    placed, x = [], 0.0
    for kind, share in shares:
        width = min(share, 100 - x)
        placed.append((kind, f"{x:.2f}%", f"{width:.2f}%"))
        x += width
    return placed


def bar_title(counts: Counts, asked: int, whole: int) -> str:
    return str(
        _(
            "%(claimed)d claimed, %(idle)d idle, %(starting)d starting, %(stuck)d stuck, %(asked)d asked for; "
            "of %(whole)d"
        )
        % {
            "claimed": counts.claimed,
            "idle": counts.idle,
            "starting": counts.starting,
            "stuck": counts.stuck,
            "asked": asked,
            "whole": whole,
        }
    )


def duration(seconds: float | None) -> tuple[str, str]:
    """A figure and its unit: ("14", "ms"), ("0.9", "s"), ("2", "min"); NOTHING for None."""
    if seconds is None:
        return NOTHING, ""
    if seconds < 0.0995:
        return f"{max(seconds, 0) * 1000:.0f}", "ms"
    if seconds < 9.95:
        return f"{seconds:.1f}", "s"
    if seconds < 120:
        return f"{seconds:.0f}", "s"
    return f"{seconds / 60:.0f}", "min"


def span(seconds: float) -> str:
    """A length of time in at most two parts; static/js/time.js says the same."""
    whole = int(max(seconds, 0))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s" if whole < 600 else f"{whole // 60} min"
    if whole < 86400:
        return f"{whole // 3600} h {whole % 3600 // 60} min"
    return f"{whole // 86400} d {whole % 86400 // 3600} h"
