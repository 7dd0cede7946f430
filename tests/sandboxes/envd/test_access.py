"""Who may call what: bootstrap token, access token, signed file URLs."""

from __future__ import annotations

import hashlib
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from e2b import AuthenticationException

from tests.sandboxes.envd.conftest import StartDaemon
from tests.sandboxes.envd.daemon import TOKEN, Daemon

BOOTSTRAP = "the-bootstrap-token"
DIGEST = hashlib.sha256(BOOTSTRAP.encode()).hexdigest()
BEARER = f"Bearer {BOOTSTRAP}"


@pytest.fixture(scope="module")
def secured(daemons: StartDaemon) -> Daemon:
    daemon = daemons(ENVD_BOOTSTRAP_SHA256=DIGEST)
    armed = daemon.request("POST", "/init", f'{{"accessToken":"{TOKEN}"}}', Authorization=BEARER)
    assert (armed.status, armed.headers["X-Envd-Version"]) == (204, "0.5.7")
    daemon.token = TOKEN
    return daemon


@pytest.fixture(scope="module")
def unclaimed(daemons: StartDaemon) -> Daemon:
    return daemons(ENVD_BOOTSTRAP_SHA256=DIGEST)


@pytest.mark.parametrize("authorization", ["", "Bearer wrong", f"Basic {BOOTSTRAP}", BOOTSTRAP, f"Bearer {DIGEST}"])
def test_init_needs_the_bootstrap_token(secured: Daemon, authorization: str) -> None:
    answer = secured.request("POST", "/init", "{}", Authorization=authorization)
    assert (answer.status, answer.json["code"]) == (401, 401)


def test_init_may_be_repeated_and_keeps_what_it_does_not_name(secured: Daemon) -> None:
    body = f'{{"envVars":{{"A":"1"}},"deadline":{time.time() + 600}}}'
    assert secured.request("POST", "/init", body, Authorization=BEARER).status == 204
    assert secured.request("POST", "/init", '{"timestamp":"2026-11-29T00:00:00Z"}', Authorization=BEARER).status == 204
    assert secured.request("GET", "/envs").json == {"A": "1"}
    assert secured.sdk().commands.run("echo $A").stdout == "1\n"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ("[]", "object"),
        ("{", "JSON"),
        ('{"envVars":{"A":1}}', "envVars.A"),
        ('{"envVars":{"A=B":"1"}}', "envVars"),
        ('{"envVars":[]}', "envVars"),
        ('{"accessToken":1}', "accessToken"),
        ('{"deadline":"soon"}', "deadline"),
        ('{"deadline":true}', "deadline"),
        ('{"deadline":NaN}', "JSON"),
        ('{"defaultUser":{}}', "defaultUser"),
        ('{"defaultWorkdir":"relative"}', "defaultWorkdir"),
    ],
)
def test_a_bad_init_names_the_field_and_changes_nothing(secured: Daemon, body: str, field: str) -> None:
    answer = secured.request("POST", "/init", body, Authorization=BEARER)
    assert answer.status == 400
    assert field in answer.json["message"]
    assert secured.sdk().commands.run("true").exit_code == 0


CALLS = [
    ("GET", "/envs"),
    ("GET", "/metrics"),
    ("POST", "/files/compose"),
    ("GET", "/files?path=x"),
    ("POST", "/files?path=x"),
    ("POST", "/process.Process/List"),
    ("POST", "/process.Process/Start"),
    ("POST", "/filesystem.Filesystem/Stat"),
    ("POST", "/filesystem.Filesystem/CreateWatcher"),
    ("GET", "/nothing"),
]


@pytest.mark.parametrize("token", ["", "wrong", TOKEN + "x", "é"])
@pytest.mark.parametrize(("method", "path"), CALLS)
def test_everything_else_needs_the_access_token(secured: Daemon, method: str, path: str, token: str) -> None:
    answer = secured.request(method, path, X_Access_Token=token)
    assert (answer.status, answer.json["code"]) == (401, 401)


@pytest.mark.parametrize(("method", "path"), CALLS)
def test_before_its_claim_a_sandbox_serves_nobody(unclaimed: Daemon, method: str, path: str) -> None:
    for token in ("", "any"):
        answer = unclaimed.request(method, path, X_Access_Token=token)
        assert (answer.status, answer.json["message"]) == (401, "this sandbox is not claimed yet")
    assert unclaimed.request("GET", "/health").status == 204


def test_health_and_preflights_are_open(secured: Daemon) -> None:
    assert secured.request("GET", "/health", X_Access_Token="").status == 204
    preflight = secured.request(
        "OPTIONS", "/files", Origin="https://it", Access_Control_Request_Headers="x-access-token"
    )
    assert preflight.headers["Access-Control-Allow-Headers"] == "x-access-token"
    assert preflight.headers["Access-Control-Allow-Origin"] == "*"


def test_the_sdk_is_let_in_with_the_token_and_kept_out_without(secured: Daemon) -> None:
    files = secured.sdk().files
    files.write("secured.txt", "content")
    assert files.read("secured.txt") == "content"
    secured.token = "wrong"
    try:
        with pytest.raises(AuthenticationException):
            secured.sdk().files.read("secured.txt")
    finally:
        secured.token = TOKEN


def fetch(url: str, data: bytes | None = None, **headers: str) -> tuple[int, bytes]:
    request = urllib.request.Request(url, data, headers)
    try:
        with urllib.request.urlopen(request, timeout=10) as response:
            return response.status, response.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


def test_signed_urls_work_without_a_header(secured: Daemon) -> None:
    sandbox = secured.sdk()
    sandbox.files.write("a file+.txt", "content")
    assert fetch(sandbox.download_url("a file+.txt")) == (200, b"content")
    assert fetch(sandbox.download_url("a file+.txt", use_signature_expiration=60)) == (200, b"content")
    kind = {"Content-Type": "application/octet-stream"}
    assert fetch(sandbox.upload_url("new.txt", use_signature_expiration=60), b"new", **kind)[0] == 200
    assert sandbox.files.read("new.txt") == "new"


def test_a_signature_is_for_one_path_one_operation_and_its_time(secured: Daemon) -> None:
    sandbox = secured.sdk()
    sandbox.files.write("signed.txt", "content")
    url = sandbox.download_url("signed.txt", use_signature_expiration=60)
    expired = fetch(sandbox.download_url("signed.txt", use_signature_expiration=-60))
    assert expired == (401, b'{"code":401,"message":"signature is already expired"}')
    assert fetch(url.replace("path=signed.txt", "path=other.txt"))[0] == 401
    assert fetch(url, b"x", **{"Content-Type": "application/octet-stream"})[0] == 401
    assert fetch(url + "0")[0] == 401
    assert fetch(url.partition("&signature_expiration")[0])[0] == 401
    assert fetch(url, **{"X-Access-Token": "wrong"})[0] == 401


def test_the_user_named_by_init_is_the_default(start_envd: StartDaemon) -> None:
    daemon = start_envd()
    own = daemon.sdk().commands.run("id -un").stdout
    assert daemon.init(defaultUser="no-such-user", defaultWorkdir="/usr/share").status == 204
    result = daemon.sdk().commands.run("pwd; id -u").stdout.split()
    assert (result[0], result[1]) == ("/usr/share", str(daemon_uid(daemon)))
    assert daemon.init(defaultUser=own.strip()).status == 204
    assert daemon.sdk().commands.run("id -un").stdout == own


def daemon_uid(daemon: Daemon) -> int:
    return Path(f"/proc/{daemon.process.pid}").stat().st_uid
