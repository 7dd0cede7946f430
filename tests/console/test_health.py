from __future__ import annotations

import pytest
from django.db import OperationalError, connection
from django.test import Client


def test_healthz_needs_no_database(client: Client) -> None:
    assert client.get("/healthz").json() == {"status": "ok"}


@pytest.mark.django_db
def test_readyz_needs_the_database(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    assert client.get("/readyz").status_code == 200

    def away() -> None:
        raise OperationalError("away")

    monkeypatch.setattr(connection, "cursor", away)
    answer = client.get("/readyz")
    assert answer.status_code == 503
    assert answer.json()["reason"] == "The database does not answer."
