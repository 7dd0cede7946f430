"""The rules of the design that a program can check (sections 3, 5 and 6)."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import pytest

from sandboxes import times
from tests.conftest import ROOT

SOURCE = ["console", "deploy", "pools", "sandboxes"]
MAX_FILE, MEDIAN_FILE = 450, 110
MAX_FUNCTION, MEDIAN_FUNCTION = 60, 9


def files() -> list[Path]:
    found = [path for folder in [*SOURCE, "docs", "tests"] for path in sorted((ROOT / folder).rglob("*.py"))]
    return [path for path in found if "migrations" not in path.parts and path.read_text().strip()]


def source_files() -> list[Path]:
    return [path for path in files() if path.relative_to(ROOT).parts[0] in SOURCE]


def functions(path: Path) -> Iterator[tuple[str, int]]:
    """Name and number of lines of every function, decorators and docstring included."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            yield f"{path.relative_to(ROOT)}:{node.lineno} {node.name}", (node.end_lineno or first) - first + 1


def lines(path: Path) -> int:
    return len(path.read_text().splitlines())


def test_no_file_is_long() -> None:
    assert {str(path.relative_to(ROOT)): lines(path) for path in files() if lines(path) > MAX_FILE} == {}


def test_files_are_short() -> None:
    assert median(map(lines, source_files())) <= MEDIAN_FILE


def test_no_function_is_long() -> None:
    sizes = [size for path in files() for size in functions(path)]
    assert {name: size for name, size in sizes if size > MAX_FUNCTION} == {}


def test_functions_are_short() -> None:
    assert median(size for path in source_files() for _, size in functions(path)) <= MEDIAN_FUNCTION


def test_times_nest() -> None:
    """Whatever waits for something waits longer than that may take (design section 5)."""
    nested = [
        times.API_REQUEST,
        times.SOFT_LIMIT,
        times.HARD_LIMIT,
        times.LEASE,
        times.NO_RECONCILE_ALERT,
        times.BROKER_VISIBILITY,
    ]
    assert nested == sorted(set(nested))
    assert times.CLAIM_DEADLINE < times.SDK_REQUEST
    assert times.EDGE_HEARTBEAT < times.EDGE_GONE


def test_every_variable_of_the_environment_is_documented() -> None:
    documented = (ROOT / "docs" / "operators.md").read_text()
    assert sorted(name for name in variables() if f"`{name}`" not in documented) == []


def variables() -> set[str]:
    """Names that our processes read: os.environ[...], os.environ.get(...), and the helpers of console.settings."""
    inside = ROOT / "sandboxes" / "envd", ROOT / "sandboxes" / "localkube"  # configured by us, not by people
    outside = [path for path in source_files() if not any(map(path.is_relative_to, inside))]
    ours = {"PATH", "DJANGO_SETTINGS_MODULE"}
    return {name for path in outside for name in read_variables(ast.parse(path.read_text()))} - ours


def read_variables(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript) and ast.unparse(node.value) == "os.environ":
            yield from constant(node.slice)
        if isinstance(node, ast.Call) and ast.unparse(node.func) in {"os.environ.get", "os.getenv", "secret", "flag"}:
            yield from constant(node.args[0])


def constant(node: ast.expr) -> list[str]:
    return [node.value] if isinstance(node, ast.Constant) and isinstance(node.value, str) else []


def test_imports_follow_the_contracts() -> None:
    code = "from importlinter.cli import lint_imports_command as check; check()"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("name", ["README.md", "ARCHITECTURE.md", "CHANGELOG.md", "LICENSE", "docs/operators.md"])
def test_the_documents_are_there(name: str) -> None:
    assert (ROOT / name).read_text().strip()
