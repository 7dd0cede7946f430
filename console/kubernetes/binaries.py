"""Which programs are built, and where they are found: in KUBEBUILDER_ASSETS, or in a cache keyed by what they are."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from console.up.options import ROOT


@dataclass(frozen=True)
class Module:
    """A Go module that pins programs as its tools. `packages`: by the program's name."""

    folder: Path
    packages: dict[str, str]


KUBERNETES = Module(
    ROOT / "deploy" / "singlenode",
    {
        "etcd": "go.etcd.io/etcd/server/v3",
        "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
        "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
        "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
        "kubelet": "k8s.io/kubernetes/cmd/kubelet",
        "kubectl": "k8s.io/kubernetes/cmd/kubectl",
    },
)
KWOK = Module(KUBERNETES.folder / "kwok", {"kwok": "sigs.k8s.io/kwok/cmd/kwok"})
"""Plays nodes without machines, for tests. A module of its own, because it needs newer Kubernetes libraries."""


@dataclass(frozen=True)
class Binaries:
    """`given` (may be None) is looked in first."""

    built: Path
    given: Path | None
    module: Module = KUBERNETES

    def path(self, name: str) -> Path:
        if self.given and is_program(self.given / name):
            return self.given / name
        return self.built / name

    def missing(self) -> list[str]:
        return [name for name in self.module.packages if not is_program(self.path(name))]


def given() -> Path | None:
    folder = os.environ.get("KUBEBUILDER_ASSETS", "")
    return Path(folder).absolute() if folder else None


def cache() -> Path:
    """Outside the tree, for it is large and every checkout can use it."""
    own = os.environ.get("AGENTBOX_CACHE", "")
    general = os.environ.get("XDG_CACHE_HOME", "")
    return Path(own).absolute() if own else (Path(general) if general else Path.home() / ".cache") / "agentbox"


def built_folder(module: Module, go_version: str) -> Path:
    pinned = (module.folder / "go.sum").read_bytes()
    return cache() / "kubernetes" / hashlib.sha256(pinned + go_version.encode()).hexdigest()[:16]


def is_program(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


def kubernetes_version() -> str:
    """As pinned in go.mod, such as v1.34.4."""
    lines = (KUBERNETES.folder / "go.mod").read_text().splitlines()
    words = next(line.split() for line in lines if line.split()[:1] == ["k8s.io/kubernetes"])
    return words[1]
