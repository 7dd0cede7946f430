"""How envd starts and ends."""

from __future__ import annotations

import base64
import re
import signal
import time
from pathlib import Path

import pytest
from e2b import SandboxException

from tests.sandboxes.envd.conftest import StartDaemon
from tests.sandboxes.envd.daemon import PATIENCE, read_until, start_request, until


def printed(stream: bytes) -> bytes:
    """What the command wrote, of a stream that is cut off somewhere."""
    return b"".join(map(base64.b64decode, re.findall(rb'"stdout":"([^"]*)"', stream)))


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_it_starts_fast_and_small(start_envd: StartDaemon) -> None:
    daemon = start_envd()
    assert daemon.request("GET", "/health").status == 204
    assert daemon.memory() < 32 << 20


def test_sigterm_tells_open_streams_and_kills_everything(start_envd: StartDaemon) -> None:
    daemon = start_envd()
    with daemon.open() as connection:
        script = "trap '' TERM; setsid sleep 61 >&- & echo $!; sleep 62 >&- & echo $! ready; wait"
        connection.sendall(start_request("sh", "-c", script))
        seen = b""
        while b"ready" not in printed(seen):
            seen += connection.recv(65536)
        children = [int(number) for number in printed(seen).split() if number.isdigit()]
        assert len(children) == 2
        began = time.monotonic()
        daemon.process.send_signal(signal.SIGTERM)
        assert b'"code":"unavailable"' in read_until(connection, b"0\r\n\r\n")
        assert daemon.process.wait(PATIENCE) == 0
        assert time.monotonic() - began < 3
    until(lambda: all(map(gone, children)))


def test_the_sdk_sees_a_command_end_when_the_sandbox_ends(start_envd: StartDaemon) -> None:
    daemon = start_envd()
    handle = daemon.sdk().commands.run("sleep 60", background=True)
    daemon.process.send_signal(signal.SIGTERM)
    with pytest.raises(SandboxException):
        handle.wait()


def test_it_ends_everything_by_itself_when_nobody_came(start_envd: StartDaemon) -> None:
    daemon = start_envd(ENVD_DEADLINE_MARGIN="0.3")
    with daemon.open() as connection:
        connection.sendall(start_request("sleep", "60"))
        pid = int(read_until(connection, b"}}}").rpartition(b'"pid":')[2].partition(b"}")[0])
        assert daemon.init(deadline=time.time() + 0.2).status == 204
        assert b"unavailable" in read_until(connection, b"0\r\n\r\n")
    assert daemon.process.wait(PATIENCE) == 0
    until(lambda: gone(pid))


def test_a_later_deadline_replaces_an_earlier_one(start_envd: StartDaemon) -> None:
    daemon = start_envd(ENVD_DEADLINE_MARGIN="0")
    first = time.time() + 1.5
    daemon.init(deadline=first)
    daemon.init(deadline=time.time() + 600)
    until(lambda: time.time() > first + 0.2)
    assert daemon.request("GET", "/health").status == 204
    daemon.init(deadline=time.time() + 0.1)
    assert daemon.process.wait(PATIENCE) == 0


def test_orphans_are_taken_in_and_reaped(start_envd: StartDaemon) -> None:
    daemon = start_envd()
    result = daemon.sdk().commands.run("(sleep 0.2 & echo $! ); exit 0 > /dev/null")
    orphan = Path(f"/proc/{int(result.stdout)}")
    until(lambda: not orphan.exists())
