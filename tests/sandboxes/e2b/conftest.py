"""A plain HTTP client with the key of the test's team."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from tests.sandboxes.edge_fixtures import World


@pytest.fixture
def api(world: World) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=world.edge.url, headers={"X-API-Key": world.key}, timeout=30) as client:
        yield client
