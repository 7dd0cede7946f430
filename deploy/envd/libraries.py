"""What a program needs at run time, by ldd: its dynamic loader and its shared libraries."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from deploy.oci.problem import Problem

LIBRARY = re.compile(r"^\t(\S+) => (/.+) \(0x", re.MULTILINE)
LOADER = re.compile(r"^\t(/\S+) \(0x", re.MULTILINE)
MISSING = re.compile(r"^\t(\S+) => not found", re.MULTILINE)


@dataclass(frozen=True)
class Linked:
    loader: Path
    libraries: dict[str, Path]
    """By the name under which the loader looks for each."""


def linked(binaries: list[Path]) -> Linked:
    try:
        done = subprocess.run(["ldd", *binaries], capture_output=True, text=True, timeout=60, check=False)
    except FileNotFoundError as error:
        raise Problem("Packing envd needs ldd, which comes with the C library (Debian: libc-bin).") from error
    if missing := MISSING.search(done.stdout):
        raise Problem(f"The library {missing[1]}, which Python needs, is not installed here.")
    loader = LOADER.search(done.stdout)
    if loader is None:
        raise Problem(f"{binaries[0]} is not linked dynamically, so it cannot be packed: use another Python.")
    return Linked(Path(loader[1]), {name: Path(path) for name, path in LIBRARY.findall(done.stdout)})
