"""As in a Pod: the launcher from /opt/agentbox, one ordinary user id, PID 1 of a namespace. Needs root to set up."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from e2b import AuthenticationException, PtySize

from tests.sandboxes.envd.conftest import StartDaemon
from tests.sandboxes.envd.daemon import PATIENCE, Daemon, read_until, start_request, until


@pytest.fixture(scope="module")
def pod(daemons: StartDaemon) -> Daemon:
    return daemons(uid=1000)


def test_the_one_user_works_and_root_is_refused_clearly(pod: Daemon) -> None:
    sandbox = pod.sdk()
    assert sandbox.commands.run("id -u; pwd").stdout.split() == ["1000", "/home/user"]
    assert sandbox.commands.run("id -u", user="user").stdout.strip() == "1000"
    with pytest.raises(AuthenticationException, match="only the user id 1000"):
        sandbox.commands.run("id", user="root")
    assert pod.request("GET", "/files?path=x&username=root").status == 401


def test_files_terminals_and_watchers_work(pod: Daemon) -> None:
    sandbox = pod.sdk()
    watcher = sandbox.files.watch_dir("/home/user")
    sandbox.files.write("file", "content")
    assert sandbox.files.read("file") == "content"
    assert watcher.get_new_events()
    seen: list[bytes] = []
    terminal = sandbox.pty.create(PtySize(rows=10, cols=20), timeout=20)
    sandbox.pty.send_stdin(terminal.pid, b"stty size; exit\n")
    terminal.wait(on_pty=seen.append)
    assert b"10 20" in b"".join(seen)


def test_commands_cannot_read_the_daemons_memory_or_variables(pod: Daemon) -> None:
    result = pod.sdk().commands.run(f"cat /proc/{pod.process.pid}/environ; cat /proc/{pod.process.pid}/maps; exit 0")
    assert result.stdout == ""
    assert "Permission denied" in result.stderr


def test_the_launcher_is_executable_and_names_the_pods_interpreter() -> None:
    launcher = Path(__file__).parents[3] / "sandboxes" / "envd" / "launcher"
    assert launcher.stat().st_mode & 0o111
    assert launcher.read_text().startswith("#!/opt/agentbox/python/bin/python3 -ISB\n")


def test_as_pid_1_it_reaps_every_orphan_and_ends_at_once(start_envd: StartDaemon) -> None:
    daemon = start_envd(AS_PID_1="1")
    sandbox = daemon.sdk()
    assert sandbox.commands.run("cat /proc/1/comm; id -u").stdout.split() in (["python", "1000"], ["envd", "1000"])
    sandbox.commands.run(
        "for i in 1 2 3; do setsid sh -c 'sleep 0.1 & exit 0' > /dev/null 2>&1 & done; kill -9 1; exit 0"
    )
    until(lambda: "sleep" not in sandbox.commands.run("ps -e -o stat=,comm= | grep -v ^R; exit 0").stdout)
    assert "Z" not in sandbox.commands.run("ps -e -o stat=; exit 0").stdout
    with daemon.open() as connection:
        connection.sendall(start_request("sh", "-c", "trap '' TERM; setsid sleep 60 & sleep 60"))
        read_until(connection, b'"pid"')
        began = time.monotonic()
        daemon.process.terminate()
        assert b"unavailable" in read_until(connection, b"0\r\n\r\n")
    assert daemon.process.wait(PATIENCE) == 0
    assert time.monotonic() - began < 2
