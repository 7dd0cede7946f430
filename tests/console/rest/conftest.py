"""What tests of the REST API share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from pools.models import Team
from tests.factories import make_key


@pytest.fixture
def api(team: Team) -> Callable[..., Client]:
    """A client with a key of the role."""

    def with_key(role: str = "operator", of: Team | None = None) -> Client:
        return Client(headers={"AGENTBOX-API-KEY": make_key(of or team, role)[1]})

    return with_key


def problem(answer: Any, status: int) -> dict[str, Any]:
    assert answer.status_code == status, answer.content
    assert answer.headers["Content-Type"] == "application/problem+json"
    body: dict[str, Any] = answer.json()
    assert body["status"] == status
    assert body["detail"]
    return body
