"""The real cluster for tests: start and stop it as people do, run Pods on it, and look for what a stop left."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from console.kubernetes import cgroups
from console.kubernetes.network import BRIDGE
from deploy.oci import registry
from deploy.oci.image import Layer, image
from sandboxes.cluster.client import ClusterClient, connect
from tests.conftest import ROOT

COMMAND_LIMIT = 240.0
PAGE = "hello from a Pod\n"


@dataclass(frozen=True)
class SingleNode:
    """A running cluster. `facts` is what `manage.py kubernetes status` shows (console.kubernetes.facts)."""

    state: Path

    @functools.cached_property
    def facts(self) -> dict[str, str]:
        return dict(json.loads((self.state / "cluster.json").read_text()))

    @property
    def kubeconfig(self) -> str:
        return self.facts["kubeconfig"]

    @property
    def registry(self) -> str:
        return self.facts["registry"]

    @property
    def client(self) -> ClusterClient:
        return connect(self.kubeconfig, "agentbox")

    def pid(self, name: str) -> int:
        """Of a part (console.kubernetes.programs)."""
        return int(json.loads((self.state / "run" / f"{name}.pid").read_text())["pid"])

    def kubectl(self, *arguments: str) -> str:
        command = [self.facts["kubectl"], "--kubeconfig", self.kubeconfig, *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout

    def push_web_image(self, name: str = "tests/web") -> str:
        """An image of nothing but busybox that serves PAGE on port 8080."""
        busybox = Path(shutil.which("busybox") or "/bin/busybox").read_bytes()
        layer = Layer()
        layer.file("bin/busybox", busybox, 0o755)
        layer.link("bin/sh", "busybox")
        layer.file("www/index.html", PAGE.encode())
        serve = ["/bin/busybox", "httpd", "-f", "-p", "8080", "-h", "/www"]
        return registry.push(image(layer, Cmd=serve, Env=["PATH=/bin"]), f"{self.registry}/{name}:1")

    def run_pod(self, name: str, image: str) -> dict[str, Any]:
        """Create a Pod and wait until it is Ready."""
        container = {"name": "main", "image": image, "readinessProbe": PROBE}
        spec = {"containers": [container], "terminationGracePeriodSeconds": 0, "automountServiceAccountToken": False}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
        self.client.call("POST", self.client.pods, body=body)
        until(lambda: is_ready(self.pod(name)), f"Pod {name} is Ready")
        return self.pod(name)

    def pod(self, name: str) -> dict[str, Any]:
        return self.client.call("GET", f"{self.client.pods}/{name}")

    def delete_pod(self, name: str) -> None:
        self.client.delete(name)
        until(lambda: not self.client.exists(name), f"Pod {name} is gone")


PROBE = {"httpGet": {"port": 8080, "path": "/"}, "periodSeconds": 1}


def is_ready(pod: dict[str, Any]) -> bool:
    conditions = pod["status"].get("conditions", [])
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)


def until(condition: Callable[[], object], what: str, limit: float = 60) -> None:
    deadline = time.monotonic() + limit
    while not condition():
        assert time.monotonic() < deadline, f"not within {limit:g} s: {what}"
        time.sleep(0.02)


def get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=5) as answer:
        return str(answer.read().decode())


def manage(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "manage.py", "kubernetes", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=COMMAND_LIMIT)


def start(state: Path) -> SingleNode:
    done = manage("up", "--detach", "--state", str(state))
    assert done.returncode == 0, done.stdout + done.stderr
    return SingleNode(state)


@contextlib.contextmanager
def shared() -> Iterator[SingleNode]:
    """A new cluster, stopped at the end; or, for quick runs, the one that KUBERNETES_STATE names, left as it is.

    Its state folder is where `make run` has it below `var/`, so that AgentBox can be started on it.
    """
    if given := os.environ.get("KUBERNETES_STATE"):
        yield SingleNode(Path(given))
        return
    folder = Path(tempfile.mkdtemp(prefix="agentbox-kubernetes-"))
    yield start(folder / "kubernetes")
    done = manage("down")
    remains = left(folder)
    shutil.rmtree(folder)
    assert done.returncode == 0, done.stderr
    assert remains == []


def left(state: Path) -> list[str]:
    """Everything that a stop must not leave, in words."""
    found = [f"process {text}" for text in map(command_line, processes()) if str(state) in text or is_of_pod(text)]
    found += [f"mount {line}" for line in Path("/proc/self/mountinfo").read_text().splitlines() if str(state) in line]
    found += [f"cgroup {tree}" for tree in cgroups.trees()]
    links = [path.name for path in Path("/sys/class/net").iterdir()]
    found += [f"link {name}" for name in links if name == BRIDGE or name.startswith("veth")]
    for folder in ("/run/netns", "/run/containerd/s", "/var/lib/cni/results", "/var/log/containers"):
        found += [str(path) for path in Path(folder).glob("*")]
    return found


def processes() -> list[Path]:
    return [path for path in Path("/proc").iterdir() if path.name.isdigit()]


def command_line(process: Path) -> str:
    try:
        return (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def is_of_pod(text: str) -> bool:
    return "httpd -f -p 8080" in text or "sleep 2147483647" in text


def host_settings() -> dict[str, str]:
    """What the kernel is told, by sysctl and by packet filter."""
    files = ["net/ipv4/ip_forward", "vm/overcommit_memory", "kernel/panic", "kernel/panic_on_oops"]
    settings = {name: (Path("/proc/sys") / name).read_text() for name in files}
    for program in ("iptables-save", "nft"):
        if path := shutil.which(program, path="/usr/sbin:/sbin"):
            arguments = ["list", "ruleset"] if program == "nft" else []
            done = subprocess.run([path, *arguments], capture_output=True, text=True, timeout=10)
            rules = [line for line in done.stdout.splitlines() if not line.startswith("#")]
            settings[program] = "\n".join(rules)
    return settings
