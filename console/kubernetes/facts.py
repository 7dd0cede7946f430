"""What a running cluster says about itself: a file for programs, `status` and a summary for people."""

from __future__ import annotations

import os

from . import binaries as pinned
from .binaries import Binaries
from .place import NAMESPACE, NODE, Place, Ports


def facts(binaries: Binaries, place: Place, ports: Ports) -> dict[str, str]:
    return {
        "pid": str(os.getpid()),
        "version": pinned.kubernetes_version(),
        "kubeconfig": str(place.kubeconfig),
        "api": f"https://127.0.0.1:{ports.api}",
        "registry": f"127.0.0.1:{ports.registry}",
        "node": NODE,
        "namespace": NAMESPACE,
        "etcd": f"https://127.0.0.1:{ports.etcd}",
        "pki": str(place.pki),
        "containerd": str(place.containerd_socket),
        "kubectl": str(binaries.path("kubectl")),
        "logs": str(place.logs),
    }


def summary(known: dict[str, str]) -> str:
    return f"""
  Kubernetes {known["version"]} runs on this machine, with one node.

    export KUBECONFIG={known["kubeconfig"]}
    {known["kubectl"]} get nodes

    Registry  {known["registry"]}   images pushed there are pulled by their name without a host, too
    Logs      {known["logs"]}

  Stop it with `manage.py kubernetes down`, or Ctrl-C where it runs in the foreground.
"""
