"""Command lines and configurations, where a wrong one would be dangerous or hard to find."""

from __future__ import annotations

import json
import tomllib
from dataclasses import astuple
from pathlib import Path

import pytest

from console.kubernetes import control_plane, network, node, registry
from console.kubernetes.binaries import Binaries
from console.kubernetes.place import Place, choose_ports

BINARIES = Binaries(Path("/built"), None)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_ports_differ() -> None:
    ports = astuple(choose_ports())
    assert len(set(ports)) == len(ports)


def test_nothing_listens_for_other_machines(place: Place) -> None:
    ports = choose_ports()
    lines = [
        control_plane.apiserver(BINARIES, place, ports),
        control_plane.controllers(BINARIES, place, ports),
        control_plane.scheduler(BINARIES, place, ports),
    ]
    assert all("--bind-address=127.0.0.1" in line for line in lines)
    addresses = [word for word in control_plane.etcd(BINARIES, place, ports) if word.startswith("--listen")]
    assert len(addresses) == 3
    assert all("//127.0.0.1:" in address for address in addresses)
    assert node.kubelet_configuration(place, ports)["address"] == network.GATEWAY


def test_only_those_with_a_certificate_reach_etcd_and_the_kubelet(place: Place) -> None:
    ports = choose_ports()
    etcd = control_plane.etcd(BINARIES, place, ports)
    assert {"--client-cert-auth", "--peer-client-cert-auth"} <= set(etcd)
    configuration = node.kubelet_configuration(place, ports)
    assert configuration["authentication"]["anonymous"] == {"enabled": False}


def test_all_files_are_in_the_state_folder(place: Place) -> None:
    node.prepare(place, choose_ports())
    configuration = tomllib.loads((place.containerd / "config.toml").read_text())
    assert Path(configuration["root"]).is_relative_to(place.state)
    assert Path(configuration["state"]).is_relative_to(place.state)
    cri = configuration["plugins"]["io.containerd.grpc.v1.cri"]
    assert cri["restrict_oom_score_adj"] is True
    assert cri["netns_mounts_under_state_dir"] is True
    kubelet = json.loads((place.kubelet / "config.json").read_text())
    assert Path(kubelet["podLogsDir"]).is_relative_to(place.state)
    assert f"--root-dir={place.kubelet}" in node.kubelet(BINARIES, place)
    assert node.containerd(place)[1:3] == ["--config", str(place.containerd / "config.toml")]


def test_names_without_a_host_come_from_our_registry(place: Place) -> None:
    ports = choose_ports()
    node.prepare(place, ports)
    hosts = tomllib.loads((place.containerd / "registries" / "docker.io" / "hosts.toml").read_text())
    assert hosts["server"] == f"http://127.0.0.1:{ports.registry}"


def test_the_network_forwards_and_masquerades_nothing(place: Place) -> None:
    plugin = json.loads(network.configuration(place))["plugins"][0]
    assert (plugin["isGateway"], plugin["ipMasq"]) == (False, False)
    assert plugin["ipam"]["ranges"] == [[{"subnet": "10.213.0.0/20", "gateway": "10.213.0.1"}]]


def test_the_registry_keeps_images_and_listens_on_loopback(place: Place) -> None:
    registry.prepare(place, 5000)
    content = json.loads((place.state / "registry.json").read_text())
    assert content["http"]["addr"] == "127.0.0.1:5000"
    assert content["storage"]["filesystem"]["rootdirectory"] == str(place.registry)
    assert registry.command(place)[1:] == ["serve", str(place.state / "registry.json")]
