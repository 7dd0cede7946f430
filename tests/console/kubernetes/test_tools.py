"""What is missing on the machine is said in one sentence, with the way out."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

import pytest

from console.kubernetes import command, tools
from console.up.problem import Problem

PROGRAMS = ["containerd", "runc", "docker-registry", "ip", "openssl", "busybox"]


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine that has everything: programs on PATH, plugins in their folder."""
    for name in PROGRAMS:
        program(tmp_path / name)
    plugins = tmp_path / "cni"
    plugins.mkdir()
    for name in ("bridge", "host-local", "loopback"):
        program(plugins / name)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(tools, "ADMIN_PATH", "")
    monkeypatch.setattr(tools, "CNI", plugins)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    return tmp_path


def program(path: Path, content: str = "#!/bin/sh\n") -> None:
    path.write_text(content)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def test_a_complete_machine_is_fine(machine: Path) -> None:
    tools.check()
    assert tools.program("runc") == str(machine / "runc")


def test_without_root_it_says_so(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(Problem, match=r"needs root.*run it with sudo, or use `make run`"):
        tools.check()


def test_missing_packages_are_named_with_the_command_that_installs_them(machine: Path) -> None:
    for name in ("containerd", "docker-registry", "cni/bridge"):
        (machine / name).unlink()
    with pytest.raises(Problem, match=r"apt-get install containerd containernetworking-plugins docker-registry$"):
        tools.check()


def test_a_busybox_that_needs_libraries_does_not_do(machine: Path) -> None:
    (machine / "busybox").write_bytes(Path(sys.executable).read_bytes())
    with pytest.raises(Problem, match=r"apt-get install busybox-static$"):
        tools.check()


def test_without_go_it_says_what_go_is_needed_for(
    machine: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tools, "GO_FOLDER", machine / "go")
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    assert command.main(["build"]) == 1
    text = capsys.readouterr().err
    assert text.startswith("manage.py kubernetes build: Go is not installed")
    assert "or set KUBEBUILDER_ASSETS to a folder that has etcd, kube-apiserver" in text
    assert text.count("\n") == 1
