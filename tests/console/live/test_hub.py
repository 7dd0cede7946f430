"""The hub against a real Valkey: gaps, outages, and figures read no more often than they have to be."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable

import pytest
from redis.asyncio import Redis

from console.live import hub as hubs
from console.live.hub import Feed, Hub
from console.live.stream import EPOCH, NOWHERE, order, place
from console.live.viewer import View, Viewer
from console.truth import Truth, Waits
from sandboxes.live import stream as key

TEAM = 7


@pytest.fixture
async def valkey() -> AsyncIterator[Redis]:
    client = Redis.from_url(os.environ["REDIS_URL"], decode_responses=True)
    yield client
    await client.aclose()


@pytest.fixture
async def hub() -> AsyncIterator[Hub]:
    made = Hub()
    yield made
    for feed in list(made.feeds.values()):
        for viewer in list(feed.viewers):
            made.leave(viewer)
    await made.redis.aclose()


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 - conditions of others have no event
            await asyncio.sleep(0.02)


def viewer_at(seq: str) -> Viewer:
    viewer = Viewer(TEAM, View(), [], seq)
    viewer.show([])
    return viewer


async def test_a_feed_that_was_trimmed_past_its_reader_makes_pages_read_anew(hub: Hub, valkey: Redis) -> None:
    await valkey.xadd(key(TEAM), {"data": "{}"})
    _, seq = await hub.place(TEAM)
    viewer = viewer_at(seq)
    for _ in range(hubs.BATCH + 10):
        await valkey.xadd(key(TEAM), {"data": "{}"}, maxlen=hubs.BATCH + 5, approximate=False)
    hub.join(viewer)
    await until(lambda: "resync" in "".join(viewer.take("0-0")))


async def test_a_reader_that_keeps_up_is_never_told_to_read_anew(hub: Hub, valkey: Redis) -> None:
    await valkey.xadd(key(TEAM), {"data": "{}"})
    viewer = viewer_at((await hub.place(TEAM)).seq)
    hub.join(viewer)
    for _ in range(2 * hubs.BATCH):
        await valkey.xadd(key(TEAM), {"data": "{}"})
    newest = (await hub.place(TEAM)).seq
    await until(lambda: order(hub.feeds[TEAM].seq) >= order(newest))
    assert "resync" not in "".join(viewer.take("0-0"))


async def test_an_outage_is_told_at_both_ends(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    viewer = viewer_at("0-0")
    hub.join(viewer)
    await until(lambda: hub.epoch)
    whole = hub.redis.xread

    async def away(*args: object, **kwargs: object) -> None:
        raise ConnectionResetError("away")

    monkeypatch.setattr(hub.redis, "xread", away)
    await until(lambda: '"down"' in "".join(viewer.take("0-0")))
    monkeypatch.setattr(hub.redis, "xread", whole)
    messages: list[str] = []
    await until(lambda: messages.extend(viewer.take("0-0")) or '"up"' in "".join(messages))
    assert "the feed was away" in "".join(messages)


async def test_the_epoch_is_new_when_redis_lost_its_memory(hub: Hub, valkey: Redis) -> None:
    first = await hub.place(TEAM)
    assert first == await hub.place(TEAM)
    await valkey.delete(EPOCH)
    assert (await hub.place(TEAM)).epoch != first.epoch
    assert (await asyncio.to_thread(place, TEAM)).epoch == (await hub.place(TEAM)).epoch


async def test_without_viewers_nothing_runs(hub: Hub) -> None:
    viewer = viewer_at("0-0")
    hub.join(viewer)
    assert len(hub.tasks) == 2
    hub.leave(viewer)
    hub.leave(viewer)
    assert (hub.tasks, hub.feeds) == ([], {})


async def test_nowhere_is_told_without_redis(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    async def away(*args: object, **kwargs: object) -> None:
        raise OSError("away")

    monkeypatch.setattr(hub.redis, "set", away)
    assert await hub.place(TEAM) == NOWHERE


async def test_figures_are_read_once_for_all_viewers_and_only_when_something_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reads: list[object] = []

    def read(team_id: int, waits: object) -> Truth:
        reads.append(waits)
        return Truth([], 10, {None: Waits(1, 0.1, 0.2)})

    monkeypatch.setattr(hubs.truth, "read", read)
    monkeypatch.setattr(hubs, "close_old_connections", lambda: None)
    feed = Feed(TEAM, "0-0")
    viewers = [viewer_at("0-0") for _ in range(3)]
    feed.viewers.update(viewers)
    assert not feed.due
    feed.take([("1-0", {"data": '{"queue": 3}'})])
    assert feed.due
    await feed.tell_figures()
    assert all('"quota"' in "".join(viewer.take("1-0")) for viewer in viewers)
    feed.changed = True
    assert not feed.due
    await feed.tell_figures()
    assert reads == [None, {None: Waits(1, 0.1, 0.2)}]
