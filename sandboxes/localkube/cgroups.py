"""Memory and process limits of Pods, where control groups (v1 or v2) can be written; elsewhere Pods run without."""

import contextlib
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

_LIMIT_FILES = {"memory": ("memory.limit_in_bytes", "memory.max"), "pids": ("pids.max", "pids.max")}


@dataclass(frozen=True)
class Hierarchy:
    """localkube's own directory in one mounted hierarchy, and the controllers that work there."""

    directory: Path
    controllers: tuple[str, ...]
    unified: bool

    def limit_file(self, controller: str) -> str:
        return _LIMIT_FILES[controller][self.unified]


@dataclass(frozen=True)
class Cgroup:
    """The control groups of one container: one directory in each hierarchy."""

    directories: tuple[Path, ...]

    def add(self, pid: int) -> None:
        for directory in self.directories:
            (directory / "cgroup.procs").write_text(str(pid))

    def out_of_memory_kills(self) -> int:
        for directory in self.directories:
            for name in ("memory.oom_control", "memory.events"):
                with contextlib.suppress(OSError):
                    words = (directory / name).read_text().split()
                    return int(words[words.index("oom_kill") + 1]) if "oom_kill" in words else 0
        return 0

    def remove(self) -> None:
        for directory in self.directories:
            _remove(directory)


def claim(name: str) -> list[Hierarchy]:
    """Directories called `name`, emptied of what a killed predecessor left behind (its processes are killed)."""
    found = [_claim_in(mount, kind, controllers, name) for mount, kind, controllers in _mounts()]
    return [hierarchy for hierarchy in found if hierarchy]


def make(hierarchies: list[Hierarchy], name: str, limits: dict[str, int]) -> Cgroup:
    directories = []
    for hierarchy in hierarchies:
        directory = hierarchy.directory / name
        directory.mkdir(exist_ok=True)
        directories.append(directory)
        for controller in hierarchy.controllers:
            if limit := limits.get(controller):
                (directory / hierarchy.limit_file(controller)).write_text(str(limit))
    return Cgroup(tuple(directories))


def release(hierarchies: list[Hierarchy]) -> None:
    for hierarchy in hierarchies:
        _remove(hierarchy.directory)


def _mounts() -> list[tuple[Path, str, tuple[str, ...]]]:
    lines = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    found = []
    for _, directory, kind, options, *_ in lines:
        offered = {"cgroup": set(options.split(",")), "cgroup2": _offered(Path(directory))}.get(kind, set())
        if controllers := tuple(controller for controller in _LIMIT_FILES if controller in offered):
            found.append((Path(directory), kind, controllers))
    return found


def _offered(directory: Path) -> set[str]:
    with contextlib.suppress(OSError):
        return set((directory / "cgroup.controllers").read_text().split())
    return set()


def _claim_in(mount: Path, kind: str, controllers: tuple[str, ...], name: str) -> Hierarchy | None:
    own = mount / _own_path(kind, controllers[0]).lstrip("/")
    for parent in dict.fromkeys((own, own.parent if own != mount else mount, mount)):
        with contextlib.suppress(OSError):
            hierarchy = Hierarchy(parent / name, controllers, unified=kind == "cgroup2")
            _remove(hierarchy.directory)
            hierarchy.directory.mkdir()
            if hierarchy.unified:
                _delegate(parent, hierarchy)
            return hierarchy
    return None


def _delegate(parent: Path, hierarchy: Hierarchy) -> None:
    """In v2 a directory has a controller only if its parent gives it; one with processes in it gives none."""
    wanted = " ".join(f"+{controller}" for controller in hierarchy.controllers)
    try:
        (parent / "cgroup.subtree_control").write_text(wanted)
        (hierarchy.directory / "cgroup.subtree_control").write_text(wanted)
    except OSError:
        hierarchy.directory.rmdir()
        raise


def _own_path(kind: str, controller: str) -> str:
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, names, path = line.split(":", 2)
        if controller in names.split(",") or (kind == "cgroup2" and not names):
            return path
    return "/"


def _remove(directory: Path) -> None:
    """Kill what is inside and remove it; gives up after a second, the next start tries again."""
    for attempt in range(50):
        with contextlib.suppress(OSError):
            directory.rmdir()
        if not directory.exists():
            return
        for child in [*directory.rglob("cgroup.procs")]:
            with contextlib.suppress(OSError):
                for pid in child.read_text().split():
                    os.kill(int(pid), signal.SIGKILL)
        for child in sorted((path for path in directory.rglob("*") if path.is_dir()), reverse=True):
            with contextlib.suppress(OSError):
                child.rmdir()
        time.sleep(0.001 * attempt)
