from __future__ import annotations

import json
from pathlib import Path

import pytest

from console import vendor


def test_vendored_files_are_as_recorded_and_ours_name_no_address(capsys: pytest.CaptureFixture[str]) -> None:
    assert vendor.main([]) == 0, capsys.readouterr().out


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "static" / "vendor"
    for name in ("templates", "static/js", "static/css", "static/vendor/lib-1"):
        (tmp_path / name).mkdir(parents=True)
    (folder / "lib-1" / "lib.js").write_text("let lib = 1")
    (folder / "lib-1" / "LICENSE").write_text("free")
    monkeypatch.setattr(vendor, "ROOT", tmp_path)
    monkeypatch.setattr(vendor, "VENDOR", folder)
    monkeypatch.setattr(vendor, "LOCK", folder / "vendor.lock.json")
    assert vendor.main(["--write"]) == 0
    return tmp_path


def test_a_changed_an_added_and_an_unlicensed_file_are_told(tree: Path) -> None:
    (tree / "static/vendor/lib-1/lib.js").write_text("let lib = 2")
    (tree / "static/vendor/lib-2").mkdir()
    (tree / "static/vendor/lib-2/new.js").write_text("")
    told = "\n".join(vendor.problems())
    assert "lib-1/lib.js: differs" in told
    assert "lib-2/new.js: is not in both" in told
    assert "lib-2: has no licence" in told
    assert len(json.loads(vendor.LOCK.read_text())) == 2


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("templates/a.html", '<script src="https://cdn.example.org/x.js"></script>'),
        ("static/js/a.js", 'fetch("//cdn.example.org/x")'),
        ("templates/a.html", '<b style="color:red">'),
        ("templates/a.html", "<script>run()</script>"),
        ("templates/a.html", '<b onclick="run()">'),
        ("templates/a.html", '<b hx-on:click="run()">'),
    ],
)
def test_what_the_policy_would_refuse_is_found(tree: Path, file: str, line: str) -> None:
    (tree / file).write_text(line)
    assert vendor.main([]) == 1
