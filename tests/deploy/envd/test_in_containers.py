"""The pack in roots without a C library, without users, read-only, and with programs of another C library's making."""

from __future__ import annotations

import gzip
import json
import shutil
import socket
import subprocess
import time
from pathlib import Path

import pytest
from e2b import CommandExitException

from tests.deploy.envd.conftest import ENVD, Container, StartContainer, container_command
from tests.sandboxes.envd.daemon import TOKEN, output, read_until, start_request, until

MIB = 1 << 20
MOST_BYTES = 20_000_000
MOST_MEMORY = 25


def shown(text: str, kind: str) -> list[str]:
    """Lines of `probe show` that begin with `kind`."""
    return [line.removeprefix(kind) for line in text.splitlines() if line.startswith(kind)]


def test_it_starts_where_there_is_nothing_else(start: StartContainer, bare: Path, pack: Path) -> None:
    began = time.monotonic()
    container = start(bare)
    assert container.request("GET", "/health").status == 204
    seconds = time.monotonic() - began
    size = sum(path.stat().st_size for path in pack.rglob("*") if path.is_file())
    memory = container.memory() / MIB
    print(f"pack {size / 1e6:.1f} MB, /health after {seconds * 1000:.0f} ms, {memory:.1f} MiB resident")  # noqa: T201
    assert size <= MOST_BYTES
    assert memory < MOST_MEMORY
    assert Path(f"/proc/{container.pid}/comm").read_text() == "envd\n"


def test_the_sdk_works_without_bash(container: Container) -> None:
    sandbox = container.sdk()
    assert shown(sandbox.commands.run("probe show").stdout, "uid=")[0].startswith("0 gid=0")
    with pytest.raises(CommandExitException):
        sandbox.commands.run("nothing")
    copying = sandbox.commands.run("probe copy", background=True, stdin=True)
    assert [each.pid for each in sandbox.commands.list()] == [copying.pid]
    sandbox.commands.send_stdin(copying.pid, "through a pipe")
    sandbox.commands.close_stdin(copying.pid)
    assert copying.wait().stdout == "through a pipe"
    sleeping = sandbox.commands.run("probe sleep", background=True)
    assert sleeping.kill()


def test_every_call_about_files_finds_its_modules(container: Container) -> None:
    files = container.sdk().files
    files.make_dir("/tmp/folder")
    watcher = files.watch_dir("/tmp/folder")
    files.write("/tmp/folder/one", "content" * 1000)
    files.write_files([{"path": "/tmp/folder/two", "data": "b"}, {"path": "/tmp/folder/three", "data": "c"}])
    assert files.read("/tmp/folder/one") == "content" * 1000
    assert {event.name for event in watcher.get_new_events()} == {"one", "two", "three"}
    compose = {"source_paths": ["/tmp/folder/two", "/tmp/folder/three"], "destination": "/tmp/folder/both"}
    assert container.request("POST", "/files/compose", json.dumps(compose)).status == 200
    packed = container.request("GET", "/files?path=/tmp/folder/one", Accept_Encoding="gzip")
    assert gzip.decompress(packed.body) == b"content" * 1000
    kind = {"Content_Type": "application/octet-stream", "Content_Encoding": "gzip"}
    assert container.request("POST", "/files?path=/tmp/folder/two", packed.body, **kind).status == 200
    assert sorted(entry.name for entry in files.list("/tmp/folder")) == ["both", "one", "two"]
    assert container.request("POST", "/init", "{no json").status == 400
    assert container.request("GET", "/metrics").json["mem_total"] > 0
    files.remove("/tmp/folder")
    assert not files.exists("/tmp/folder")


def test_a_command_finds_nothing_of_envds(container: Container) -> None:
    """Only what the image and the caller say: no variable, no library, no open file of the daemon's."""
    text = output(container.run("probe", "show", process={"envs": {"MINE": "yes"}})).decode()
    assert dict(line.split("=", 1) for line in shown(text, "env ")) == {
        "PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/tmp", "USER": "user", "LOGNAME": "user", "MINE": "yes",
    }  # fmt: skip
    assert shown(text, "fd=") == ["0", "1", "2"]


def test_terminals_have_a_size(container: Container) -> None:
    pty = {"size": {"cols": 70, "rows": 30}}
    assert output(container.run("probe", "size", pty=pty), "pty").split() == [b"30", b"70"]


def test_ports_of_the_sandbox_are_relayed(start: StartContainer, bare: Path) -> None:
    container = start(bare)
    container.init(accessToken=TOKEN)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with container.open() as connection:
        connection.sendall(start_request("probe", "serve", str(port), headers=f"X-Access-Token: {TOKEN}\r\n"))
        read_until(connection, b'"stdout"')
        answer = container.request("GET", "/", X_Envd_Relay_Port=str(port), X_Envd_Relay_Token=TOKEN)
        assert (answer.status, answer.body) == (200, b"serve")


def test_as_pid_1_it_ends_at_once(start: StartContainer, bare: Path) -> None:
    container = start(bare)
    with container.open() as connection:
        connection.sendall(start_request("probe", "sleep"))
        read_until(connection, b'"pid"')
        assert (container.stop(), container.process.returncode) == (b"", 0)


def test_the_images_user_runs_everything(start: StartContainer, bare: Path) -> None:
    sandbox = start(bare, uid=1234).sdk()
    assert shown(sandbox.commands.run("probe show").stdout, "uid=")[0].startswith("1234 gid=1234 groups=0")
    sandbox.files.write("/tmp/file", "content")
    assert sandbox.files.get_info("/tmp/file").owner == "1234"
    assert not sandbox.commands.run("probe write /tmp/made").exit_code
    with pytest.raises(CommandExitException):
        sandbox.commands.run("probe write /opt/agentbox/made")


def test_a_root_that_cannot_be_written_is_enough(start: StartContainer, bare: Path) -> None:
    sandbox = start(bare, read_only=True).sdk()
    with pytest.raises(CommandExitException):
        sandbox.commands.run("probe write /file")
    sandbox.commands.run("probe write /tmp/file")
    assert sandbox.files.exists("/tmp/file")


def test_commands_use_the_libraries_of_their_image(start: StartContainer, tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    sandbox = start(tmp_path / "root", host=True).sdk()
    maps = sandbox.commands.run("cat /proc/self/maps").stdout
    assert "libc" in maps
    assert "/opt/agentbox" not in maps
    for program in filter(shutil.which, ("git", "/usr/bin/python3")):
        assert sandbox.commands.run(f"{program} --version").exit_code == 0


def test_an_init_container_installs_it_for_everybody(bare: Path, pack: Path) -> None:
    """As any user, over what an earlier try left; the copy is whole and runs."""
    target = bare / "volume"
    target.mkdir()
    target.chmod(0o777)
    command = container_command(bare, pack, ENVD, "install", "/volume", uid=65532)
    began = time.monotonic()
    subprocess.run(command, check=True, timeout=20)
    print(f"installed in {(time.monotonic() - began) * 1000:.0f} ms, with a container's start")  # noqa: T201
    (target / "loader" / "envd").write_bytes(b"half of it")
    subprocess.run(command, check=True, timeout=20)
    assert described(target) == described(pack)


def described(folder: Path) -> dict[str, tuple[int, bytes]]:
    found = {str(path.relative_to(folder)): path for path in folder.rglob("*")}
    return {name: (path.stat().st_mode, path.read_bytes() if path.is_file() else b"") for name, path in found.items()}


def test_installing_nowhere_is_refused_in_a_sentence(bare: Path, pack: Path) -> None:
    for target, sentence in (("", "usage: envd install /FOLDER"), ("/volume", "cannot be installed into '/volume'")):
        command = container_command(bare, pack, ENVD, "install", target, uid=65532)
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
        assert sentence in done.stderr
        assert done.returncode == 1


def test_an_error_inside_is_printed_whole(start: StartContainer, bare: Path) -> None:
    """The modules that print a traceback are in the pack too."""
    code = "from envd.loop import report; import warnings; warnings.warn('seen'); report(ValueError('told'))"
    loader, library = "/opt/agentbox/loader/envd", "/opt/agentbox/python/lib"
    container = start(bare)
    command = [loader, "--library-path", library, "/opt/agentbox/python/bin/python3", "-ISB", "-c", code]
    printed = output(container.run(*command), "stderr").decode()
    assert "UserWarning: seen" in printed
    assert printed.endswith("ValueError: told\n")
    until(lambda: container.request("GET", "/health").status == 204)
