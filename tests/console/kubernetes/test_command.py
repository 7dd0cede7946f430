"""`manage.py kubernetes` where it does not need a cluster: the lock, the logs, and what it says."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from console.kubernetes import command, logs, machine, tools
from console.kubernetes.logs import Logs
from console.kubernetes.place import Place
from console.up.problem import Problem
from tests.conftest import ROOT

HOLD = """
import signal, sys, time
from pathlib import Path
from console.kubernetes import machine
from console.kubernetes.place import Place
machine.RECORD = Path(sys.argv[1])
lock = machine.take()
machine.write(lock, Place(Path(sys.argv[2])))
signal.signal(signal.SIGTERM, signal.SIG_IGN if "stubborn" in sys.argv else signal.SIG_DFL)
print("held", flush=True)
time.sleep(60)
"""


@pytest.fixture
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(machine, "RECORD", tmp_path / "lock")
    monkeypatch.setattr(tools, "check_root", lambda: None)
    return tmp_path / "lock"


@pytest.fixture
def holder(record: Path, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[subprocess.Popen[str]]:
    """A process that has the lock, as a running cluster's."""
    manner = getattr(request, "param", "polite")
    arguments = [sys.executable, "-c", HOLD, str(record), str(tmp_path / "state"), manner]
    process = subprocess.Popen(arguments, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def test_status_says_that_nothing_runs(record: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["status"]) == 3
    assert capsys.readouterr().out == "No cluster of ours runs here. `manage.py kubernetes up` starts one.\n"


def test_status_shows_where_everything_is(
    holder: subprocess.Popen[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main(["status"]) == 3
    assert capsys.readouterr().out == "It is starting.\n"
    state = tmp_path / "state"
    state.mkdir()
    Place(state).facts.write_text('{"kubeconfig": "/somewhere", "registry": "127.0.0.1:5000"}')
    assert command.main(["status"]) == 0
    assert capsys.readouterr().out == "kubeconfig  /somewhere\nregistry    127.0.0.1:5000\n"


def test_only_one_cluster_runs(holder: subprocess.Popen[str], tmp_path: Path) -> None:
    sentence = rf"already runs on this machine in {tmp_path}/state \(process {holder.pid}\): use it"
    with pytest.raises(Problem, match=sentence):
        machine.take()


def test_down_ends_the_one_that_runs(
    holder: subprocess.Popen[str], record: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main(["down"]) == 0
    assert capsys.readouterr().out == "The cluster is stopped.\n"
    assert holder.wait(timeout=10) == -signal.SIGTERM
    assert not record.exists()


def test_down_is_fine_if_nothing_runs(record: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["down"]) == 0
    assert capsys.readouterr().out == "No cluster of ours runs here.\n"


@pytest.mark.parametrize("holder", ["stubborn"], indirect=True)
def test_one_that_does_not_end_is_killed(holder: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "PATIENCE", 0.2)
    machine.end(machine.Holder(holder.pid, ""))
    assert holder.wait(timeout=10) == -signal.SIGKILL


def test_what_a_killed_cluster_left_is_named() -> None:
    assert command.stopped(True, ["etcd", "kubelet"]).endswith("left behind: etcd, kubelet")


def test_a_start_that_fails_says_why_in_its_own_words(tmp_path: Path) -> None:
    log = tmp_path / "up.log"
    log.write_text("up │ stopping\nmanage.py kubernetes up: kubelet was not ready within 120 s\n")
    assert command.last_line(log) == "kubelet was not ready within 120 s"


def test_lines_of_components_go_to_files_of_bounded_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "LARGEST", 20)
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    written = Logs(["etcd"], tmp_path / "logs")
    for number in range(5):
        written.line("etcd", f"line number {number}\n")
    written.say("ready")
    assert (tmp_path / "logs" / "etcd.log.1").read_text() == "line number 2\nline number 3\n"
    assert (tmp_path / "logs" / "etcd.log").read_text() == "line number 4\n"
    assert "ready" in sys.stdout.getvalue()


@pytest.mark.parametrize("verb", ["up", "down"])
def test_without_root_it_is_one_sentence(
    verb: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert command.main([verb]) == 1
    text = capsys.readouterr().err
    assert text.startswith(f"manage.py kubernetes {verb}: A real Kubernetes needs root")
    assert text.count("\n") == 1
