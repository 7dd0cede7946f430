"""Commands through the unmodified SDK."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

import pytest
from e2b import (
    AuthenticationException,
    CommandExitException,
    InvalidArgumentException,
    NotFoundException,
    PtySize,
    SandboxException,
    TimeoutException,
)

from tests.sandboxes.envd.conftest import StartDaemon
from tests.sandboxes.envd.daemon import Daemon, ending, enveloped, output, read_until, start_request, until


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_a_command_gives_its_output_error_output_and_exit_code(envd: Daemon) -> None:
    sandbox = envd.sdk()
    result = sandbox.commands.run("echo héllo; echo wrong >&2")
    assert (result.stdout, result.stderr, result.exit_code) == ("héllo\n", "wrong\n", 0)
    with pytest.raises(CommandExitException) as failed:
        sandbox.commands.run("echo partly; exit 3")
    assert (failed.value.exit_code, failed.value.stdout, failed.value.error) == (3, "partly\n", "exit status 3")


def test_the_async_sdk_runs_many_commands_at_once(envd: Daemon) -> None:
    async def run() -> list[str]:
        sandbox = envd.async_sdk()
        results = await asyncio.gather(*(sandbox.commands.run(f"echo {number}") for number in range(20)))
        return [result.stdout for result in results]

    assert asyncio.run(run()) == [f"{number}\n" for number in range(20)]


def test_variables_are_made_from_nothing_then_create_time_then_call(envd: Daemon) -> None:
    envd.init(envVars={"A": "created", "B": "created"})
    messages = envd.run("/usr/bin/env", process={"envs": {"B": "called", "C": "called"}})
    variables = dict(line.split("=", 1) for line in output(messages).decode().splitlines())
    envd.init(envVars={})
    assert variables.keys() == {"PATH", "HOME", "USER", "LOGNAME", "A", "B", "C"}
    assert (variables["A"], variables["B"], variables["C"]) == ("created", "called", "called")


def test_variables_that_the_pod_was_made_with_come_before_those_of_the_claim(start_envd: StartDaemon) -> None:
    daemon = start_envd(ENVD_VAR_A="pod", ENVD_VAR_B="pod", ENVD_VAR_PYTHONHOME="/nowhere")
    daemon.init(envVars={"B": "created"})
    variables = dict(line.split("=", 1) for line in output(daemon.run("/usr/bin/env")).decode().splitlines())
    assert variables.keys() == {"PATH", "HOME", "USER", "LOGNAME", "A", "B", "PYTHONHOME"}
    assert (variables["A"], variables["B"]) == ("pod", "created")


def test_a_command_has_no_open_files_but_its_three(envd: Daemon) -> None:
    assert output(envd.run("ls", "/proc/self/fd")).split() == [b"0", b"1", b"2", b"3"]  # 3 is ls reading the folder


def test_the_folder_is_home_or_what_the_call_says(envd: Daemon, work: str) -> None:
    sandbox = envd.sdk()
    assert sandbox.commands.run("pwd", cwd=work).stdout.strip() == work
    assert sandbox.commands.run("pwd").stdout.strip() == str(Path(work).parent)
    with pytest.raises(InvalidArgumentException, match="does not exist"):
        sandbox.commands.run("pwd", cwd=f"{work}/missing")


def test_what_cannot_be_started_is_an_invalid_argument(envd: Daemon, work: str) -> None:
    for command in ("no-such-program", "/no/such/program", work):
        assert envd.run(command)[-1]["error"]["code"] == "invalid_argument"


def test_an_unknown_user_is_refused(envd: Daemon) -> None:
    with pytest.raises(AuthenticationException, match="no user 'stranger'"):
        envd.sdk().commands.run("true", user="stranger")


def test_stdin_can_be_sent_and_closed(envd: Daemon) -> None:
    sandbox = envd.sdk()
    handle = sandbox.commands.run("cat", background=True, stdin=True)
    sandbox.commands.send_stdin(handle.pid, "first ")
    sandbox.commands.send_stdin(handle.pid, "second")
    sandbox.commands.close_stdin(handle.pid)
    assert handle.wait().stdout == "first second"


def test_without_stdin_input_is_refused_and_reading_sees_the_end(envd: Daemon) -> None:
    sandbox = envd.sdk()
    assert sandbox.commands.run("cat; echo done").stdout == "done\n"
    handle = sandbox.commands.run("sleep 30", background=True)
    with pytest.raises(SandboxException, match="not enabled"):
        sandbox.commands.send_stdin(handle.pid, "x")
    assert handle.kill()


def test_input_to_a_command_that_does_not_read_ends_at_its_limit(envd: Daemon) -> None:
    sandbox = envd.sdk()
    handle = sandbox.commands.run("sleep 30", background=True, stdin=True)
    with pytest.raises(TimeoutException):
        sandbox.commands.send_stdin(handle.pid, "x" * 1_000_000, request_timeout=0.3)
    assert handle.kill()


def test_stream_input_keeps_the_order(envd: Daemon) -> None:
    sandbox = envd.sdk()
    handle = sandbox.commands.run("head -c 8", background=True, stdin=True)
    start = enveloped({"start": {"process": {"pid": handle.pid}}})
    data = [enveloped({"data": {"input": {"stdin": text}}}) for text in ("YWJj", "ZGVm", "Z2g=")]
    body = b"".join([start, enveloped({"keepalive": {}}), *data])
    answer = envd.request("POST", "/process.Process/StreamInput", body, Content_Type="application/connect+json")
    assert answer.body == enveloped({}) + b"\2\0\0\0\2{}"
    assert handle.wait().stdout == "abcdefgh"


def test_commands_are_listed_with_tag_and_found_by_it(envd: Daemon) -> None:
    with envd.open() as connection:
        connection.sendall(start_request("sleep", "30", tag="mine"))
        read_until(connection, b'"pid":')
        listed = envd.call("process.Process/List").json["processes"]
        mine = next(each for each in listed if each.get("tag") == "mine")
        assert mine["config"] == {"cmd": "sleep", "args": ["30"]}
        assert envd.call("process.Process/SendSignal", process={"tag": "mine"}, signal="SIGNAL_SIGTERM").status == 200
        assert b"signal: terminated" in read_until(connection, b"0\r\n\r\n")


def test_a_kill_takes_the_whole_group(envd: Daemon) -> None:
    sandbox = envd.sdk()
    handle = sandbox.commands.run("sleep 60 & echo $!; wait", background=True)
    child = int(next(iter(handle))[0])
    assert alive(child)
    assert sandbox.commands.kill(handle.pid)
    until(lambda: not alive(child))
    with pytest.raises(CommandExitException, match=r"signal: killed|code -1"):
        handle.wait()
    assert not sandbox.commands.kill(handle.pid)


def test_the_time_limit_kills_the_command(envd: Daemon) -> None:
    began = time.monotonic()
    messages = envd.stream(
        "process.Process/Start", {"process": {"cmd": "sleep", "args": ["60"]}}, Connect_Timeout_Ms="200"
    )
    assert messages[-1]["error"]["code"] == "deadline_exceeded"
    assert time.monotonic() - began < 5
    pid = messages[0]["event"]["start"]["pid"]
    until(lambda: not alive(pid))


def test_the_time_limit_holds_also_when_the_client_has_left(envd: Daemon) -> None:
    with envd.open() as connection:
        connection.sendall(start_request("sleep", "60", headers="Connect-Timeout-Ms: 300\r\n"))
        pid = int(read_until(connection, b"}}}").rpartition(b'"pid":')[2].partition(b"}")[0])
    assert alive(pid)
    until(lambda: not alive(pid))


def test_a_command_survives_its_client_and_can_be_joined_again(envd: Daemon) -> None:
    sandbox = envd.sdk()
    handle = sandbox.commands.run("read line; echo got $line", background=True, stdin=True)
    handle.disconnect()
    again = sandbox.commands.connect(handle.pid)
    sandbox.commands.send_stdin(handle.pid, "it\n")
    assert again.wait().stdout == "got it\n"


def test_two_clients_see_the_same_output(envd: Daemon) -> None:
    sandbox = envd.sdk()
    first = sandbox.commands.run("read line; seq 2000", background=True, stdin=True)
    second = sandbox.commands.connect(first.pid)
    sandbox.commands.send_stdin(first.pid, "go\n")
    assert first.wait().stdout == second.wait().stdout == "".join(f"{number}\n" for number in range(1, 2001))


def test_how_a_command_ended_can_be_asked_late(envd: Daemon) -> None:
    messages = envd.run("sh", "-c", "exit 7", tag="late")
    pid = messages[0]["event"]["start"]["pid"]
    for selector in ({"pid": pid}, {"tag": "late"}):
        late = envd.stream("process.Process/Connect", {"process": selector})
        assert late[0]["event"]["start"]["pid"] == pid
        assert ending(late)["exitCode"] == 7
    with pytest.raises(NotFoundException):
        envd.sdk().commands.connect(99999999)


def test_a_client_that_only_listens_may_have_a_limit(envd: Daemon) -> None:
    sandbox = envd.sdk()
    handle = sandbox.commands.run("sleep 60", background=True)
    messages = envd.stream("process.Process/Connect", {"process": {"pid": handle.pid}}, Connect_Timeout_Ms="100")
    assert messages[-1]["error"]["code"] == "deadline_exceeded"
    assert alive(handle.pid)
    assert handle.kill()


def test_silence_is_broken_by_keepalives(envd: Daemon) -> None:
    headers = "Keepalive-Ping-Interval: 1\r\nConnect-Timeout-Ms: 20000\r\n"
    with envd.open() as connection:
        connection.sendall(start_request("sleep", "20", headers=headers))
        assert b'{"event":{"keepalive":{}}}' in read_until(connection, b"keepalive")


def test_a_server_left_in_the_background_does_not_hold_the_call(envd: Daemon) -> None:
    began = time.monotonic()
    result = envd.sdk().commands.run("sleep 50 & echo $!")
    assert time.monotonic() - began < 10
    child = int(result.stdout)
    assert alive(child)
    os.kill(child, 9)


def test_a_terminal_has_a_size_an_owner_and_input(envd: Daemon) -> None:
    sandbox = envd.sdk()
    seen: list[bytes] = []
    handle = sandbox.pty.create(PtySize(rows=31, cols=97), timeout=20)
    sandbox.pty.send_stdin(handle.pid, b"stty size; test -O $(tty) && echo it is m''ine\n")
    sandbox.pty.resize(handle.pid, PtySize(rows=7, cols=71))
    sandbox.pty.send_stdin(handle.pid, b"stty size; echo $TERM; exit\n")
    handle.wait(on_pty=seen.append)
    text = b"".join(seen).decode()
    assert "it is mine" in text
    assert "7 71" in text
    assert "xterm-256color" in text


def test_a_terminal_refuses_what_is_for_pipes_and_the_other_way_round(envd: Daemon) -> None:
    sandbox = envd.sdk()
    terminal = sandbox.pty.create(PtySize(rows=31, cols=97), timeout=20)
    plain = sandbox.commands.run("cat", background=True, stdin=True)
    close = envd.call("process.Process/CloseStdin", process={"pid": terminal.pid})
    size = envd.call("process.Process/Update", process={"pid": plain.pid}, pty={"size": {"cols": 1, "rows": 1}})
    both = envd.call("process.Process/SendInput", process={"pid": plain.pid}, input={"pty": "eA=="})
    assert [answer.json["code"] for answer in (close, size, both)] == ["internal"] * 3
    assert envd.call("process.Process/Update", process={"pid": plain.pid}).json == {}
    assert sandbox.pty.kill(terminal.pid)
    assert plain.kill()


def test_no_zombies_and_no_descriptors_stay_behind(envd: Daemon) -> None:
    def open_files() -> int:
        return len(list(Path(f"/proc/{envd.process.pid}/fd").iterdir()))

    envd.run("true")
    before = open_files()
    for _ in range(30):
        envd.run("sh", "-c", "echo x; (sleep 0.01; exit 1) & exit 0")
        envd.run("no-such-program")
    until(lambda: open_files() <= before)
    children = Path(f"/proc/{envd.process.pid}/task/{envd.process.pid}/children").read_text().split()
    assert not [pid for pid in children if not alive(int(pid))]
