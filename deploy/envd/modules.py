"""Which modules envd ever imports, with all that these import: its source says the names, a real import the rest."""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from deploy.oci.problem import Problem

TRACE = Path(__file__).with_name("trace.py")
LANDMARK = "os"
"""The file by which an interpreter finds its library; built-in otherwise."""


@dataclass(frozen=True)
class Module:
    name: str
    source: Path
    is_package: bool

    @property
    def is_extension(self) -> bool:
        return self.source.suffix == ".so"


def needed(interpreter: Path, package: Path) -> list[Module]:
    """Those that lie in files, of the package `package` and of the standard library."""
    own = [".".join((package.name, *path.relative_to(package).with_suffix("").parts)) for path in sources(package)]
    names = {name.removesuffix(".__init__") for name in own if not name.endswith(".__main__")}
    names |= {name for path in sources(package) for name in imported(path)}
    command: list[str | Path] = [interpreter, "-ISB", TRACE, package.parent, *sorted(names)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode:
        raise Problem(f"envd cannot be imported by {interpreter}: {done.stderr.strip().splitlines()[-1]}")
    return list(in_files(done.stdout))


def sources(package: Path) -> Iterable[Path]:
    return sorted(package.rglob("*.py"))


def imported(path: Path) -> Iterator[str]:
    """Modules of the standard library that the source names, also inside functions; not those for type checkers."""
    return _imports(ast.parse(path.read_text()))


def _imports(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (each.name for each in node.names)
    if isinstance(node, ast.ImportFrom) and not node.level and node.module:
        yield node.module
    only_else = isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    for child in node.orelse if only_else and isinstance(node, ast.If) else ast.iter_child_nodes(node):
        yield from _imports(child)


def in_files(trace: str) -> Iterator[Module]:
    for line in trace.splitlines():
        name, origin, file, kind = line.split("\t")
        if origin != "built-in" and (origin != "frozen" or name == LANDMARK):
            yield Module(name, Path(file), kind == "package")
