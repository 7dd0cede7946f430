"""What a person may choose, and where everything lies below `var/`."""

from __future__ import annotations

import argparse
import os
from dataclasses import dataclass, field
from pathlib import Path

from console.kubernetes.place import Place

from .problem import Problem

ROOT = Path(__file__).resolve().parent.parent.parent


@dataclass(frozen=True)
class Options:
    """`port` is the web's; the edge has the next one. An empty URL or path means: we run that ourselves."""

    port: int
    var: Path
    database_url: str = ""
    redis_url: str = ""
    kubeconfig: str = ""
    unsafe_pods: bool = False
    single_node: bool = False
    """Run a real Kubernetes of one node (console.kubernetes) in localkube's place."""
    localkube: tuple[str, ...] = field(default=())
    """More arguments for localkube, such as simulated nodes."""

    @property
    def edge_port(self) -> int:
        return self.port + 1

    @property
    def web_url(self) -> str:
        return f"http://localhost:{self.port}"

    @property
    def edge_url(self) -> str:
        return f"http://localhost:{self.edge_port}"

    @property
    def postgresql(self) -> Path:
        return self.var / "postgresql"

    @property
    def valkey(self) -> Path:
        return self.var / "valkey"

    @property
    def local_kubeconfig(self) -> Path:
        return self.var / "kubeconfig"

    @property
    def single_node_state(self) -> Path:
        return single_node_place(self.var).state

    @property
    def people_kubeconfig(self) -> str:
        """For kubectl in another terminal; on a cluster of our own we ourselves have fewer rights."""
        if self.single_node:
            return str(single_node_place(self.var).kubeconfig)
        return self.kubeconfig or str(self.local_kubeconfig)

    @property
    def pid_files(self) -> Path:
        return self.var / "run"


def read(arguments: list[str]) -> Options:
    """The options of a command line and the environment."""
    parser = argparse.ArgumentParser(prog="manage.py up", description="Start all of AgentBox on this machine.")
    parser.add_argument("--port", default=os.environ.get("PORT") or "8000", help="the web's; the edge gets the next")
    parser.add_argument("--unsafe-pods", action="store_true", help="run sandboxes as plain processes, not isolated")
    cluster = os.environ.get("CLUSTER") or "localkube"
    parser.add_argument("--cluster", default=cluster, help="localkube, or kubernetes: a real one on this machine")
    chosen, for_localkube = parser.parse_known_args(arguments)
    var = Path(os.environ.get("AGENTBOX_VAR") or ROOT / "var").absolute()
    single_node = is_single_node(chosen.cluster)
    return Options(
        port=port_number(chosen.port),
        var=var,
        database_url=os.environ.get("DATABASE_URL", ""),
        redis_url=os.environ.get("REDIS_URL", ""),
        kubeconfig=str(single_node_place(var).product_kubeconfig) if single_node else foreign_kubeconfig(var),
        unsafe_pods=chosen.unsafe_pods,
        single_node=single_node,
        localkube=tuple(for_localkube),
    )


def port_number(text: str) -> int:
    if not text.isdigit() or not 1 <= int(text) <= 65534:
        raise Problem(f"PORT={text!r} is no port number: choose one from 1 to 65534, for example PORT=8000.")
    return int(text)


def is_single_node(cluster: str) -> bool:
    if cluster not in {"localkube", "kubernetes"}:
        raise Problem(
            f"CLUSTER={cluster!r} is not known: choose localkube or kubernetes, or set KUBECONFIG to your own."
        )
    return cluster == "kubernetes"


def single_node_place(var: Path) -> Place:
    return Place(var / "kubernetes")


def foreign_kubeconfig(var: Path) -> str:
    """KUBECONFIG, unless it is one that we write: a shell that sourced `demo.env` has that."""
    path = os.environ.get("KUBECONFIG", "")
    ours = {var / "kubeconfig", single_node_place(var).kubeconfig}
    return "" if path and Path(path).absolute() in ours else path
