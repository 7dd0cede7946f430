"""What a Pod can reach: itself, and nothing of ours."""

import http.client
import os
import socket
from pathlib import Path

import pytest

from .conftest import PODS, PYTHON, Kube, wait_for

pytestmark = pytest.mark.namespaces
ROOT = Path(__file__).parents[3]


@pytest.fixture
def pod(kube: Kube) -> str:
    kube.create("cell")
    kube.ready("cell")
    return "cell"


def python(kube: Kube, pod: str, code: str) -> str:
    return kube.run(pod, PYTHON, "-S", "-c", code).strip()


def test_nothing_of_ours_is_visible(kube: Kube, pod: str, tmp_path: Path) -> None:
    paths = [str(ROOT), str(kube.process.kubeconfig), str(tmp_path), str(Path.home() / ".ssh"), "/var/lib/dpkg"]
    seen = python(kube, pod, f"import os; print([p for p in {paths!r} if os.path.exists(p)], os.listdir('/home'))")
    assert seen == "[] ['user']"
    processes = "import os; print(sorted(int(n) for n in os.listdir('/proc') if n.isdigit())[:1])"
    assert python(kube, pod, processes) == "[1]"
    assert "200000" not in python(kube, pod, "print(open('/etc/passwd').read())")


def test_secrets_and_programs_of_the_host_cannot_be_read_or_changed(kube: Kube, pod: str) -> None:
    assert python(kube, pod, "print(repr(open('/etc/shadow').read()))") == "''"
    for path in ("/usr/bin/x", "/etc/x", "/opt/python/x", "/dev/x", "/proc/sys/kernel/hostname"):
        assert "Read-only" in python(kube, pod, f"try: open({path!r}, 'w')\nexcept OSError as error: print(error)")


def test_home_and_tmp_are_private_and_writable(kube: Kube, pod: str) -> None:
    kube.create("neighbour")
    kube.ready("neighbour")
    for path in ("/home/user/mine", "/tmp/mine", "/root/mine", "/var/tmp/mine", "/dev/shm/mine", "/run/mine"):
        assert python(kube, pod, f"open({path!r}, 'w').write('x'); print('kept')") == "kept"
        assert python(kube, "neighbour", f"import os; print(os.path.exists({path!r}))") == "False"
        assert not Path(path).exists()


def test_a_process_has_few_powers_and_no_way_to_more(kube: Kube, pod: str) -> None:
    status = dict(line.split(":", 1) for line in kube.run(pod, "cat", "/proc/self/status").splitlines())
    assert int(status["CapEff"], 16) & (1 << 21) == 0, "CAP_SYS_ADMIN"
    assert status["NoNewPrivs"].strip() == "1"
    attempt = "import os\ntry: os.unshare(os.CLONE_NEWUSER)\nexcept OSError as error: print(error)"
    assert "No space" in python(kube, pod, attempt)


def test_sockets_of_the_host_are_out_of_reach(kube: Kube, pod: str, tmp_path: Path) -> None:
    port = int(kube.process.url.rpartition(":")[2])
    with socket.socket(socket.AF_UNIX) as by_path, socket.socket(socket.AF_UNIX) as by_name:
        by_path.bind(str(tmp_path / "s"))
        by_name.bind(f"\0localkube-test-{os.getpid()}")
        by_path.listen()
        by_name.listen()
        connect = "import socket\ntry: {}; print('reached')\nexcept OSError as error: print(error.strerror)"
        for call, answer in (
            (f"socket.create_connection(('127.0.0.1', {port}), 2)", "Connection refused"),
            (f"socket.socket(socket.AF_UNIX).connect({str(tmp_path / 's')!r})", "No such file or directory"),
            (f"socket.socket(socket.AF_UNIX).connect('\\0localkube-test-{os.getpid()}')", "Connection refused"),
        ):
            assert python(kube, pod, connect.format(call)) == answer


def test_two_pods_serve_the_same_port_and_do_not_reach_each_other(kube: Kube) -> None:
    code = "import http.server, os; os.chdir('/tmp'); open('who', 'w').write(os.environ['HOSTNAME']); "
    serve = [PYTHON, "-c", code + "http.server.test(http.server.SimpleHTTPRequestHandler, port=8000, bind='0.0.0.0')"]
    read = "import urllib.request as r; print(r.urlopen('http://127.0.0.1:8000/who', timeout=5).read().decode())"
    for name in ("left", "right"):
        kube.create(name, command=serve)
        kube.ready(name)
    for name in ("left", "right"):
        wait_for(lambda name=name: python(kube, name, read), lambda text, name=name: text == name)  # type: ignore[misc]
    address = kube.pod("right")["status"]["podIP"]
    attempt = f"import socket\ntry: socket.create_connection(({address!r}, 49983), 2)"
    assert python(kube, "left", f"{attempt}\nexcept OSError as error: print(error.strerror)") == "Connection refused"


def test_hidden_paths_stay_hidden_inside_mounts(start_kube, tmp_path: Path) -> None:
    (tmp_path / "given" / "secret").mkdir(parents=True)
    (tmp_path / "given" / "secret" / "key").write_text("x")
    (tmp_path / "given" / "open").write_text("seen")
    (tmp_path / "given" / "file").write_text("x")
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(0o755)
    given = tmp_path / "given"
    kube = start_kube(mount=[f"{given}:/srv/given"], hide=[given / "secret", given / "file"])
    kube.create("look", command=["sh", "-c", "cd /srv/given; cat open file; ls secret; touch new || sleep 100"])
    kube.ready("look")
    text = wait_for(lambda: kube.call_text(f"{PODS}/look/log"), lambda text: "Read-only" in text)
    assert text.startswith("seen")
    assert "key" not in text


def test_another_way_in_than_the_handed_over_socket_does_not_exist(kube: Kube, pod: str) -> None:
    address = kube.pod(pod)["status"]["podIP"]
    with pytest.raises(ConnectionRefusedError):
        http.client.HTTPConnection(address, 8000, timeout=2).connect()
