"""What goes into the pack, and what keeps it from being made."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from deploy.envd.libraries import linked
from deploy.envd.modules import imported, needed
from deploy.envd.pack import ENVD, STANDARD_LIBRARY, make_room, run
from deploy.envd.pack import pack as make_pack
from deploy.oci.problem import Problem

ROOT = Path(__file__).parents[3]


def described(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_the_same_sources_make_the_same_pack(pack: Path, tmp_path: Path) -> None:
    make_pack(tmp_path / "again")
    assert described(tmp_path / "again") == described(pack)


def test_all_of_envd_is_in_it_compiled(pack: Path) -> None:
    sources = {path.stem for path in ENVD.glob("*.py")}
    assert {path.stem for path in (pack / STANDARD_LIBRARY / "envd").iterdir()} == sources - {"__main__"}
    assert not list(pack.rglob("*.py"))


def test_imports_count_wherever_they_stand_but_not_those_for_type_checkers(tmp_path: Path) -> None:
    source = tmp_path / "module.py"
    source.write_text(
        "from . import near\nif TYPE_CHECKING:\n    import signal\nelse:\n    import _signal\n"
        "def later():\n    from os import path\n    import zlib, ctypes\n"
    )
    assert sorted(imported(source)) == ["_signal", "ctypes", "os", "zlib"]


def test_a_package_that_cannot_be_imported_is_named_with_its_error(tmp_path: Path) -> None:
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "__init__.py").write_text("import nothing_of_this_name")
    with pytest.raises(Problem, match="No module named 'nothing_of_this_name'"):
        needed(Path("/proc/self/exe").resolve(), tmp_path / "broken")


def test_a_folder_of_other_things_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "precious").touch()
    with pytest.raises(Problem, match="is not empty and holds no pack"):
        make_room(tmp_path)
    assert (tmp_path / "precious").exists()


def test_an_older_pack_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "loader").mkdir()
    (tmp_path / "loader" / "envd").touch()
    make_room(tmp_path)
    assert not (tmp_path / "loader").exists()


def test_missing_tools_are_named_with_the_way_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Problem, match="apt-get install gcc"):
        run(["strip", "nothing"])
    with pytest.raises(Problem, match="needs ldd"):
        linked([Path("/proc/self/exe")])


def test_a_failing_tool_speaks_for_itself(pack: Path) -> None:
    with pytest.raises(Problem, match="nowhere"):
        run(["strip", "/nowhere"])


def test_a_static_program_cannot_be_packed(probe: Path) -> None:
    with pytest.raises(Problem, match="not linked dynamically"):
        linked([probe])


def test_the_command_line_makes_a_pack_and_refuses_in_a_sentence(pack: Path, tmp_path: Path) -> None:
    def call(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "deploy.envd", *arguments]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)

    assert call("pack", str(tmp_path / "pack")).stdout.endswith(" MB\n")
    assert described(tmp_path / "pack") == described(pack)
    assert call("save", "registry.example/envd:1", str(tmp_path / "envd.tar")).stdout.endswith(" MB\n")
    refused = call("push", "envd")
    assert (refused.returncode, refused.stderr.count("\n")) == (1, 1)
    assert "REGISTRY/REPOSITORY:TAG" in refused.stderr
