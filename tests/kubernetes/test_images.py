"""envd as the product brings it, in Pods of real images: without a C library, a shell, users or a writable root."""

from __future__ import annotations

import hashlib
import json
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from e2b import CommandExitException, PtySize, Sandbox

from sandboxes.cluster.manifest import PodSpec, manifest
from tests.kubernetes.images import Images, push_all
from tests.kubernetes.single_node import SingleNode, is_ready, until
from tests.sandboxes.envd.daemon import Daemon

PORT = 49983
BOOTSTRAP = "the-bootstrap-token"
TOKEN = "the-access-token"
ENVD = ["/opt/agentbox/bin/envd"]
SCRATCH = {"volumes": [{"name": "tmp", "emptyDir": {}}], "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}]}


class PodEnvd(Daemon):
    """Only its SDK is used."""

    def __init__(self, address: str) -> None:
        self.url = f"http://{address}:{PORT}"
        self.token = TOKEN


@pytest.fixture(scope="module")
def images(cluster: SingleNode) -> Images:
    return push_all(cluster.registry)


@contextmanager
def sandbox(cluster: SingleNode, images: Images, name: str, read_only: bool = False) -> Iterator[Sandbox]:
    pod = "sb-" + name.replace("_", "-")
    body = manifest(spec_of(pod, getattr(images, name), images.envd, SCRATCH if read_only else {}))
    body["spec"]["containers"][0]["securityContext"]["readOnlyRootFilesystem"] = read_only
    cluster.client.call("POST", cluster.client.pods, body=body)
    try:
        until(lambda: is_ready(cluster.pod(pod)), f"Pod {pod} is Ready")
        address = cluster.pod(pod)["status"]["podIP"]
        arm(address)
        yield PodEnvd(address).sdk()
    finally:
        cluster.delete_pod(pod)


def spec_of(name: str, image: str, envd_image: str, template: dict[str, Any]) -> PodSpec:
    return PodSpec(
        name=name, sandbox_id=name, team="t", env="e", pool="p", image=image, cpu_millis=200, memory_mib=128,
        bootstrap_digest=hashlib.sha256(BOOTSTRAP.encode()).hexdigest(), command=ENVD, envd_port=PORT,
        envd_image=envd_image, envd_install=[*ENVD, "install", "/target"], template=template,
    )  # fmt: skip


def arm(address: str) -> None:
    headers = {"Authorization": f"Bearer {BOOTSTRAP}", "Content-Type": "application/json"}
    body = json.dumps({"accessToken": TOKEN}).encode()
    urllib.request.urlopen(urllib.request.Request(f"http://{address}:{PORT}/init", body, headers), timeout=5).close()


def works(sandbox: Sandbox) -> None:
    """What an episode does: commands, files, something in the background, a terminal."""
    sandbox.files.write("/tmp/folder/file", "content")
    assert sandbox.commands.run("cat /tmp/folder/file").stdout == "content"
    sleeping = sandbox.commands.run("sleep 60", background=True)
    assert sleeping.pid in [process.pid for process in sandbox.commands.list()]
    assert sleeping.kill()
    seen: list[bytes] = []
    terminal = sandbox.pty.create(PtySize(rows=10, cols=20), timeout=20)
    sandbox.pty.send_stdin(terminal.pid, b"stty size; exit\n")
    terminal.wait(on_pty=seen.append)
    assert b"10 20" in b"".join(seen)


def is_its_own(sandbox: Sandbox, name: str) -> None:
    """The image's PATH, none of envd's variables or libraries, and its memory within bounds."""
    assert sandbox.commands.run("cat /etc/image").stdout.strip() == name
    variables = dict(line.split("=", 1) for line in sandbox.commands.run("env").stdout.splitlines())
    assert variables.pop("PATH").startswith(f"/{name}:")
    assert {*variables} <= {"HOME", "USER", "LOGNAME", "PWD", "SHLVL", "OLDPWD", "_"}
    assert "/opt/agentbox" not in sandbox.commands.run("cat /proc/self/maps").stdout
    assert sandbox.commands.run("cat /proc/1/comm").stdout == "envd\n"


def test_busybox_alone_is_enough(cluster: SingleNode, images: Images) -> None:
    with sandbox(cluster, images, "busybox") as it:
        works(it)
        is_its_own(it, "busybox")
        assert it.commands.run("id -u").stdout == "0\n"


def test_an_image_whose_user_is_not_root(cluster: SingleNode, images: Images) -> None:
    with sandbox(cluster, images, "nonroot") as it:
        works(it)
        is_its_own(it, "nonroot")
        assert it.commands.run("id -un; pwd").stdout.split() == ["agent", "/home/agent"]


def test_a_root_file_system_that_is_read_only(cluster: SingleNode, images: Images) -> None:
    with sandbox(cluster, images, "read_only", read_only=True) as it:
        works(it)
        is_its_own(it, "read_only")
        with pytest.raises(CommandExitException, match="Read-only file system"):
            it.commands.run("touch /file")


def test_debian_with_its_own_python_and_git(cluster: SingleNode, images: Images) -> None:
    with sandbox(cluster, images, "debian") as it:
        works(it)
        is_its_own(it, "debian")
        assert it.commands.run("python3 -c 'import sys; print(sys.executable)'").stdout == "/usr/bin/python3\n"
        commit = "git -c user.name=a -c user.email=b commit -q --allow-empty -m first"
        assert "first" in it.commands.run(f"git init -q /tmp/r && cd /tmp/r && {commit} && git log --oneline").stdout
