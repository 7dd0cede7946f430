"""One real cluster for all tests of this folder: `make test-kubernetes`. Needs root, Go and a few Debian packages."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from console.kubernetes import machine
from tests.kubernetes import single_node
from tests.kubernetes.single_node import SingleNode


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


@pytest.fixture(scope="session")
def cluster() -> Iterator[SingleNode]:
    """The shared cluster. Leave no Pods behind; each test names its own."""
    folder = Path(tempfile.mkdtemp(prefix="agentbox-kubernetes-"))
    yield single_node.start(folder)
    done = single_node.manage("down")
    left = single_node.left(folder)
    shutil.rmtree(folder)
    assert done.returncode == 0, done.stderr
    assert left == []
