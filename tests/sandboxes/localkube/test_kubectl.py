"""kubectl as people use it."""

import os
import subprocess

import pytest

from .conftest import SIMULATED, Kube


def run(kubectl: str, kube: Kube, *words: str, code: int = 0, given: str | None = None) -> str:
    config = kube.process.kubeconfig
    environment = {**os.environ, "KUBECONFIG": str(config), "HOME": str(config.parent)}
    options = {"env": environment, "input": given, "capture_output": True, "text": True, "timeout": 30}
    done = subprocess.run([kubectl, *words], check=False, **options)
    assert done.returncode == code, done.stderr
    return done.stdout


def test_kubectl_lists_and_describes(kubectl: str, kube: Kube) -> None:
    kube.create("seen", nodeSelector=SIMULATED)
    kube.ready("seen")
    assert run(kubectl, kube, "get", "pods").splitlines()[1].split()[:4] == ["seen", "1/1", "Running", "0"]
    assert "127." in run(kubectl, kube, "get", "pods", "-o", "wide")
    assert "here" in run(kubectl, kube, "get", "nodes")
    described = run(kubectl, kube, "describe", "pod", "seen")
    assert "Successfully assigned agentbox/seen" in described
    assert "Started" in run(kubectl, kube, "get", "events")


@pytest.mark.namespaces
def test_kubectl_reads_logs_runs_commands_and_deletes(kubectl: str, kube: Kube) -> None:
    kube.create("used")
    kube.ready("used")
    assert run(kubectl, kube, "logs", "used") == "serving\n"
    assert run(kubectl, kube, "exec", "used", "--", "sh", "-c", "echo hello; exit 5", code=5) == "hello\n"
    assert run(kubectl, kube, "exec", "-i", "used", "--", "cat", given="piped") == "piped"
    run(kubectl, kube, "wait", "--for=condition=Ready", "pod/used")
    assert "deleted" in run(kubectl, kube, "delete", "pod", "used")
    assert kube.names() == []
