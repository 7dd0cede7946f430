"""Run by the interpreter that is packed, as `trace.py FOLDER NAME...`: imports the names, prints all that came along.

A line each: name, origin, file and, for packages, the word `package`, between tabs. It imports nothing for itself.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

DISPENSABLE = ["bz2", "lzma", "tracemalloc"]
"""The standard library does without these where they are missing, and envd has no use for them."""
ON_USE = ["encodings.ascii", "encodings.latin_1", "encodings.utf_8", "json", "linecache", "tokenize", "warnings"]
"""What compiled code imports: to open a text file, to warn, to print an error, to say what is wrong in a JSON text."""


class Recorder:
    """The finders asked in their order, and noted what they found: a module may put another in its place later."""

    def __init__(self) -> None:
        self.found = {name: module.__spec__ for name, module in sys.modules.items() if module.__spec__}
        self._finders = list(sys.meta_path)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        for finder in self._finders:
            if spec := finder.find_spec(name, path, target):
                self.found[name] = spec
                return spec
        return None


def described(name: str, spec: ModuleSpec) -> str:
    file = getattr(sys.modules.get(name), "__file__", None) if spec.origin == "frozen" else spec.origin
    kind = "" if spec.submodule_search_locations is None else "package"
    return "\t".join([name, spec.origin or "built-in", file or "", kind])


def main() -> None:
    recorder = Recorder()
    sys.meta_path.insert(0, recorder)
    sys.path.append(sys.argv[1])
    for name in DISPENSABLE:
        sys.modules[name] = None  # type: ignore[assignment]
    for name in [*sys.argv[2:], *ON_USE]:
        __import__(name)
    print("\n".join(described(name, spec) for name, spec in sorted(recorder.found.items())))  # noqa: T201


main()
