"""Run by the interpreter that is packed, as `trace.py FOLDER NAME...`: imports the names, prints all that came along.

A line each: name, origin, file and, for packages, the word `package`, between tabs. It imports nothing for itself.
"""

import sys

DISPENSABLE = ["bz2", "lzma", "tracemalloc"]
"""The standard library does without these where they are missing, and envd has no use for them."""
ON_USE = ["encodings.ascii", "encodings.latin_1", "encodings.utf_8", "linecache", "tokenize", "warnings"]
"""What the interpreter itself imports when a text file is opened, or when it warns or prints an error."""


def described(name: str) -> str:
    module = sys.modules[name]
    origin = getattr(module.__spec__, "origin", None) or "built-in"
    kind = "package" if hasattr(module, "__path__") else ""
    return "\t".join([name, origin, getattr(module, "__file__", None) or "", kind])


def main() -> None:
    sys.path.append(sys.argv[1])
    for name in DISPENSABLE:
        sys.modules[name] = None  # type: ignore[assignment]
    for name in [*sys.argv[2:], *ON_USE]:
        __import__(name)
    for name in DISPENSABLE:
        del sys.modules[name]
    print("\n".join(described(name) for name in sorted(sys.modules) if name != "__main__"))  # noqa: T201


main()
