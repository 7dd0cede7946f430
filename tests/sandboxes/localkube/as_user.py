"""`python as_user.py UID COMMAND...`: run a command as an ordinary user who can reach this Python, wherever it lies.

In a mount namespace of its own, so nothing changes for anybody else.
"""

import os
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT))

from sandboxes.localkube import linux  # noqa: E402 found through the line above


def main() -> None:
    user, command = int(sys.argv[1]), sys.argv[2:]
    os.unshare(os.CLONE_NEWNS)
    linux.make_mounts_private()
    needed = {Path(sys.base_prefix).resolve(), Path(sys.prefix), ROOT}
    closed = {folder: [path for path in needed if closed_above(path) == folder] for folder in map(closed_above, needed)}
    for folder, paths in closed.items():
        if folder:
            open_up(folder, paths)
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
    os.environ.update(HOME="/", USER="nobody-special")
    os.execvp(command[0], command)


def closed_above(path: Path) -> Path | None:
    """The topmost folder on the way that others may not enter."""
    return next((folder for folder in reversed(path.parents) if not folder.stat().st_mode & 1), None)


def open_up(folder: Path, paths: list[Path]) -> None:
    kept = {path: Path(tempfile.mkdtemp(prefix="localkube-test-")) for path in paths}
    for path, place in kept.items():
        linux.bind(path, place)
    linux.mount("tmpfs", folder, "tmpfs", 0, "mode=0755")
    for path, place in kept.items():
        path.mkdir(parents=True)
        linux.bind(place, path)


main()
