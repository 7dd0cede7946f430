"""Building with a stand-in for Go, which takes no minutes: what is built when, and where it goes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from rich.console import Console

from console.kubernetes import binaries, build
from console.kubernetes.binaries import KUBERNETES, KWOK
from console.up.problem import Problem

GO = """#!/bin/sh
if [ "$1" = env ]; then echo go1.99.0; exit; fi
echo "$@" >> "$GO_LOG"
echo "k8s.io/some/package" >&2
while [ "$1" != -o ]; do shift; done
echo "program" > "$2"
chmod +x "$2"
"""
FAILING = """#!/bin/sh
if [ "$1" = env ]; then echo go1.20.0; exit; fi
echo "go: go.mod requires go >= 1.24.0 (running go 1.20.0)" >&2
exit 1
"""


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The command lines that Go was given."""
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("GO_LOG", str(tmp_path / "log"))
    monkeypatch.setenv("AGENTBOX_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    (tmp_path / "bin").mkdir()
    program(tmp_path / "bin" / "go", GO)
    return tmp_path / "log"


def program(path: Path, content: str = "") -> None:
    path.write_text(content)
    path.chmod(0o755)


def test_everything_is_built_once_and_used_again(log: Path, tmp_path: Path) -> None:
    console = Console(record=True, width=200)
    found = build.build(console)
    assert found.missing() == []
    assert found.built.parent == tmp_path / "cache" / "kubernetes"
    assert sorted(path.name for path in found.built.iterdir()) == sorted(KUBERNETES.packages)
    assert "kubelet is built (0 s)" in console.export_text()
    log.unlink()
    assert build.build(console) == found
    assert not log.exists()


def test_programs_know_their_version_and_nothing_of_this_machine(log: Path) -> None:
    build.build(Console(quiet=True))
    line = next(line for line in log.read_text().splitlines() if line.endswith("k8s.io/kubernetes/cmd/kubelet"))
    assert "-trimpath" in line
    assert "-X k8s.io/component-base/version.gitVersion=v1.34.4" in line
    assert "-X k8s.io/component-base/version.gitMinor=34" in line


def test_kwok_is_built_from_its_own_module_and_only_when_asked_for(log: Path) -> None:
    build.build(Console(quiet=True))
    assert "sigs.k8s.io/kwok" not in log.read_text()
    log.unlink()
    found = build.build(Console(quiet=True), KWOK)
    assert [path.name for path in found.built.iterdir()] == ["kwok"]
    line = log.read_text()
    assert line.strip().endswith("sigs.k8s.io/kwok/cmd/kwok")
    assert "v1.34" not in line


def test_what_kubebuilder_assets_has_is_not_built(log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assets = tmp_path / "assets"
    assets.mkdir()
    for name in ("etcd", "kube-apiserver", "kubectl"):
        program(assets / name)
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(assets))
    found = build.build(Console(quiet=True))
    assert found.path("etcd") == assets / "etcd"
    assert found.path("kubelet").parent == found.built
    assert "kube-apiserver" not in log.read_text()


def test_with_all_programs_given_go_is_not_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in KUBERNETES.packages:
        program(tmp_path / name)
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert build.build(Console(quiet=True)).missing() == []


def test_a_build_that_fails_says_what_go_said_and_leaves_nothing(log: Path, tmp_path: Path) -> None:
    program(tmp_path / "bin" / "go", FAILING)
    with pytest.raises(Problem, match=r"etcd cannot be built: go: go.mod requires go >= 1.24.0"):
        build.build(Console(quiet=True))
    assert list(binaries.built_folder(KUBERNETES, "go1.20.0").iterdir()) == []


def test_a_go_that_does_not_run_is_named(log: Path, tmp_path: Path) -> None:
    program(tmp_path / "bin" / "go", "#!/bin/sh\necho broken >&2; exit 2\n")
    with pytest.raises(Problem, match=r"bin/go does not run \(broken\): install Go"):
        build.build(Console(quiet=True))


def test_the_cache_is_keyed_by_the_pinned_modules_and_go(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("AGENTBOX_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    keys = [(KUBERNETES, "go1.24.0"), (KUBERNETES, "go1.25.0"), (KWOK, "go1.24.0")]
    folders = [binaries.built_folder(module, version) for module, version in keys]
    assert {folder.parent for folder in folders} == {tmp_path / "agentbox" / "kubernetes"}
    assert len(set(folders)) == 3
    assert len(folders[0].name) == 16
