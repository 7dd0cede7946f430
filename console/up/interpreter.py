"""The Python that sandboxes of the first run see: this one, from elsewhere.

An interpreter with a shared library (pyenv may build such) looks for it at the absolute path of its installation, which
no sandbox sees. Its run path is made relative in a copy, and the copy is mounted in the original's place.
"""

from __future__ import annotations

import sys
from pathlib import Path

RELATIVE = b"$ORIGIN/../lib"


def mounts(folder: Path, places: list[str]) -> list[tuple[Path, str]]:
    """(source, destination) pairs that make `sys.base_prefix` usable at each of `places`; copies go to `folder`."""
    base = Path(sys.base_prefix)
    binary = (base / "bin" / "python3").resolve()
    pairs = [(base, place) for place in places]
    if copy := relocatable(binary, base, folder):
        pairs += [(copy, f"{place}/bin/{binary.name}") for place in places]
    return pairs


def relocatable(binary: Path, base: Path, folder: Path) -> Path | None:
    """A copy of `binary` that finds its library beside itself; None if it needs none."""
    absolute = bytes(base / "lib")
    content = binary.read_bytes()
    if absolute + b"\0" not in content or len(absolute) < len(RELATIVE):
        return None
    folder.mkdir(parents=True, exist_ok=True)
    copy = folder / binary.name
    copy.write_bytes(content.replace(absolute + b"\0", RELATIVE.ljust(len(absolute) + 1, b"\0")))
    copy.chmod(0o755)
    return copy
