"""The images that the tests on a real cluster run, made of this machine's own files and pushed to a registry.

Nothing is downloaded. `python -m tests.kubernetes.images REGISTRY` pushes all and prints their names.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

from deploy.demo_image import debian, users
from deploy.envd.carrier import carrier
from deploy.envd.pack import pack
from deploy.oci.image import Image, Layer, image
from deploy.oci.registry import push

BUSYBOX = Path("/bin/busybox")
"""Of Debian's package busybox-static."""


@dataclass(frozen=True)
class Images:
    """Names by digest. Each image says in /etc/image which it is, and has that word in its PATH."""

    envd: str
    """Carries the pack; an init container runs `/opt/agentbox/bin/envd install FOLDER` in it."""
    busybox: str
    """One static program under many names: no C library, no bash, no users. It runs as root."""
    nonroot: str
    """The same with users, running as `agent` (1001)."""
    read_only: str
    """The same without any folder that all may write; for Pods with `readOnlyRootFilesystem`."""
    debian: str
    """Debian's C library, bash, coreutils, Python and git, with a user `user` (1000). It runs as root."""


def push_all(registry: str) -> Images:
    """To `registry` (host:port), in a few seconds."""
    with tempfile.TemporaryDirectory() as folder:
        pack(Path(folder))
        made = {"envd": carrier(Path(folder))}
    made |= {
        "busybox": busybox("busybox"),
        "nonroot": busybox("nonroot", users(), User="agent"),
        "read_only": busybox("read_only", users(), writable=False),
        "debian": named("debian", debian(), users()),
    }
    return Images(**{name: push(each, f"{registry}/test/{name}:1") for name, each in made.items()})


def busybox(name: str, *more: Layer, writable: bool = True, **run: str) -> Image:
    """An image `name` with busybox; tests may make others, for example to update a Pod to."""
    layer = Layer()
    layer.file("bin/busybox", BUSYBOX.read_bytes(), 0o755)
    applets = subprocess.run([BUSYBOX, "--list"], capture_output=True, text=True, timeout=30, check=True).stdout.split()
    for applet in sorted(set(applets) - {"busybox"}):
        layer.link(f"bin/{applet}", "busybox")
    if writable:
        layer.folder("tmp", 0o1777)
    return named(name, layer, *more, **run)


def named(name: str, *layers: Layer, **run: str) -> Image:
    mark = Layer()
    mark.file("etc/image", f"{name}\n".encode())
    return image(*layers, mark, Env=[f"PATH=/{name}:/usr/local/bin:/usr/bin:/bin"], **run)


if __name__ == "__main__":
    for name, reference in asdict(push_all(sys.argv[1])).items():
        print(f"{name:10} {reference}")  # noqa: T201
