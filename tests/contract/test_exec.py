"""Commands in a Pod: three streams apart, a terminal, how they end and how they are refused."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from kubernetes import stream
from kubernetes.client import CoreV1Api
from websockets.exceptions import ConnectionClosed, InvalidStatus

from tests.contract.kube import Kube
from tests.contract.lives import (
    CLOSE,
    RESIZE,
    STDIN,
    STDOUT,
    Output,
    becomes,
    ends,
    output,
    run,
    send,
    session,
    shell,
)
from tests.contract.sightings import Seen

pytestmark = pytest.mark.namespaces

PROTOCOLS = ["v4.channel.k8s.io", "v5.channel.k8s.io"]


@pytest.fixture
def pod(kube: Kube) -> str:
    kube.create("room")
    becomes(kube, "room", lambda pod: pod.ready)
    return "room"


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_output_errors_and_code_come_apart(kube: Kube, pod: str, seen: Seen, protocol: str) -> None:
    done = run(kube, pod, "/bin/sh", "-c", "echo out; echo err >&2; exit 7", protocol=protocol)
    assert (done.stdout, done.stderr, done.code) == (b"out\n", b"err\n", 7)
    assert (done.status["status"], done.status["reason"]) == ("Failure", "NonZeroExitCode")
    same_status(seen, f"exec-exit-7-{protocol[:2]}", done)
    fine = run(kube, pod, "/bin/sh", "-c", "exit 0", protocol=protocol)
    assert (fine.status["status"], fine.code, fine.stdout) == ("Success", 0, b"")
    assert run(kube, pod, "/bin/sh", "-c", "kill -KILL $$").code == 137


def test_what_was_not_asked_for_does_not_come(kube: Kube, pod: str) -> None:
    done = run(kube, pod, "/bin/sh", "-c", "echo out; echo err >&2", stderr=False)
    assert (done.stdout, done.stderr) == (b"out\n", b"")


def test_input_flows_in_and_its_end_is_seen(kube: Kube, pod: str) -> None:
    with session(kube, pod, "/bin/sh", "-c", "cat; echo end", stdin=True) as socket:
        send(socket, STDIN, b"over the wire\n")
        assert first_words(socket) == b"over the wire\n"
        send(socket, CLOSE, bytes([STDIN]))
        assert output(socket).stdout == b"end\n"


def test_much_flows_out_whole(kube: Kube, pod: str) -> None:
    done = run(kube, pod, "/bin/sh", "-c", "dd if=/dev/zero bs=1000 count=3000 2>/dev/null")
    assert (len(done.stdout), done.code) == (3_000_000, 0)


def test_a_terminal_has_a_size_and_echoes(kube: Kube, pod: str) -> None:
    with session(kube, pod, "/bin/sh", stdin=True, stderr=False, tty=True) as socket:
        send(socket, RESIZE, json.dumps({"Width": 91, "Height": 33}).encode())
        send(socket, STDIN, b"while ! stty size | grep '33 91'; do :; done; exit 5\n")
        done = output(socket)
    assert b"\r\n33 91\r\n" in done.stdout
    assert done.code == 5


@pytest.mark.parametrize("program", ["no-such-program", "/no/such/program", "/etc/hosts"])
def test_a_command_that_cannot_be_run_is_told(kube: Kube, pod: str, seen: Seen, program: str) -> None:
    done = run(kube, pod, program)
    assert done.status["status"] == "Failure"
    same_status(seen, "exec" + program.replace("/", "-"), done)


def test_no_command_cannot_be_run_either(kube: Kube, pod: str, seen: Seen) -> None:
    same_status(seen, "exec-no-command", run(kube, pod))


def test_the_published_client_reads_it_too(kube: Kube, pod: str) -> None:
    api = CoreV1Api(kube.client.api)
    found = stream.stream(
        api.connect_get_namespaced_pod_exec, pod, kube.namespace, command=["/bin/sh", "-c", "echo hello; exit 3"],
        stdin=False, stdout=True, stderr=True, tty=False, _preload_content=False,
    )  # fmt: skip
    found.run_forever(timeout=20)
    assert (found.read_stdout(), found.returncode) == ("hello\n", 3)


def test_when_the_client_goes_its_command_reads_the_end(kube: Kube, pod: str) -> None:
    with session(kube, pod, "/bin/sh", "-c", "cat; touch /tmp/over", stdin=True) as socket:
        send(socket, STDIN, b"x\n")
        first_words(socket)
    wait = "until test -e /tmp/over || test $((i=i+1)) = 200; do sleep 0.1; done; ls /tmp"
    assert run(kube, pod, "/bin/sh", "-c", wait).stdout == b"over\n"


def test_without_a_running_container_there_is_none(kube: Kube, seen: Seen) -> None:
    kube.create("done", container=shell("exit 0"))
    kube.park("parked")
    ends(kube, "done")
    assert refused(kube, "done", protocol="v4.channel.k8s.io") == (500, 'container not found ("main")')
    late = run(kube, "done", "/bin/true")
    assert late.status["message"].endswith('container not found ("main")')
    same_status(seen, "exec-no-container", late)
    assert refused(kube, "parked") == (400, "pod parked does not have a host assigned")
    assert refused(kube, "done", container="other") == (400, "container other is not valid for pod done")
    assert refused(kube, "nobody") == (404, 'pods "nobody" not found')


def test_only_websockets_are_spoken(kube: Kube, pod: str) -> None:
    answer = kube.call("GET", f"{kube.pods}/{pod}/exec", query={"command": "true", "stdout": "true"})
    assert (answer.status, answer.message) == (400, "Upgrade request required")


def refused(kube: Kube, name: str, **wanted: str) -> tuple[int, str]:
    with pytest.raises(InvalidStatus) as caught, session(kube, name, "/bin/true", **wanted):
        pass
    body = bytes(caught.value.response.body or b"")
    text = json.loads(body)["message"] if body.startswith(b"{") else body.decode()
    return caught.value.response.status_code, text.strip()


def first_words(socket: object) -> bytes:
    for message in pieces(socket):
        if message[:1] == bytes([STDOUT]) and len(message) > 1:
            return message[1:]
    raise AssertionError("it ended without a word")


def pieces(socket: object) -> Iterator[bytes]:
    try:
        yield from socket  # type: ignore[misc]
    except ConnectionClosed:
        return


def same_status(seen: Seen, case: str, done: Output) -> None:
    """The whole of it, but for the number that each command has."""
    assert seen.stable({"status": done.status}) == seen(case, {"status": done.status})
