"""The image of the demo's sandboxes on a real cluster: Debian's shell, Python and git, as they are on this machine.

On localkube a sandbox sees this machine's own programs; here it gets them by packages. Nothing is downloaded.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

from deploy.envd.libraries import linked

from .oci.image import Image, Layer, image
from .oci.problem import Problem

PACKAGES = ["bash", "coreutils", "dash", "findutils", "git", "grep", "procps", "python3-minimal", "sed"]
"""With the packages of the Python that python3-minimal stands for, and the libraries that any of it is linked with."""
HOW_TO_GET_THEM = "The sandboxes' image is made of Debian packages of this machine: apt-get install"
HOW_TO_GET_THEM = f"{HOW_TO_GET_THEM} {' '.join(PACKAGES).replace('python3-minimal', 'python3')}"
TEXTS = ("/usr/share/doc", "/usr/share/man", "/usr/share/locale", "/usr/share/info", "/usr/share/lintian")
PARTS_OF_GIT = ("/usr/lib/git-core/git-", "/usr/bin/git-shell", "/usr/bin/scalar")
"""Programs for servers, or links to git, which finds its commands without them."""
MERGED = ("bin", "lib", "lib64", "sbin")
USERS = "root:x:0:0:root:/root:/bin/sh\nuser:x:1000:1000::/home/user:/bin/sh\nagent:x:1001:1001::/home/agent:/bin/sh\n"
GROUPS = "root:x:0:\nuser:x:1000:\nagent:x:1001:\n"
LIMIT = 30.0


def demo_image() -> Image:
    """With a user `user` (1000), whose calls are the SDK's unless they name another; envd runs as root."""
    return image(debian(), users(), Env=["PATH=/usr/local/bin:/usr/bin:/bin"])


def debian() -> Layer:
    """A root file system, 100 MB. Problem if packages are not installed."""
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
    return layer


def users() -> Layer:
    layer = Layer()
    layer.file("etc/passwd", USERS.encode())
    layer.file("etc/group", GROUPS.encode())
    layer.folder("root", 0o700)
    layer.folder("home/user", owner=1000)
    layer.folder("home/agent", owner=1001)
    return layer


def packages_of_python() -> list[str]:
    python = Path("/usr/bin/python3").resolve().name
    return [f"{python}-minimal", f"lib{python}-minimal", f"lib{python}-stdlib"]


def packaged(names: Iterable[str]) -> Iterator[Path]:
    """Files and links of Debian packages that are installed here."""
    for line in listed(names).splitlines():
        path = Path(line)
        if line.startswith("/") and not line.startswith(TEXTS + PARTS_OF_GIT) and (path.is_symlink() or path.is_file()):
            yield path


def listed(names: Iterable[str]) -> str:
    command = ["dpkg", "--listfiles", *names]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=True).stdout
    except (FileNotFoundError, subprocess.CalledProcessError) as error:
        raise Problem(HOW_TO_GET_THEM) from error


def place(path: Path) -> str:
    """Packages still name /bin/bash, which lies in /usr/bin."""
    return str(path.parent.resolve() / path.name).lstrip("/")


def is_program(path: Path) -> bool:
    if path.is_symlink():
        return False
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"
