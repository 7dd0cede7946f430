"""localkube as a program: flags, restarts, kill -9, ordinary users, no isolation."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests import localkube_process

from .conftest import FLAGS, MOUNT, PODS, PYTHON, Kube, container_state, wait_for

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
ORDINARY_USER = 54321


def processes_of(marker: str) -> list[int]:
    found = psutil.process_iter(["cmdline", "pid"])
    return [each.info["pid"] for each in found if (each.info["cmdline"] or [""])[-1] == marker]


@pytest.mark.namespaces
@pytest.mark.parametrize("how", ["stop", "kill"])
def test_nothing_survives_localkube(start_kube, how: str) -> None:
    kube, marker = start_kube(), f"1234{os.getpid()}.5"
    kube.create("a", command=["sh", "-c", f"setsid sleep {marker} & exec sleep {marker}"])
    wait_for(lambda: processes_of(marker), lambda found: len(found) == 2)
    getattr(kube.process, how)()
    wait_for(lambda: processes_of(marker), lambda found: found == [])


@pytest.mark.namespaces
def test_a_restart_after_kill_begins_empty_and_is_another_cluster(start_kube) -> None:
    system = "/api/v1/namespaces/kube-system"
    first = start_kube()
    first.create("a")
    first.ready("a")
    uid = first.call("GET", system)["metadata"]["uid"]
    first.process.kill()
    second = start_kube()
    assert second.names() == []
    assert second.call("GET", system)["metadata"]["uid"] != uid
    assert second.process.token == first.process.token
    assert not list((second.process.kubeconfig.parent / "state" / "logs").glob("*"))
    second.create("a")
    second.ready("a")


@pytest.mark.namespaces
def test_a_port_that_is_taken_is_told_in_a_sentence(start_kube) -> None:
    port = start_kube("one").process.url.rpartition(":")[2]
    with pytest.raises(RuntimeError, match=f"cannot listen on port {port}"):
        start_kube("two", port=port)


def test_bad_flags_are_told_in_a_sentence(tmp_path: Path) -> None:
    for flags, words in (
        ({"mount": ["/nowhere:/x"]}, "an existing path"),
        ({"mount": ["/usr:/usr/not/there"]}, "must exist on this machine"),
        ({"simulate": ["color=red"]}, "no such setting"),
    ):
        with pytest.raises(RuntimeError, match=words):
            localkube_process.start(tmp_path, **flags)


@pytest.fixture
def user_folder() -> Iterator[Path]:
    """A folder of an ordinary user's."""
    folder = Path(tempfile.mkdtemp(prefix="localkube-user-"))
    if os.geteuid() == 0:
        os.chown(folder, ORDINARY_USER, ORDINARY_USER)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def as_ordinary_user() -> list[str]:
    return [sys.executable, str(HERE / "as_user.py"), str(ORDINARY_USER)] if os.geteuid() == 0 else []


@pytest.mark.namespaces
def test_an_ordinary_user_runs_pods_too(user_folder: Path) -> None:
    with localkube_process.start(user_folder, before=as_ordinary_user(), **FLAGS) as process:
        kube = Kube(process)
        kube.create("mine")
        kube.ready("mine")
        assert kube.run("mine", "id", "-un") in ("user\n", "root\n")
        assert kube.run("mine", "sh", "-c", "touch /home/user/x /tmp/x && echo fine") == "fine\n"
        assert "Read-only" in kube.run("mine", "sh", "-c", "touch /usr/x /dev/x")
        assert kube.run("mine", "ls", "/home") == "user\n"
        pty = "import os, pty; a, b = pty.openpty(); print(os.isatty(b))"
        assert kube.run("mine", PYTHON, "-S", "-c", pty) == "True\n"
        kube.delete("mine")
        kube.gone("mine")


@pytest.fixture
def forbidding() -> list[str]:
    """A command prefix under which the kernel allows no namespaces."""
    code = (
        "import os, sys; from pathlib import Path; os.unshare(os.CLONE_NEWUSER); "
        "Path('/proc/self/setgroups').write_text('deny'); "
        f"Path('/proc/self/uid_map').write_text('0 {os.geteuid()} 1'); "
        f"Path('/proc/self/gid_map').write_text('0 {os.getegid()} 1'); "
        "Path('/proc/sys/user/max_user_namespaces').write_text('0'); "
        "Path('/proc/sys/user/max_mnt_namespaces').write_text('0'); os.execvp(sys.argv[1], sys.argv[1:])"
    )
    return [sys.executable, "-c", code]


@pytest.mark.namespaces
def test_without_namespaces_pods_are_refused_with_the_way_out(tmp_path: Path, forbidding: list[str]) -> None:
    with localkube_process.start(tmp_path, before=forbidding, **FLAGS) as process:
        kube = Kube(process)
        assert "--unsafe-pods" in process.log.read_text()
        kube.create("a")
        pod = wait_for(lambda: kube.pod("a"), lambda pod: "CreateContainerError" in json.dumps(container_state(pod)))
        assert "--unsafe-pods" in container_state(pod)["waiting"]["message"]


@pytest.mark.namespaces
def test_unsafe_pods_run_bare(tmp_path: Path, forbidding: list[str]) -> None:
    with localkube_process.start(tmp_path, before=forbidding, unsafe_pods=True, **FLAGS) as process:
        kube = Kube(process)
        kube.create("bare")
        kube.ready("bare")
        assert kube.run("bare", "sh", "-c", "echo $HOSTNAME") == "bare\n"
        kube.delete("bare")
        kube.gone("bare")


def test_an_open_socket_can_be_handed_over(tmp_path: Path) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as listener:
        kubeconfig = tmp_path / "kubeconfig"
        place = ["--state", str(tmp_path / "state"), "--kubeconfig", str(kubeconfig), "--fd", str(listener.fileno())]
        command = [sys.executable, "-m", "sandboxes.localkube", *place, "--node-name", "", "--mount", MOUNT]
        with subprocess.Popen(command, cwd=ROOT, pass_fds=[listener.fileno()], stderr=subprocess.DEVNULL) as process:
            wait_for(kubeconfig.exists, bool)
            assert f":{listener.getsockname()[1]}/" in kubeconfig.read_text()
            process.terminate()
    assert PODS
