"""Tests on a real cluster (the fixture `cluster`): `make test-kubernetes`. Needs root, Go and a few Debian packages."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from console.kubernetes import machine
from tests.kubernetes import single_node


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that start and stop clusters of their own go first, because only one can run on a machine."""
    items.sort(key=lambda item: item.path.name != "test_lifecycle.py")


@pytest.fixture
def state() -> Iterator[Path]:
    """A state folder with a short path, and nothing of ours on the machine afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="agentbox-kubernetes-"))
    yield folder
    if (last := machine.last()) and last.place.state == folder:  # another one, of somebody else, goes on
        single_node.manage("down")
    shutil.rmtree(folder)
