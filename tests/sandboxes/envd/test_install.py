"""`envd install`: a copy for everybody. That it works from a pack, in a container, is tested with the pack."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from sandboxes.envd.install import install
from tests.sandboxes.envd.daemon import PACKAGE


def modes(folder: Path) -> dict[str, int]:
    return {str(path.relative_to(folder)): path.stat().st_mode & 0o777 for path in folder.rglob("*")}


def test_it_copies_files_and_whether_they_can_be_run(tmp_path: Path) -> None:
    (tmp_path / "from" / "bin").mkdir(parents=True)
    (tmp_path / "from" / "bin" / "tool").write_text("tool")
    (tmp_path / "from" / "bin" / "tool").chmod(0o700)
    (tmp_path / "from" / "text").write_text("text")
    (tmp_path / "from" / "text").chmod(0o600)
    for _ in range(2):
        install(str(tmp_path / "to"), str(tmp_path / "from"))
    assert modes(tmp_path / "to") == {"bin": 0o755, "bin/tool": 0o755, "text": 0o644}
    assert (tmp_path / "to" / "bin" / "tool").read_text() == "tool"


@pytest.mark.parametrize("target", ["", "relative", "/dev/null/folder"])
def test_where_it_cannot_it_says_so_and_fails(target: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SystemExit, match=r"usage: envd install /FOLDER|cannot be installed into '/dev/null/folder'"):
        install(target, str(tmp_path))


def test_a_pack_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="No such file"):
        install(str(tmp_path / "to"), str(tmp_path / "nothing"))


def test_it_is_a_verb_of_the_daemon() -> None:
    command = [sys.executable, "-m", "envd", "install"]
    done = subprocess.run(command, cwd=PACKAGE, capture_output=True, text=True, timeout=20, check=False)
    assert (done.returncode, done.stderr) == (1, "usage: envd install /FOLDER\n")
