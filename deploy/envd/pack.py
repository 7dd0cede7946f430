"""Makes the folder: copies what runs, stripped, and compiles what is imported."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from deploy.oci.problem import Problem

from .libraries import linked
from .modules import Module, needed

ENVD = Path(__file__).resolve().parents[2] / "sandboxes" / "envd"
LAUNCHER = Path(__file__).with_name("launcher.c")
COMPILING = Path(__file__).with_name("compiling.py")
PLACE = "/opt/agentbox"
"""Where a Pod sees the pack."""
STANDARD_LIBRARY = Path("python", "lib", Path(os.__file__).parent.name)
EXTENSIONS = STANDARD_LIBRARY / "lib-dynload"
HOW_TO_GET_TOOLS = "Packing envd needs gcc and strip; on Debian: apt-get install gcc libc6-dev."


def pack(folder: Path) -> None:
    """With the interpreter that runs this. A pack that is there already is replaced, anything else left alone."""
    make_room(folder)
    interpreter = Path("/proc/self/exe").resolve()
    modules = needed(interpreter, ENVD)
    extensions = [module.source for module in modules if module.is_extension]
    found = linked([interpreter, *extensions])
    binaries = {
        Path("python/bin/python3"): interpreter,
        Path("loader/envd"): found.loader,
        **{Path("python/lib", name): path for name, path in found.libraries.items()},
        **{EXTENSIONS / path.name: path for path in extensions},
    }
    for name, source in binaries.items():
        copy(source, folder / name)
    run(["strip", "--strip-unneeded", *(folder / name for name in binaries)])
    make_launcher(folder / "bin" / "envd")
    compile_modules(interpreter, [module for module in modules if not module.is_extension], folder)


def make_room(folder: Path) -> None:
    if (folder / "loader" / "envd").exists():
        shutil.rmtree(folder)
    if folder.exists() and any(folder.iterdir()):
        raise Problem(f"{folder} is not empty and holds no pack of envd: name a new folder.")
    (folder / EXTENSIONS).mkdir(parents=True)  # by this folder the interpreter knows its library


def copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    target.chmod(0o755)


def make_launcher(target: Path) -> None:
    target.parent.mkdir()
    run(["gcc", "-static", "-s", "-Os", "-Wall", "-Werror", "-o", target, LAUNCHER])
    target.chmod(0o755)


def compile_modules(interpreter: Path, modules: list[Module], folder: Path) -> None:
    """The same sources make the same bytes, so an image is pushed and pulled only when something changed."""
    lines = []
    for module in modules:
        path = STANDARD_LIBRARY.joinpath(*module.name.split("."))
        path = path / "__init__.py" if module.is_package else path.with_name(f"{path.name}.py")
        lines.append(f"{module.source}\t{folder / path.with_suffix('.pyc')}\t{PLACE}/{path}\n")
    run([interpreter, "-sSB", COMPILING], "".join(lines), {"PYTHONHASHSEED": "0"})


def run(command: Sequence[str | Path], said: str = "", variables: dict[str, str] | None = None) -> None:
    try:
        done = subprocess.run(
            command, input=said, env=variables, capture_output=True, text=True, timeout=120, check=False
        )
    except FileNotFoundError as error:
        raise Problem(HOW_TO_GET_TOOLS) from error
    if done.returncode:
        raise Problem(f"{command[0]} failed ({done.stderr.strip()[-300:]}). {HOW_TO_GET_TOOLS}")


def size(folder: Path) -> int:
    """Bytes of all files."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
