"""The HTTP server: strict, bounded, and patient with what HTTP allows."""

from __future__ import annotations

import json
import socket

import pytest

from tests.sandboxes.envd.daemon import Daemon, enveloped, read_until, start_request, unpacked

HEALTH = b"GET /health HTTP/1.1\r\nHost: it\r\n\r\n"
JSON = "Content-Type: application/json\r\n"


def answers(envd: Daemon, *pieces: bytes) -> bytes:
    """All that comes back for these bytes until envd closes."""
    with envd.open() as connection:
        for piece in pieces:
            connection.sendall(piece)
        connection.shutdown(socket.SHUT_WR)
        data = b""
        while piece := connection.recv(65536):
            data += piece
        return data


def test_requests_may_come_in_pieces_or_several_at_once(envd: Daemon) -> None:
    assert answers(envd, *(bytes([byte]) for byte in HEALTH)).startswith(b"HTTP/1.1 204 ")
    assert answers(envd, HEALTH * 3).count(b"HTTP/1.1 204 ") == 3


def test_a_connection_serves_many_requests_unless_told_not_to(envd: Daemon) -> None:
    with envd.open() as connection:
        for _ in range(3):
            connection.sendall(start_request("true"))
            assert b'"exited":true' in read_until(connection, b"0\r\n\r\n")
        connection.sendall(HEALTH.replace(b"Host", b"Connection: close\r\nHost"))
        assert b"Connection: close" in read_until(connection, b"\r\n\r\n")
        assert connection.recv(1) == b""


def test_chunked_requests_and_old_clients_are_served(envd: Daemon) -> None:
    head = f"POST /process.Process/List HTTP/1.1\r\nHost: it\r\n{JSON}Transfer-Encoding: chunked\r\n\r\n"
    body = b"1;note=x\r\n{\r\n1\r\n}\r\n0\r\nTrailer: x\r\n\r\n"
    assert b"HTTP/1.1 200 OK" in answers(envd, head.encode(), body)
    old = start_request("echo", "hi").replace(b"HTTP/1.1", b"HTTP/1.0", 1)
    data = answers_to_the_end(envd, old)
    assert b"Transfer-Encoding" not in data
    messages = list(unpacked(data.partition(b"\r\n\r\n")[2]))
    assert messages[-1] == {}


def answers_to_the_end(envd: Daemon, request: bytes) -> bytes:
    with envd.open() as connection:
        connection.sendall(request)
        data = b""
        while piece := connection.recv(65536):
            data += piece
        return data


def test_a_client_that_asks_first_is_told_to_continue(envd: Daemon, work: str) -> None:
    head = f"POST /files?path={work}/f HTTP/1.1\r\nHost: it\r\nContent-Type: application/octet-stream\r\n"
    with envd.open() as connection:
        connection.sendall(f"{head}Expect: 100-continue\r\nContent-Length: 4\r\n\r\n".encode())
        assert read_until(connection, b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(b"four")
        assert b"200 OK" in read_until(connection, b"]")


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"hello\r\n\r\n", 400),
        (b"GET /health\r\n\r\n", 400),
        (b"GET  /health HTTP/1.1\r\n\r\n", 400),
        (b"G@T /health HTTP/1.1\r\n\r\n", 400),
        (b"GET http://it/health HTTP/1.1\r\n\r\n", 400),
        (b"GET /h\xc3\xa9 HTTP/1.1\r\n\r\n", 400),
        (b"GET /health HTTP/2.0\r\n\r\n", 505),
        (b"GET /health HTTP/1.1\r\nno colon\r\n\r\n", 400),
        (b"GET /health HTTP/1.1\r\nHost: it\r\n folded\r\n\r\n", 400),
        (b"GET /health HTTP/1.1\r\nName : x\r\n\r\n", 400),
        (b"GET /health HTTP/1.1\r\nA: x\nB: y\r\n\r\n", 400),
        (b"GET /health HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400),
        (b"GET /health HTTP/1.1\r\nContent-Length: 1e3\r\n\r\n", 400),
        (b"GET /health HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
        (b"GET /health HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        (b"GET /health HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", 400),
        (b"GET /health HTTP/1.1\r\nA: " + b"x" * 40_000, 431),
        (b"GET /health HTTP/1.1\r\nA: " + b"x" * 40_000 + b"\r\n\r\n", 431),
        (b"POST /init HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", 400),
        (b"POST /init HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}}\r\n", 400),
        (b"POST /init HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n" + b"0" * 5000, 400),
        (b"POST /init HTTP/1.1\r\nContent-Length: 99999999\r\n\r\n", 413),
    ],
)
def test_what_is_not_plain_http_is_refused_and_closed(envd: Daemon, request_bytes: bytes, status: int) -> None:
    data = answers_to_the_end(envd, request_bytes)
    assert data.startswith(f"HTTP/1.1 {status} ".encode())
    assert json.loads(data.partition(b"\r\n\r\n")[2])["code"] == status
    assert envd.request("GET", "/health").status == 204


def test_a_refused_upload_can_still_read_why(envd: Daemon) -> None:
    answer = envd.request("POST", "/files?path=x&username=stranger", bytes(3_000_000), Content_Type="text/plain")
    assert answer.status == 401


def test_unknown_paths_and_methods_are_named(envd: Daemon) -> None:
    for method, path, status in (
        ("GET", "/nothing", 404),
        ("POST", "/process.Process/Nothing", 404),
        ("POST", "/filesystem.Filesystem/Nothing", 404),
        ("POST", "/filesystem.Filesystem/NothingWatcher", 404),
        ("DELETE", "/health", 405),
        ("GET", "/init", 405),
        ("GET", "/process.Process/List", 405),
    ):
        answer = envd.request(method, path)
        assert (answer.status, answer.json["code"]) == (status, status)
        assert path in answer.json["message"]


UNARY = [
    "process.Process/List",
    "process.Process/SendInput",
    "process.Process/CloseStdin",
    "process.Process/Update",
    "process.Process/SendSignal",
    "filesystem.Filesystem/Stat",
    "filesystem.Filesystem/MakeDir",
    "filesystem.Filesystem/Move",
    "filesystem.Filesystem/Remove",
    "filesystem.Filesystem/ListDir",
    "filesystem.Filesystem/CreateWatcher",
    "filesystem.Filesystem/GetWatcherEvents",
    "filesystem.Filesystem/RemoveWatcher",
]
STREAMING = ["process.Process/Start", "process.Process/Connect", "filesystem.Filesystem/WatchDir"]
BAD_JSON = [b"{", b"[]", b'"x"', b"{} x", b"\xff", b'{"a":' * 100_000, b'{"path":NaN}']


@pytest.mark.parametrize("method", UNARY)
def test_a_unary_call_wants_json(envd: Daemon, method: str) -> None:
    if method != "process.Process/List":
        for body in BAD_JSON:
            answer = envd.request("POST", f"/{method}", body, Content_Type="application/json")
            assert (answer.status, answer.json["code"]) == (400, "invalid_argument")
    for kind in ("application/proto", "text/plain", "application/connect+json"):
        assert envd.request("POST", f"/{method}", b"{}", Content_Type=kind).status == 415


@pytest.mark.parametrize("method", STREAMING)
def test_a_streaming_call_wants_one_envelope_and_says_so_in_the_trailer(envd: Daemon, method: str) -> None:
    for body in (
        b"",
        b"x",
        enveloped({})[:-1],
        enveloped({}) * 2,
        b"\1" + enveloped({})[1:],
        *map(enveloped, BAD_JSON),
    ):
        answer = envd.request("POST", f"/{method}", body, Content_Type="application/connect+json")
        assert answer.status == 200
        assert list(unpacked(answer.body))[-1]["error"]["code"] == "invalid_argument"
    assert envd.request("POST", f"/{method}", b"{}", Content_Type="application/json").status == 415


@pytest.mark.parametrize(
    ("method", "message", "field"),
    [
        ("filesystem.Filesystem/Stat", {"path": 1}, "path"),
        ("filesystem.Filesystem/Stat", {}, "path"),
        ("filesystem.Filesystem/Stat", {"path": "a\0b"}, "path"),
        ("filesystem.Filesystem/Stat", {"path": "x" * 5000}, "path"),
        ("filesystem.Filesystem/Stat", {"path": "\ud800"}, "path"),
        ("filesystem.Filesystem/Move", {"source": "a"}, "destination"),
        ("filesystem.Filesystem/Move", {"destination": "a"}, "source"),
        ("filesystem.Filesystem/ListDir", {"path": "/", "depth": -1}, "depth"),
        ("filesystem.Filesystem/ListDir", {"path": "/", "depth": "deep"}, "depth"),
        ("filesystem.Filesystem/CreateWatcher", {"path": "/", "recursive": "yes"}, "recursive"),
        ("process.Process/SendInput", {"process": {}}, "process"),
        ("process.Process/SendInput", {"process": {"pid": "x"}}, "pid"),
        ("process.Process/SendInput", {"process": []}, "process"),
        ("process.Process/SendSignal", {"process": {"pid": 2**40}}, "pid"),
    ],
)
def test_a_wrong_field_is_named(envd: Daemon, method: str, message: dict[str, object], field: str) -> None:
    answer = envd.call(method, **message)
    assert (answer.status, answer.json["code"]) == (400, "invalid_argument")
    assert field in answer.json["message"]


@pytest.mark.parametrize(
    ("message", "field"),
    [
        ({}, "process.cmd"),
        ({"process": {"cmd": 1}}, "cmd"),
        ({"process": {"cmd": "true", "args": "x"}}, "args"),
        ({"process": {"cmd": "true", "args": ["a\0"]}}, "args"),
        ({"process": {"cmd": "true", "envs": {"A": 1}}}, "envs.A"),
        ({"process": {"cmd": "true", "envs": {"": "x"}}}, "envs"),
        ({"process": {"cmd": "true", "cwd": "~other/x"}}, "path"),
        ({"process": {"cmd": "true"}, "stdin": 1}, "stdin"),
        ({"process": {"cmd": "true"}, "tag": 1}, "tag"),
        ({"process": {"cmd": "true"}, "pty": {"size": {"cols": -1}}}, "cols"),
        ({"process": {"cmd": "true"}, "pty": []}, "pty"),
    ],
)
def test_a_wrong_field_of_a_start_is_named(envd: Daemon, message: dict[str, object], field: str) -> None:
    trailer = envd.stream("process.Process/Start", message)[-1]
    assert trailer["error"]["code"] == "invalid_argument"
    assert field in trailer["error"]["message"]


def test_wrong_input_and_signals_are_named(envd: Daemon) -> None:
    with envd.open() as connection:
        connection.sendall(start_request("cat", tag="cat", stdin=True))
        read_until(connection, b'"pid"')
        cat = {"tag": "cat"}
        assert (
            "stdin"
            in envd.call("process.Process/SendInput", process=cat, input={"stdin": "not base64!"}).json["message"]
        )
        assert "signal" in envd.call("process.Process/SendSignal", process=cat, signal="SIGNAL_SIGHUP").json["message"]
        assert "signal" in envd.call("process.Process/SendSignal", process=cat, signal=[]).json["message"]
        assert envd.call("process.Process/SendSignal", process=cat, signal=9).status == 200


def test_a_wrong_time_limit_or_login_is_named(envd: Daemon) -> None:
    message = {"process": {"cmd": "true"}}
    late = envd.stream("process.Process/Start", message, Connect_Timeout_Ms="soon")
    assert "connect-timeout-ms" in late[-1]["error"]["message"]
    login = envd.stream("process.Process/Start", message, Authorization="Basic %%%")
    assert login[-1]["error"]["code"] == "unauthenticated"
    assert envd.request("POST", "/process.Process/SendInput", b"{}", Content_Type="application/json",
                        Content_Encoding="gzip").status == 501  # fmt: skip


def test_broken_input_streams_end_with_a_reason(envd: Daemon) -> None:
    for body in (
        enveloped({"data": {"input": {"stdin": "eA=="}}}),
        enveloped({"start": {"process": {"pid": 99999999}}}),
        enveloped({})[:-1],
        b"\0" + (1 << 30).to_bytes(4, "big"),
    ):
        answer = envd.request("POST", "/process.Process/StreamInput", body, Content_Type="application/connect+json")
        assert list(unpacked(answer.body))[-1]["error"]["message"]


def test_metrics_and_variables_are_numbers_and_texts(envd: Daemon) -> None:
    first = envd.request("GET", "/metrics").json
    envd.run("sh", "-c", "for i in 1 2 3; do :; done")
    metrics = envd.request("GET", "/metrics").json
    assert 0 <= metrics["cpu_used_pct"] <= 100
    assert 0 < metrics["mem_used"] <= metrics["mem_total"]
    assert 0 < metrics["disk_used"] <= metrics["disk_total"]
    assert metrics["cpu_count"] >= 1
    assert metrics["ts"] >= first["ts"]
    assert envd.request("GET", "/envs").json == {}


def test_too_many_connections_are_told_so_and_the_rest_go_on(envd: Daemon) -> None:
    crowd = [envd.open() for _ in range(512)]
    try:
        late = envd.open()
        crowd.append(late)
        assert b"503 Service Unavailable" in read_until(late, b"}")
        crowd[0].sendall(HEALTH)
        assert b"204" in read_until(crowd[0], b"\r\n\r\n")
    finally:
        for connection in crowd:
            connection.close()
