"""Programs that the machine has to have, and root: one sentence names what is missing and how to get it."""

from __future__ import annotations

import os
import shutil
import struct
from pathlib import Path

from console.up.problem import Problem

LOADER = 3
"""PT_INTERP, the kind of an ELF program header."""
CNI = Path("/usr/lib/cni")
GO_FOLDER = Path("/usr/local/go/bin")
"""Go's own archive goes there, and few shells look there."""
ADMIN_PATH = ":/usr/local/sbin:/usr/sbin:/sbin"
"""Where administrators' programs are, even if a shell does not look there."""
PACKAGES = {
    "containerd": "containerd",
    "runc": "runc",
    "docker-registry": "docker-registry",
    "ip": "iproute2",
    "openssl": "openssl",
    "busybox": "busybox-static",
}
GO = "Go is not installed, and the cluster is built from source: install Go 1.26 or newer (https://go.dev/dl/), or set "
GO += "KUBEBUILDER_ASSETS to a folder that has {missing}."


def path() -> str:
    return os.environ.get("PATH", os.defpath) + ADMIN_PATH


def find(program: str) -> str | None:
    return shutil.which(program, path=path())


def program(name: str) -> str:
    """Its path, after `check` has found it."""
    return find(name) or name


def check_root() -> None:
    if os.geteuid() != 0:
        raise Problem(
            "A real Kubernetes needs root, for it mounts and makes networks: run it with sudo, "
            "or use `make run`, whose cluster does not."
        )


def check() -> None:
    """Everything that `up` needs beside what is built."""
    check_root()
    if missing := missing_packages():
        packages = " ".join(missing)
        raise Problem(f"Programs of the packages {packages} are missing: apt-get install {packages}")


def missing_packages() -> list[str]:
    missing = [package for name, package in PACKAGES.items() if find(name) is None]
    if not all((CNI / plugin).exists() for plugin in ("bridge", "host-local", "loopback")):
        missing.append("containernetworking-plugins")
    busybox = find("busybox")
    if busybox and needs_libraries(Path(busybox).read_bytes()):  # our images have none
        missing.append(PACKAGES["busybox"])
    return sorted(missing)


def needs_libraries(program: bytes) -> bool:
    """Whether a 64-bit ELF file names a loader."""
    if program[:5] != b"\x7fELF\x02":
        return False
    (offset,) = struct.unpack_from("<Q", program, 0x20)
    size, count = struct.unpack_from("<HH", program, 0x36)
    kinds = [struct.unpack_from("<I", program, offset + index * size)[0] for index in range(count)]
    return LOADER in kinds


def go(missing: list[str]) -> str:
    """The path of Go, to build `missing`."""
    found = find("go") or shutil.which(GO_FOLDER / "go")
    if found is None:
        raise Problem(GO.format(missing=", ".join(missing)))
    return found
