"""What `down` looks for and removes, as far as it can be tried without a cluster."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path
from signal import Signals

import pytest

from console.kubernetes import cgroups, cleanup, kernel, mounts, network
from console.kubernetes.place import Place
from console.up import leftovers

NEEDS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="Mounts and cgroups need root: run the tests with sudo.")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """A state folder; a cluster that runs on this machine meanwhile is left alone."""
    monkeypatch.setattr(cgroups, "CGROUP", f"agentbox-test-{os.getpid()}")
    monkeypatch.setattr(network, "BRIDGE", "agentbox-test")
    return Place(tmp_path)


def test_images_logs_and_files_of_others_stay(place: Place, tmp_path: Path) -> None:
    for name in ("registry", "logs", "pki", "kubelet", "mine"):
        (tmp_path / name).mkdir()
    for name in ("kubeconfig", "scheduler.kubeconfig", "cluster.json", "mine.txt"):
        (tmp_path / name).touch()
    assert cleanup.clean(place) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["logs", "mine", "mine.txt", "registry"]


def test_a_folder_that_is_not_there_is_clean(place: Place, tmp_path: Path) -> None:
    assert cleanup.clean(Place(tmp_path / "none")) == []


def test_programs_that_still_run_are_ended_and_named(place: Place) -> None:
    place.pid_files.mkdir()
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True)
    leftovers.remember(place.pid_files, "etcd", process.pid, Signals.SIGKILL)
    assert cleanup.clean(place) == ["etcd"]
    assert process.wait(timeout=10) == -Signals.SIGKILL


def test_the_sockets_of_shims_are_removed(place: Place, tmp_path: Path) -> None:
    socket = tmp_path / "shim.sock"
    socket.touch()
    note = place.containerd / "state" / "io.containerd.runtime.v2.task" / "k8s.io" / "abc" / "address"
    note.parent.mkdir(parents=True)
    note.write_text(f"unix://{socket}")
    cleanup.clean(place)
    assert not socket.exists()


def test_notes_about_our_pods_are_removed_and_no_others(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(network, "CNI_RESULTS", tmp_path / "results")
    (tmp_path / "results").mkdir()
    for name in ("cni-loopback-abc-lo", "agentbox-kubernetes-abc-eth0", "cni-loopback-other-lo"):
        (tmp_path / "results" / name).touch()
    (place.containerd / "state" / "io.containerd.grpc.v1.cri" / "sandboxes" / "abc").mkdir(parents=True)
    cleanup.clean(place)
    assert [path.name for path in (tmp_path / "results").iterdir()] == ["cni-loopback-other-lo"]


def test_kernel_settings_are_put_back(place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = tmp_path / "sys"
    (settings / "kernel").mkdir(parents=True)
    panic = settings / "kernel" / "panic"
    panic.write_text("0\n")
    monkeypatch.setattr(kernel, "ROOT", settings)
    kernel.remember(place)
    panic.write_text("10\n")
    kernel.restore(place)
    kernel.restore(place)
    assert panic.read_text().strip() == "0"


def test_a_mount_point_may_have_any_name() -> None:
    assert mounts.unescaped(r"/a\040b\134c") == Path("/a b\\c")


@NEEDS_ROOT
def test_mounts_below_the_folder_are_removed_the_inner_ones_first(place: Place, tmp_path: Path) -> None:
    outer = tmp_path / "kubelet"
    for target in (outer, outer / "inner volume"):
        target.mkdir()
        assert mounts.libc.mount(b"none", ctypes.c_char_p(os.fsencode(target)), b"tmpfs", 0, None) == 0
    (outer / "inner volume" / "secret").touch()
    assert len(mounts.below(tmp_path)) == 2
    cleanup.clean(place)
    assert mounts.below(tmp_path) == []
    assert not outer.exists()


@NEEDS_ROOT
def test_processes_are_found_by_their_cgroup_and_ended(place: Place) -> None:
    cgroups.make()
    inner = cgroups.trees()[0] / "pod" / "container"
    inner.mkdir(parents=True)
    process = subprocess.Popen(["sleep", "60"])
    (inner / "cgroup.procs").write_text(str(process.pid))
    assert cgroups.processes() == [process.pid]
    cleanup.clean(place)
    assert process.wait(timeout=10) == -Signals.SIGKILL
    assert cgroups.trees() == []
