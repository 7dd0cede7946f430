"""`make run CLUSTER=kubernetes`, as far as it can be tried without the real cluster (tests/kubernetes has that)."""

from __future__ import annotations

from pathlib import Path

import pytest

from console.kubernetes import machine
from console.kubernetes.place import Place
from console.up import options, single_node
from console.up.problem import Problem


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("AGENTBOX_VAR", str(tmp_path))
    monkeypatch.setattr(machine, "RECORD", tmp_path / "lock")
    for name in ("CLUSTER", "KUBECONFIG"):
        monkeypatch.delenv(name, raising=False)


def test_the_single_node_is_used_by_its_kubeconfig(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CLUSTER", "kubernetes")
    chosen = options.read([])
    assert chosen.single_node
    assert Path(chosen.kubeconfig) == Place(tmp_path / "kubernetes").kubeconfig


def test_localkube_is_the_default() -> None:
    chosen = options.read([])
    assert (chosen.single_node, chosen.kubeconfig) == (False, "")
    with single_node.running(chosen):
        assert machine.running() is None


def test_another_word_is_refused_with_a_sentence() -> None:
    with pytest.raises(Problem, match="CLUSTER='docker' is not known: choose localkube or kubernetes"):
        options.read(["--cluster", "docker"])


def test_a_cluster_that_runs_in_our_folder_is_used_and_goes_on(tmp_path: Path) -> None:
    chosen = options.read(["--cluster", "kubernetes"])
    place = Place(chosen.single_node_state)
    place.state.mkdir()
    place.facts.write_text("{}")
    with machine.take() as lock:
        machine.write(lock, place)
        with single_node.running(chosen):
            assert machine.running() is not None
        assert machine.running() is not None


def test_what_keeps_the_cluster_from_starting_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    chosen = options.read(["--cluster", "kubernetes"])
    with pytest.raises(Problem, match="needs root"), single_node.running(chosen):
        pytest.fail("it must not come this far")
