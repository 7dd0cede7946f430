"""Batches, short caches and loops: what many requests share."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping

import pytest

from sandboxes.serving.batch import Batch
from sandboxes.serving.loops import LONGEST_PAUSE, backoff, forever
from sandboxes.serving.quiet import install
from sandboxes.serving.recent import Recent


async def test_keys_asked_for_meanwhile_share_the_next_call() -> None:
    calls: list[list[int]] = []
    first = asyncio.Event()

    async def fetch(keys: list[int]) -> Mapping[int, str]:
        calls.append(keys)
        await first.wait()
        return {key: str(key) for key in keys if key != 3}

    batch: Batch[int, str] = Batch(fetch)
    one = asyncio.create_task(batch.get(1))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    others = [asyncio.create_task(batch.get(key)) for key in (2, 3, 2)]
    await asyncio.sleep(0)
    first.set()
    assert await asyncio.gather(one, *others) == ["1", "2", None, "2"]
    assert calls == [[1], [2, 3]]
    await batch.drained()


async def test_a_failure_reaches_everybody_who_asked() -> None:
    async def fetch(keys: list[int]) -> Mapping[int, str]:
        raise ValueError("no")

    batch: Batch[int, str] = Batch(fetch)
    outcomes = await asyncio.gather(batch.get(1), batch.get(1), return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [ValueError, ValueError]


async def test_one_who_gives_up_does_not_disturb_the_others() -> None:
    go = asyncio.Event()

    async def fetch(keys: list[int]) -> Mapping[int, str]:
        await go.wait()
        return dict.fromkeys(keys, "here")

    batch: Batch[int, str] = Batch(fetch)
    gives_up, stays = asyncio.create_task(batch.get(1)), asyncio.create_task(batch.get(1))
    await asyncio.sleep(0)
    gives_up.cancel()
    go.set()
    assert await stays == "here"


async def test_what_was_loaded_is_kept_for_a_while_and_failures_are_not() -> None:
    loads = 0

    async def load(key: str) -> int:
        nonlocal loads
        loads += 1
        if loads == 1:
            raise ValueError("not yet")
        return loads

    recent: Recent[str, int] = Recent(load, seconds=60)
    with pytest.raises(ValueError, match="not yet"):
        await recent.get("a")
    await asyncio.sleep(0)
    assert [await recent.get("a"), await recent.get("a")] == [2, 2]
    brief: Recent[str, int] = Recent(load, seconds=0)
    assert await brief.get("a") != await brief.get("a")


async def test_a_loop_goes_on_after_a_failure() -> None:
    turns = 0
    done = asyncio.Event()

    async def once() -> None:
        nonlocal turns
        turns += 1
        if turns == 1:
            raise RuntimeError("stumbles")
        done.set()

    task = asyncio.create_task(forever("a loop", once, 0.0))
    await asyncio.wait_for(done.wait(), 5)
    task.cancel()


def test_pauses_grow_to_a_limit() -> None:
    assert [backoff(1), backoff(2)] == [0.2, 0.4]
    assert backoff(1000) == LONGEST_PAUSE


def test_cut_streams_and_secrets_stay_out_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    install()
    install()
    logger = logging.getLogger("uvicorn.error")
    logger.error("ASGI callable returned without completing response.")
    logger.warning('%s - "WebSocket %s" [accepted]', "1.2.3.4", "/socket?token=secret")
    logger.error("something else")
    assert caplog.messages == ["something else"]
