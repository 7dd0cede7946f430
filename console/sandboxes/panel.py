"""The panel with the list of sandboxes, on each page that has one."""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

from django.template.loader import render_to_string
from django.utils.functional import Promise
from django.utils.translation import gettext as _

from console.figures import number
from console.shown import Line, line
from console.truth import Counts, Truth
from sandboxes.lifecycle import State

from . import listing
from .listing import Filter

BLANK = Line("i" + "0" * 20, 0, State.STARTING, "working", "", "", 0, "", "", "", "", "")
"""What live.js fills to show a newborn sandbox."""


class StateTab(NamedTuple):
    name: str
    label: str | Promise
    live: str


def panel(team_id: int, truth: Truth, counts: Counts, wanted: Filter) -> dict[str, Any]:
    """What parts/sandboxes.html needs. One query."""
    sandboxes, following = listing.page(team_id, wanted)
    return {
        "lines": [line(sandbox) for sandbox in sandboxes],
        "next": following,
        "filter": wanted,
        "states": [StateTab(name, state[0], count(counts, name)) for name, state in listing.STATES.items()],
        "ended_list": wanted.state == "ended",
        "page_size": listing.PAGE,
        "twins": twins(truth),
        "blank": BLANK,
        "label": labels(),
        "copy_button": render_to_string("parts/copy.html"),
    }


def labels() -> dict[str, str]:
    """The words of a row, looked up once and not for each of fifty."""
    return {"age": _("Age"), "left": _("Left"), "ended": _("Ended"), "node": _("Node"), "end": _("End")}


def count(counts: Counts, state: str) -> str:
    return "" if state == "ended" else number(getattr(counts, state))


def twins(truth: Truth) -> set[int]:
    """Pools that share their name with one on another cluster."""
    names = Counter(pool.name for pool in truth.pools)
    return {pool.id for pool in truth.pools if names[pool.name] > 1}
