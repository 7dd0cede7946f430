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
    assert Path(chosen.kubeconfig) == Place(tmp_path / "kubernetes").product_kubeconfig


def test_localkube_is_the_default() -> None:
    chosen = options.read([])
    assert (chosen.single_node, chosen.kubeconfig) == (False, "")
    with single_node.running(chosen):
        assert machine.running() is None


def test_another_word_is_refused_with_a_sentence() -> None:
    with pytest.raises(Problem, match="CLUSTER='docker' is not known: choose localkube or kubernetes"):
        options.read(["--cluster", "docker"])


def test_only_a_cluster_that_is_ready_in_our_folder_is_used(tmp_path: Path) -> None:
    place = Place(options.read(["--cluster", "kubernetes"]).single_node_state)
    place.state.mkdir()
    with machine.take() as lock:
        machine.write(lock, place)
        assert not single_node.is_up(place), "it is starting"
        place.facts.write_text("{}")
        assert single_node.is_up(place)
        assert not single_node.is_up(Place(tmp_path))


def test_people_have_more_rights_there_than_the_product(tmp_path: Path) -> None:
    chosen = options.read(["--cluster", "kubernetes"])
    assert chosen.people_kubeconfig == str(Place(tmp_path / "kubernetes").kubeconfig) != chosen.kubeconfig


def test_what_keeps_the_cluster_from_starting_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    chosen = options.read(["--cluster", "kubernetes"])
    with pytest.raises(Problem, match="needs root"), single_node.running(chosen):
        pytest.fail("it must not come this far")
