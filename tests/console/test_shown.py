from __future__ import annotations

import pytest

from console import shown
from console.truth import Counts
from pools.scaling import Binding
from sandboxes.lifecycle import EndReason, State


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(-3, "0 s"), (59.9, "59 s"), (72, "1 min 12 s"), (660, "11 min"), (7500, "2 h 5 min"), (90000, "1 d 1 h")],
)
def test_spans_have_at_most_two_parts(seconds: float, words: str) -> None:
    assert shown.span(seconds) == words


@pytest.mark.parametrize(
    ("seconds", "figure"),
    [(None, shown.NOTHING), (0.0142, "14 ms"), (0.0999, "0.1 s"), (0.94, "0.9 s"), (41.2, "41 s"), (130, "2 min")],
)
def test_durations_are_short_with_their_unit(seconds: float | None, figure: str) -> None:
    assert " ".join(shown.duration(seconds)).strip() == figure


def test_every_state_reason_and_constraint_has_its_word() -> None:
    assert set(shown.STATES) == set(State) - {State.ENDED}
    assert set(shown.ENDS) == set(EndReason)
    assert set(shown.BOUND_BY) == set(Binding)


def test_unknown_codes_are_still_said_in_words() -> None:
    assert shown.finding_word("disk_full") == "Disk full"
    assert shown.end_word("melted") == "Ended"
    assert shown.bound_by("moon-phase") == ("ended", "moon-phase")


def test_a_stuck_sandbox_is_shown_by_its_finding_whatever_its_state() -> None:
    assert shown.sandbox_chip("claimed", "image", "") == ("stuck", "Image not found")
    assert shown.sandbox_chip("ended", "image", "timeout") == ("ended", "Deadline reached")


def test_bars_never_leave_their_track() -> None:
    counts = Counts(claimed=30, idle=10, stuck=5, stopping=2)
    parts = {kind: (x, width) for kind, x, width in shown.segments(counts, 40, 64)}
    assert parts["claimed"] == ("0.00%", "46.88%")
    assert parts["asked"] == ("73.44%", "26.56%")
    assert shown.segments(Counts(), 0, 0)[0] == ("claimed", "0.00%", "0.00%")


def test_times_have_one_spelling() -> None:
    assert shown.iso("2026-01-01T10:00:00+00:00") == "2026-01-01T10:00:00.000000Z"
    assert shown.iso(None) == ""
