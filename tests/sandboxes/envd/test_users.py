"""Several users in one sandbox: all that is done for one is done with that one's rights. Needs root."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from e2b import SandboxException

from tests.sandboxes.envd.daemon import Daemon, basic, output, until


@pytest.fixture
def secret(envd: Daemon) -> str:
    """A file of root's that nobody else may read, in a folder nobody else may change."""
    sandbox = envd.sdk()
    sandbox.commands.run(
        "mkdir -p /home/secret; echo hidden > /home/secret/file; chmod 600 /home/secret/file", user="root"
    )
    return "/home/secret/file"


def test_commands_run_as_user_unless_told_otherwise(envd: Daemon) -> None:
    sandbox = envd.sdk()
    assert sandbox.commands.run("id -u; id -g; id -G; echo ~ $USER").stdout.split() == ["1000"] * 3 + [
        "/home/user",
        "user",
    ]
    assert sandbox.commands.run("id -u; echo $HOME", user="root").stdout.split() == ["0", "/root"]
    groups = output(envd.run("id", "-G", user="root")).split()
    assert groups[0] == b"0"


def test_a_users_command_has_no_way_back_to_root(envd: Daemon) -> None:
    status = output(envd.run("cat", "/proc/self/status")).decode()
    lines = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
    assert lines["Uid"].split() == lines["Gid"].split() == ["1000"] * 4
    assert int(lines["CapPrm"], 16) == int(lines["CapEff"], 16) == int(lines["CapAmb"], 16) == 0


def test_a_user_cannot_hurt_the_daemon(envd: Daemon) -> None:
    pid = envd.process.pid
    script = f"for t in $(ls /proc/{pid}/task); do kill -9 $t; done; kill -9 {pid}; cat /proc/{pid}/environ; exit 0"
    assert output(envd.run("sh", "-c", script)) == b""
    assert envd.request("GET", "/health").status == 204


def test_files_belong_to_the_user_they_were_written_for(envd: Daemon) -> None:
    sandbox = envd.sdk()
    sandbox.files.write("owned/by/user", "x")
    entry = sandbox.files.get_info("owned/by/user")
    assert (entry.owner, entry.group, sandbox.files.get_info("owned").owner) == ("user", "user", "user")
    sandbox.files.write("/home/user/owned/by/root", "x", user="root")
    assert sandbox.files.get_info("owned/by/root").owner == "root"
    sandbox.files.remove("owned")


def test_no_call_reaches_what_its_user_may_not(envd: Daemon, secret: str) -> None:
    files, folder = envd.sdk().files, secret.rpartition("/")[0]
    assert envd.request("GET", f"/files?path={secret}").status == 403
    kind = "application/octet-stream"
    assert envd.request("POST", f"/files?path={secret}", b"x", Content_Type=kind).status == 403
    assert envd.request("POST", f"/files?path={folder}/new", b"x", Content_Type=kind).status == 403
    compose = json.dumps({"source_paths": [secret], "destination": "/home/user/copy"})
    assert envd.request("POST", "/files/compose", compose).status == 403
    for attempt in (
        lambda: files.make_dir(f"{folder}/new"),
        lambda: files.rename(secret, "/home/user/mine"),
        lambda: files.remove(folder),
        lambda: files.list("/root"),
        lambda: files.watch_dir("/root"),
    ):
        with pytest.raises(SandboxException):
            attempt()
    assert files.read(secret, user="root") == "hidden\n"


def test_root_may_do_what_root_may(envd: Daemon, secret: str) -> None:
    answer = envd.request(
        "POST", f"/files?path={secret}&username=root", b"new", Content_Type="application/octet-stream"
    )
    assert answer.status == 200
    assert envd.request("GET", f"/files?path={secret}&username=root").body == b"new"
    listed = envd.request("POST", "/filesystem.Filesystem/ListDir", '{"path":"/root"}', Content_Type="application/json",
                          **basic("root"))  # fmt: skip
    assert listed.status == 200


def test_a_folder_closed_to_the_user_is_no_working_folder(envd: Daemon) -> None:
    trailer = envd.run("true", process={"cwd": "/root"})[-1]
    assert trailer["error"]["code"] == "invalid_argument"
    assert "permission denied" in trailer["error"]["message"]


def test_many_users_at_once_are_never_mixed_up(envd: Daemon) -> None:
    import threading

    wrong: list[bytes] = []

    def work(user: str, uid: bytes) -> None:
        for _ in range(15):
            seen = output(envd.run("id", "-u", user=user)).strip()
            entry = envd.request(
                "POST", f"/files?path=/tmp/mixed-{user}&username={user}", b"x", Content_Type="application/octet-stream"
            )
            stat = envd.call("filesystem.Filesystem/Stat", path=f"/tmp/mixed-{user}").json["entry"]
            if seen != uid or entry.status != 200 or stat["owner"] != user:
                wrong.append(seen)

    threads = [
        threading.Thread(target=work, args=each) for each in (("user", b"1000"), ("root", b"0"), ("daemon", b"1"))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    envd.call("filesystem.Filesystem/Remove", path="/tmp/mixed-user")


STARTER = """
import pathlib, sys
sys.path.insert(0, sys.argv[1])
from tests.sandboxes.envd.daemon import Daemon
daemon = Daemon(pathlib.Path(sys.argv[2]), starter_signal=9)
assert daemon.run("id", "-u")[-1] == {}
print(daemon.process.pid)
"""


def test_it_still_dies_with_its_parent_after_commands_of_users(tmp_path: Path) -> None:
    root = str(Path(__file__).parents[3])
    result = subprocess.run(
        [sys.executable, "-c", STARTER, root, str(tmp_path)], capture_output=True, timeout=20, check=True
    )
    process = Path(f"/proc/{int(result.stdout)}")
    until(lambda: not process.exists() or b") Z " in (process / "stat").read_bytes())
