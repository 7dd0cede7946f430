"""What envd's own tests ask of it, asked of the pack. It needs no cluster, only more time than `make test` has."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from deploy.envd.pack import pack

ROOT = Path(__file__).parents[2]


@pytest.mark.timeout(300)
def test_the_packed_envd_passes_all_tests_of_envd(tmp_path: Path) -> None:
    pack(tmp_path / "pack")
    command = [sys.executable, "-m", "pytest", "tests/sandboxes/envd", "-q", "-n", "2", "--dist", "loadscope"]
    variables = os.environ | {"ENVD_PACK": str(tmp_path / "pack")}
    done = subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stdout[-5000:]
