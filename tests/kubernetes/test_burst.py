"""A burst of claims on the real API server: its pacing, watches and refusals are not ours. Only the nodes are fake."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING

import aiohttp
import pytest

from sandboxes.cluster.client import ClusterClient
from tests.bench.sizes import left, resize
from tests.bench.trainers import trainers
from tests.kubernetes.crowded import crowded
from tests.stack import Stack, until

if TYPE_CHECKING:
    from tests.kubernetes.single_node import SingleNode

CLAIMS, WARM = 500, 100
GONE_LIMIT = 60.0
OWNERS = "SELECT claim_id, count(*) FROM sandboxes_sandbox WHERE claim_id IS NOT NULL GROUP BY 1"


@pytest.fixture
def running(cluster: SingleNode) -> Iterator[tuple[Stack, ClusterClient]]:
    with crowded(cluster) as parts:
        yield parts


@pytest.mark.timeout(300)
def test_500_claims_at_once_get_a_sandbox_each_and_leave_none(running: tuple[Stack, ClusterClient]) -> None:
    stack, api = running
    resize(stack, "small", ceiling=CLAIMS, idle=WARM)
    ids = asyncio.run(burst(stack))
    assert len(set(ids)) == CLAIMS
    assert [count for _, count in stack.query(OWNERS)] == [1] * CLAIMS
    until(lambda: not api.list_pods()[0], GONE_LIMIT, lambda: f"{len(api.list_pods()[0])} Pods")
    until(lambda: stack.count("ended") >= CLAIMS, GONE_LIMIT, lambda: f"{stack.count('ended')} ended")
    assert left(stack) == 0


async def burst(stack: Stack) -> list[str]:
    """Claim all at once, reach every sandbox, kill it. Their ids."""
    async with trainers(stack.demo()) as load:
        ids = await asyncio.gather(*(load.create() for _ in range(CLAIMS)))
        assert load.outcome.failures == {}
        assert await reach(stack.demo()["E2B_SANDBOX_URL"], ids) == {204}
        await asyncio.to_thread(resize, stack, "small", ceiling=CLAIMS, idle=0)
        await asyncio.gather(*(load.kill(id_) for id_ in ids))
        assert load.outcome.failures == {}
    return ids


async def reach(url: str, ids: list[str]) -> set[int]:
    """Through the gateway; what envd's health is answered with."""
    async with aiohttp.ClientSession() as session:

        async def health(id_: str) -> int:
            headers = {"E2b-Sandbox-Id": id_, "E2b-Sandbox-Port": "49983"}
            async with session.get(f"{url}/health", headers=headers) as answer:
                return answer.status

        return set(await asyncio.gather(*map(health, ids)))
