"""A sandbox's life in words and bars: what is true now, and how long each phase took."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.utils import timezone
from django.utils.translation import gettext as _

from console.figures import Headline
from console.shown import duration, end_word, finding_word
from sandboxes.lifecycle import State
from sandboxes.models import Sandbox


@dataclass(frozen=True, slots=True)
class Phase:
    """`x` and `width` in percent of the whole life so far."""

    label: str
    kind: str
    x: str
    width: str
    text: str


def phases(sandbox: Sandbox) -> list[Phase]:
    """The phases it went through; the last one lasts until now unless the sandbox ended."""
    steps = [(label, kind, since) for label, kind, since in _steps(sandbox) if since is not None]
    end = sandbox.ended_at or timezone.now()
    whole = max((end - sandbox.created_at).total_seconds(), 0.001)
    shown = []
    for index, (label, kind, since) in enumerate(steps):
        until = steps[index + 1][2] if index + 1 < len(steps) else end
        start, length = (since - sandbox.created_at).total_seconds(), (until - since).total_seconds()
        width = max(0.6, 100 * length / whole)
        x = min(100 * start / whole, 100 - width)
        shown.append(Phase(label, kind, f"{x:.2f}%", f"{width:.2f}%", " ".join(duration(length))))
    return shown


def _steps(sandbox: Sandbox) -> list[tuple[str, str, datetime | None]]:
    waiting = "stuck" if sandbox.finding else "working"
    return [
        (_("Asked for"), "claimed" if sandbox.starting_at else waiting, sandbox.created_at),
        (_("Starting"), "claimed" if sandbox.idle_at else waiting, sandbox.starting_at),
        (_("Idle"), "ready", sandbox.idle_at),
        (_("In use"), "stuck" if sandbox.finding else "claimed", sandbox.claimed_at),
        (_("Stopping"), "ended", sandbox.stopping_at),
    ]


def said(sandbox: Sandbox) -> Headline:
    """The sentence on top of its page."""
    if sandbox.state == State.ENDED:
        text = sandbox.end_message or _("By %s.") % (sandbox.end_actor or _("the system"))
        return Headline("ended", f"{end_word(sandbox.end_reason)}.", text)
    if sandbox.finding:
        return Headline("stuck", f"{finding_word(sandbox.finding)}.", sandbox.finding_text)
    kind, lead, text = {
        State.PENDING: ("working", _("Asked for."), _("The cluster has not acknowledged its Pod yet.")),
        State.STARTING: ("working", _("Starting."), _("Its Pod is accepted; the runtime is not up yet.")),
        State.IDLE: ("ready", _("Claimable."), _("Its runtime is up and nobody uses it.")),
        State.CLAIMED: ("claimed", _("In use."), _("It serves one claim and then ends.")),
        State.STOPPING: ("working", _("Stopping."), _("%s; its Pod is being deleted.") % end_word(sandbox.end_reason)),
    }[State(sandbox.state)]
    return Headline(kind, lead, text)
