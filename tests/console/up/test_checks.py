"""What is looked at before a start, and what the screen shows of it."""

from __future__ import annotations

import io
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from console.up import checks, interpreter, ports
from console.up.options import read
from console.up.problem import Problem
from console.up.screen import Screen
from tests.conftest import ROOT


def test_a_full_disk_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "NEEDED_MIB", 10**9)
    with pytest.raises(
        Problem, match=r"Only \d+ MiB are free .*, 1000000000 are needed: free some, or set AGENTBOX_VAR"
    ):
        checks.state_folder(tmp_path)


def test_secrets_are_made_once_and_are_readable_by_their_owner_only(tmp_path: Path) -> None:
    checks.secret_key(tmp_path)
    first = (tmp_path / "secret_key").read_text()
    checks.secret_key(tmp_path)
    assert (tmp_path / "secret_key").read_text() == first
    assert stat.S_IMODE((tmp_path / "secret_key").stat().st_mode) == 0o600


@pytest.mark.namespaces
def test_a_kernel_that_allows_no_namespaces_is_said_with_the_way_out(tmp_path: Path) -> None:
    forbid = "echo 0 > /proc/sys/user/max_user_namespaces"
    command = [
        "unshare",
        "--user",
        "--map-root-user",
        "sh",
        "-c",
        f'{forbid} && exec "$0" manage.py up',
        sys.executable,
    ]
    environment = {"AGENTBOX_VAR": str(tmp_path), "PORT": "18655", "PATH": "/usr/bin:/bin"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=30)
    assert done.returncode == 1
    assert "The kernel allows no namespaces here" in done.stderr
    assert "--unsafe-pods" in done.stderr


def test_the_kubeconfig_that_we_wrote_ourselves_is_not_taken_for_a_foreign_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENTBOX_VAR", str(tmp_path))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
    assert read([]).kubeconfig == ""
    monkeypatch.setenv("KUBECONFIG", "/etc/other")
    assert read(["--port", "9000"]).kubeconfig == "/etc/other"


def test_unknown_arguments_go_to_localkube() -> None:
    assert read(["--unsafe-pods", "--simulated-nodes", "3"]).localkube == ("--simulated-nodes", "3")


def test_a_free_port_is_found_when_the_preferred_one_is_taken() -> None:
    with ports.listen(0, "a test's", "") as taken:
        number = taken.getsockname()[1]
        assert ports.free(number) not in (number, 0)


def test_an_interpreter_that_finds_its_library_by_an_absolute_path_is_copied_with_a_relative_one(
    tmp_path: Path,
) -> None:
    base = tmp_path / "a-rather-long-prefix"
    (base / "bin").mkdir(parents=True)
    binary = base / "bin" / "python3"
    binary.write_bytes(b"ELF\0" + bytes(base / "lib") + b"\0rest")
    copy = interpreter.relocatable(binary, base, tmp_path / "copies")
    assert copy is not None
    assert copy.read_bytes().startswith(b"ELF\0$ORIGIN/../lib\0")
    assert len(copy.read_bytes()) == len(binary.read_bytes())
    binary.write_bytes(b"ELF, all in one")
    assert interpreter.relocatable(binary, base, tmp_path / "copies") is None


def test_a_terminal_shows_progress_and_no_command_of_a_log_line_reaches_it(capsys: pytest.CaptureFixture[str]) -> None:
    screen = Screen(["web", "edge-1"])
    screen.console = Console(file=io.StringIO(), force_terminal=True, width=100)
    screen.start()
    screen.line("web", "starting \x1b[2Jnow")
    screen.ready("web")
    screen.ready("web")
    screen.wait_for("warming sandboxes")
    screen.started()
    screen.line("edge-1", "later \x1b[2Jnow")
    shown = screen.console.file.getvalue()
    assert "web" in shown
    assert "1/2" in shown
    assert "\x1b[2Jnow" not in shown + capsys.readouterr().out
