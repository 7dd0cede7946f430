"""Where everything of the cluster lies, and the names that it uses outside of its folder."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from console.up import ports

NAMESPACE = "agentbox"
NODE = "single"
CGROUP = "agentbox-kubernetes"
"""The cgroup above all Pods, at the root of each hierarchy."""


@dataclass(frozen=True)
class Ports:
    """All on loopback, but for the kubelet's, which is on the bridge's address."""

    api: int
    registry: int
    etcd: int
    etcd_peer: int
    etcd_health: int
    controllers: int
    scheduler: int
    kubelet: int
    kubelet_health: int


def choose_ports() -> Ports:
    """The usual numbers where they are free, so that addresses stay the same from start to start."""
    usual = Ports(6443, 5000, 2379, 2380, 2381, 10257, 10259, 10250, 10248)
    return Ports(**{name: ports.free(port) for name, port in asdict(usual).items()})


@dataclass(frozen=True)
class Place:
    """The state folder."""

    state: Path

    @property
    def pki(self) -> Path:
        return self.state / "pki"

    @property
    def kubeconfig(self) -> Path:
        """For the administrator."""
        return self.state / "kubeconfig"

    @property
    def product_kubeconfig(self) -> Path:
        """For AgentBox itself, once account.py made it."""
        return self.state / "agentbox.kubeconfig"

    @property
    def audit_policy(self) -> Path:
        return self.state / "audit.json"

    @property
    def audit_log(self) -> Path:
        return self.logs / "audit.log"

    @property
    def registry(self) -> Path:
        """Images that were pushed: the only thing that outlives a stop, with the logs."""
        return self.state / "registry"

    @property
    def logs(self) -> Path:
        return self.state / "logs"

    @property
    def pid_files(self) -> Path:
        return self.state / "run"

    @property
    def etcd(self) -> Path:
        return self.state / "etcd"

    @property
    def containerd(self) -> Path:
        return self.state / "containerd"

    @property
    def containerd_socket(self) -> Path:
        return self.containerd / "containerd.sock"

    @property
    def cni(self) -> Path:
        return self.state / "cni"

    @property
    def kubelet(self) -> Path:
        return self.state / "kubelet"

    @property
    def pod_logs(self) -> Path:
        return self.state / "pod-logs"

    @property
    def facts(self) -> Path:
        """JSON about the running cluster, there once it is ready."""
        return self.state / "cluster.json"

    @property
    def kernel(self) -> Path:
        """Kernel settings as they were before the kubelet changed them."""
        return self.state / "kernel.json"

    def known_facts(self) -> dict[str, str]:
        return dict(json.loads(self.facts.read_text())) if self.facts.exists() else {}
