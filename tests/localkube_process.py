"""Starts a localkube of its own for a test, on a free port. Plain Python: any suite may import it.

with localkube_process.start(tmp_path, image=["base"], simulated_nodes=2) as kube:
    kube.call("GET", "/api/v1/pods")
"""

import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
START_SECONDS = 30.0


class LocalKube:
    """A running localkube. `url` and `token` are for raw calls, `kubeconfig` for clients, `pid` for cruelty."""

    def __init__(self, process: subprocess.Popen[bytes], kubeconfig: Path, log: Path) -> None:
        self._process = process
        self.kubeconfig = kubeconfig
        self.log = log
        self.pid = process.pid
        config = json.loads(kubeconfig.read_text())
        self.token: str = config["users"][0]["user"]["token"]
        self.url: str = "/".join(config["clusters"][0]["cluster"]["server"].split("/")[:3])

    def call(self, method: str, path: str, body: Any = None, content_type: str = "application/json") -> Any:
        """One request; its JSON answer. urllib.error.HTTPError for a refusal."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": content_type}
        request = urllib.request.Request(self.url + path, data=data, method=method, headers=headers)
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.loads(answer.read() or b"null")

    def stop(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """As the kernel does when memory runs out: no time for anything."""
        self._process.kill()
        self._process.wait(20)

    def __enter__(self) -> "LocalKube":
        return self

    def __exit__(self, *_error: object) -> None:
        self.stop()


def start(state_dir: Path, *, before: Sequence[str] = (), **flags: Any) -> LocalKube:
    """Flags as keywords: `max_pods=5` is --max-pods 5, a list repeats its flag, True gives it without a value.

    `before` is a command in front (to run as another user). RuntimeError carries localkube's own words.
    """
    state_dir.mkdir(parents=True, exist_ok=True)
    kubeconfig, log = state_dir / "kubeconfig", state_dir / "localkube.log"
    kubeconfig.unlink(missing_ok=True)
    command = [*before, sys.executable, "-m", "sandboxes.localkube", "--state", str(state_dir / "state")]
    command += ["--kubeconfig", str(kubeconfig), *_words(flags)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with log.open("ab") as output:
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=output, stderr=output)
    deadline = time.monotonic() + START_SECONDS
    while not kubeconfig.exists():
        if process.poll() is not None or time.monotonic() > deadline:
            process.kill()
            process.wait(10)
            raise RuntimeError(f"localkube did not start: {log.read_text()}")
        time.sleep(0.02)
    return LocalKube(process, kubeconfig, log)


def _words(flags: dict[str, Any]) -> list[str]:
    words = []
    for name, value in flags.items():
        for each in value if isinstance(value, list | tuple) else [value]:
            words += [f"--{name.replace('_', '-')}", *([] if each is True else [str(each)])]
    return words
