"""What one open page is told: bounded, newest word on a row, resync when it is too much."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest

from console.live.fingerprint import fingerprint
from console.live.viewer import LARGEST, WATCHED, View, Viewer
from console.sandboxes.listing import Filter
from console.sandboxes.panel import BLANK
from console.shown import Line


def line(number: int, rev: int = 1, state: str = "pending", pool: int = 1) -> Line:
    created = f"2026-01-01T00:00:{number // 1000:02}.{number % 1000:03}000Z"
    return replace(BLANK, id=f"s{number}", rev=rev, state=state, pool_id=pool, created=created)


def told(viewer: Viewer, upto: str = "9-0") -> dict[str, Any]:
    messages = [json.loads(text) for text in viewer.take(upto)]
    return messages[0] if messages else {}


def offer(viewer: Viewer, *lines: Line) -> None:
    for each in lines:
        viewer.offer(each, json.dumps(each.json()))


@pytest.fixture
def viewer() -> Viewer:
    """Shows sandbox 5."""
    viewer = Viewer(1, View(), ["s5"], "1-0")
    viewer.show([line(5)])
    return viewer


def test_a_slow_page_gets_the_newest_word_on_each_row_once(viewer: Viewer) -> None:
    offer(viewer, *(line(5, rev) for rev in range(2, 50)))
    delta = told(viewer)
    assert [(row["id"], row["rev"]) for row in delta["rows"]] == [("s5", 49)]
    assert told(viewer) == {}


def test_a_gap_shows_between_from_and_to(viewer: Viewer) -> None:
    assert told(viewer, "2-0") == {}
    offer(viewer, line(5, 2))
    assert (told(viewer, "3-0") | {"rows": 0})["from"] == "1-0"
    offer(viewer, line(5, 3))
    delta = told(viewer, "4-0")
    assert (delta["from"], delta["to"]) == ("3-0", "4-0")


def test_newborn_rows_of_the_same_moment_are_all_told_but_older_ones_are_not(viewer: Viewer) -> None:
    offer(viewer, line(9), replace(line(9), id="twin"), line(3), line(4, state="ended"))
    assert [row["id"] for row in told(viewer)["born"]] == ["s9", "twin"]
    offer(viewer, line(9, 2))
    assert [row["id"] for row in told(viewer)["rows"]] == ["s9"]


@pytest.mark.parametrize(
    "view",
    [View(Filter("idle")), View(Filter(text="x")), View(Filter(pool=2)), View(listed=False)],
)
def test_pages_that_take_no_newborn_are_not_told_of_them(view: View) -> None:
    viewer = Viewer(1, view, [], "1-0")
    viewer.show([])
    offer(viewer, line(9))
    assert told(viewer) == {}


def test_nothing_counts_as_newborn_before_the_snapshot() -> None:
    viewer = Viewer(1, View(), ["s5"], "1-0")
    offer(viewer, line(9), line(5, 2))
    assert [row["id"] for row in told(viewer)["rows"]] == ["s5"]


def test_the_rows_followed_for_one_page_are_bounded(viewer: Viewer) -> None:
    offer(viewer, *(line(number) for number in range(10, 10 + 4 * WATCHED)))
    assert len(viewer.watched) == WATCHED
    assert len(told(viewer)["born"]) == WATCHED
    offer(viewer, line(20, 2))
    assert told(viewer) == {}


def test_too_much_at_once_becomes_a_resync(viewer: Viewer) -> None:
    offer(viewer, replace(line(5, 2), why="x" * LARGEST))
    assert told(viewer)["t"] == "resync"


def test_a_resync_drops_what_is_pending(viewer: Viewer) -> None:
    offer(viewer, line(5, 2))
    viewer.resync("because")
    assert told(viewer) == {"t": "resync", "reason": "because"}
    assert told(viewer) == {}


def test_notes_replace_older_ones_of_their_kind(viewer: Viewer) -> None:
    viewer.note("feed", state="down")
    viewer.note("feed", state="up")
    viewer.note("alive")
    assert [json.loads(text) for text in viewer.take("1-0")] == [{"t": "feed", "state": "up"}, {"t": "alive"}]


async def test_the_page_is_woken_by_what_concerns_it_only(viewer: Viewer) -> None:
    offer(viewer, line(3))
    assert not viewer.wake.is_set()
    viewer.tell_now("{}")
    await asyncio.wait_for(viewer.wake.wait(), 1)
    assert told(viewer)["now"] == {}


def test_fingerprints_differ_by_id_rev_and_order() -> None:
    rows = [("a", 1), ("b", 2)]
    prints = {fingerprint(rows), fingerprint(rows[::-1]), fingerprint([("a", 1), ("b", 3)]), fingerprint([])}
    assert len(prints) == 4
    assert fingerprint([]) == "811c9dc5"
