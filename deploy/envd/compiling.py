"""Run by the interpreter that is packed: compiles each source that a line of its input names, with two paths to write.

In a process of its own because compiled code depends, in its bytes, on what the process has done before.
"""

from __future__ import annotations

import sys
from pathlib import Path
from py_compile import PycInvalidationMode, compile

NO_DATES = PycInvalidationMode.UNCHECKED_HASH
WITHOUT_DOCSTRINGS = 2
"""Nobody reads them in a sandbox, and each would hold them in memory."""


def main() -> None:
    """A line: the source, the file to make, the name to show in tracebacks; between tabs."""
    for line in sys.stdin:
        source, target, shown = line.rstrip("\n").split("\t")
        Path(target).parent.mkdir(parents=True, exist_ok=True)
        compile(source, target, shown, doraise=True, optimize=WITHOUT_DOCSTRINGS, invalidation_mode=NO_DATES)
        Path(target).chmod(0o644)


main()
