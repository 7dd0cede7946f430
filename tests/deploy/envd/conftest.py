"""One pack for all tests, and containers with it in roots that the tests make. Needs root, gcc and strip."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from deploy.envd.pack import HOW_TO_GET_TOOLS
from deploy.envd.pack import pack as make_pack
from tests.sandboxes.envd.daemon import Daemon

HERE = Path(__file__).resolve().parent
ENVD = "/opt/agentbox/bin/envd"
VARIABLES = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/tmp", "LD_PRELOAD": "/lib/of/the/image.so"}
VARIABLES |= {"LD_LIBRARY_PATH": "/lib/of/the/image", "PYTHONHOME": "/of/the/image", "PYTHONPATH": "/of/the/image"}
"""What an image may have set: some of it would break any other Python."""
collect_ignore = [] if os.geteuid() == 0 else ["test_in_containers.py"]


def container_command(root: Path, pack: Path, *command: str, **options: object) -> list[str]:
    return [sys.executable, "-B", str(HERE / "container.py"), str(root), str(pack), json.dumps(options), *command]


StartContainer = Callable[..., "Container"]


class Container(Daemon):
    """envd from the pack as PID 1 of an image: `root` is its file system."""

    def __init__(self, root: Path, pack: Path, **options: object) -> None:
        super().__init__(root, command=container_command(root, pack, ENVD, variables=VARIABLES, **options))

    @property
    def pid(self) -> int:
        pid = self.process.pid
        return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])


@pytest.fixture(scope="session")
def pack(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not shutil.which("gcc") or not shutil.which("strip"):
        pytest.skip(HOW_TO_GET_TOOLS)
    folder = tmp_path_factory.mktemp("packed") / "pack"
    make_pack(folder)
    return folder


@pytest.fixture(scope="session")
def probe(pack: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = tmp_path_factory.mktemp("programs") / "probe"
    command = ["gcc", "-static", "-Wall", "-Werror", "-o", str(program), str(HERE / "probe.c")]
    subprocess.run(command, check=True, timeout=60)
    return program


@pytest.fixture
def bare(probe: Path, tmp_path: Path) -> Path:
    """A root with one program and nothing else: no C library, no shell, no users."""
    return bare_root(probe, tmp_path / "root")


def bare_root(probe: Path, root: Path) -> Path:
    (root / "bin").mkdir(parents=True)
    shutil.copy(probe, root / "bin" / "probe")
    (root / "bin" / "sh").symlink_to("probe")
    return root


@pytest.fixture(scope="module")
def start(pack: Path) -> Iterator[StartContainer]:
    """A running container of the root that is given."""
    started: list[Container] = []

    def run(root: Path, **options: object) -> Container:
        started.append(Container(root, pack, **options))
        return started[-1]

    yield run
    complaints = b"".join(container.stop() for container in started)
    assert not complaints, complaints.decode()


@pytest.fixture(scope="module")
def container(start: StartContainer, probe: Path, tmp_path_factory: pytest.TempPathFactory) -> Container:
    """In a bare root, as root."""
    return start(bare_root(probe, tmp_path_factory.mktemp("bare") / "root"))
