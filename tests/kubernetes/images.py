"""The images that the tests on a real cluster run, made of this machine's own files and pushed to a registry.

Nothing is downloaded. `python -m tests.kubernetes.images REGISTRY` pushes all and prints their names.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from deploy.envd.carrier import carrier
from deploy.envd.image import Image, Layer, image
from deploy.envd.libraries import linked
from deploy.envd.pack import pack
from deploy.envd.problem import Problem
from deploy.envd.registry import push

BUSYBOX = Path("/bin/busybox")
PACKAGES = ["bash", "coreutils", "dash", "findutils", "git", "grep", "procps", "python3-minimal", "sed"]
"""With the packages of the Python that python3-minimal stands for, and the libraries that any of it is linked with."""
HOW_TO_GET_THEM = f"The test images are made of Debian packages: apt-get install busybox-static {' '.join(PACKAGES)}."
NOT_NEEDED = ("/usr/share/doc", "/usr/share/man", "/usr/share/locale", "/usr/share/info", "/usr/share/lintian")
NOT_NEEDED += ("/usr/lib/git-core/git-", "/usr/bin/git-shell", "/usr/bin/scalar")
"""The last are programs of git for servers, or links to git, which finds its commands without them."""
MERGED = ("bin", "lib", "lib64", "sbin")
AGENT = 1001
USERS = "root:x:0:0:root:/root:/bin/sh\nuser:x:1000:1000::/home/user:/bin/sh\nagent:x:1001:1001::/home/agent:/bin/sh\n"
GROUPS = "root:x:0:\nuser:x:1000:\nagent:x:1001:\n"


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
        "debian": debian(),
    }
    return Images(**{name: push(each, f"{registry}/test/{name}:1") for name, each in made.items()})


def busybox(name: str, *more: Layer, writable: bool = True, **run: str) -> Image:
    """An image `name` with busybox; tests may make others, for example to update a Pod to."""
    layer = Layer()
    layer.file("bin/busybox", read(BUSYBOX), 0o755)
    applets = output("busybox", "--list").split()
    for applet in sorted(set(applets) - {"busybox"}):
        layer.link(f"bin/{applet}", "busybox")
    if writable:
        layer.folder("tmp", 0o1777)
    return named(name, layer, *more, **run)


def named(name: str, *layers: Layer, **run: str) -> Image:
    mark = Layer()
    mark.file("etc/image", f"{name}\n".encode())
    return image(*layers, mark, Env=[f"PATH=/{name}:/usr/local/bin:/usr/bin:/bin"], **run)


def users() -> Layer:
    layer = Layer()
    layer.file("etc/passwd", USERS.encode())
    layer.file("etc/group", GROUPS.encode())
    layer.folder("root", 0o700)
    layer.folder("home/user", owner=1000)
    layer.folder("home/agent", owner=AGENT)
    return layer


def debian() -> Image:
    layer = Layer()
    for name in MERGED:
        layer.link(name, f"usr/{name}")
    layer.folder("tmp", 0o1777)
    files = sorted(set(packaged([*PACKAGES, *packages_of_python()])))
    for path in files:
        layer.copy(path, place(path))
    found = linked([path for path in files if is_program(path)])
    for path in sorted({found.loader, *found.libraries.values()}):
        layer.file(place(path), path.read_bytes(), 0o755)
    return named("debian", layer, users())


def packages_of_python() -> list[str]:
    python = Path("/usr/bin/python3").resolve().name
    return [f"{python}-minimal", f"lib{python}-minimal", f"lib{python}-stdlib"]


def packaged(names: Iterable[str]) -> Iterable[Path]:
    """Files and links of Debian packages that are installed here."""
    for line in output("dpkg", "--listfiles", *names).splitlines():
        path = Path(line)
        if line.startswith("/") and not line.startswith(NOT_NEEDED) and (path.is_symlink() or path.is_file()):
            yield path


def place(path: Path) -> str:
    """Packages still name /bin/bash, which lies in /usr/bin."""
    return str(path.parent.resolve() / path.name).lstrip("/")


def is_program(path: Path) -> bool:
    if path.is_symlink():
        return False
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        raise Problem(HOW_TO_GET_THEM) from error


def output(*command: str) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=30, check=True).stdout
    except (FileNotFoundError, subprocess.CalledProcessError) as error:
        raise Problem(HOW_TO_GET_THEM) from error


if __name__ == "__main__":
    for name, reference in asdict(push_all(sys.argv[1])).items():
        print(f"{name:10} {reference}")  # noqa: T201
