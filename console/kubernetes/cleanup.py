"""The end of a cluster, also of one whose `up` was killed: nothing of it is left but pushed images and logs.

Everything is found from the outside (pid files, cgroups, mounts, names of ours), never by asking what has just ended.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from console.up import supervisor

from . import cgroups, kernel, mounts, network
from .place import Place

DISPOSABLE = ["pki", "etcd", "containerd", "cni", "kubelet", "pod-logs", "run", "*kubeconfig", "*.json"]
"""By name: a folder that was given with --state may have files of somebody else."""
LINKS = Path("/var/log/containers")
"""The kubelet puts links to its logs here, whatever we say."""


def clean(place: Place) -> list[str]:
    """Returns the names of programs that still ran. Does no harm if there is nothing."""
    if not place.state.is_dir():
        return []
    left = supervisor.clear(place.pid_files)
    cgroups.remove()
    remove_sockets(place)
    mounts.remove(place.state)
    network.remove()
    network.forget(place)
    kernel.restore(place)
    remove_files(place)
    return left


def remove_sockets(place: Place) -> None:
    """Each container's shim listens in /run/containerd, and notes where."""
    for note in place.containerd.glob("state/io.containerd.runtime.v2.task/*/*/address"):
        Path(note.read_text().strip().removeprefix("unix://")).unlink(missing_ok=True)


def remove_files(place: Place) -> None:
    for entry in [entry for pattern in DISPOSABLE for entry in place.state.glob(pattern)]:
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()
    for link in LINKS.glob("*.log"):
        if link.is_symlink() and link.readlink().is_relative_to(place.state):
            link.unlink()
