"""Starting one program with a user's rights, by posix_spawn: memory is shared until the exec, never copied."""

from __future__ import annotations

import os
import stat

from .errors import RpcError, rpc_error
from .lean import signals

TYPE_CHECKING = False
if TYPE_CHECKING:
    Action = tuple[int, int, int] | tuple[int, int, str, int, int]

_RESET = (
    signals.SIGPIPE,
    signals.SIGXFSZ,
    signals.SIGTERM,
    signals.SIGINT,
    signals.SIGHUP,
    signals.SIGQUIT,
)
_BASH, _SHELL = "/bin/bash", "/bin/sh"
_KILLABLE = 500
_MORE_THAN_US = 100
_MOST_KILLABLE = 1000
_score = b""


class Program:
    """What to run: an argument vector, complete variables, a folder."""

    def __init__(self, arguments: list[str], variables: dict[str, str], folder: str) -> None:
        self.arguments = arguments
        self.variables = variables
        self.folder = folder


def shell(name: str) -> str:
    """E2B's SDK has /bin/bash run each command line; a small image has /bin/sh only, which takes the same options."""
    return _SHELL if name == _BASH and not os.path.exists(_BASH) else name


def spawn(program: Program, actions: list[Action]) -> int:
    """Starts the program as leader of its own session and returns its pid. For use in `acting_as(..., wholly=True)`.

    The folder is entered by this process and left again: only the loop's thread runs this, and no path is relative.
    """
    try:
        os.chdir(program.folder)
    except OSError as error:
        raise RpcError("invalid_argument", _folder_problem(program.folder, error)) from None
    try:
        path = _executable(program)
        pid = os.posix_spawn(
            path,
            program.arguments,
            program.variables,
            file_actions=actions,
            setsid=True,
            setsigmask=(),
            setsigdef=_RESET,
        )
    except OSError as error:
        failure = rpc_error(error, f"starting {program.arguments[0]!r}")
        code = failure.code if failure.code == "resource_exhausted" else "invalid_argument"
        raise RpcError(code, failure.message) from None
    finally:
        os.chdir("/")
    return pid


def prefer_to_kill(pid: int) -> None:
    """Out of memory, the kernel should take a command and not the daemon that reports on it."""
    global _score
    _score = _score or b"%d" % max(_KILLABLE, min(_MOST_KILLABLE, _own_score() + _MORE_THAN_US))
    try:
        score = os.open(f"/proc/{pid}/oom_score_adj", os.O_WRONLY | os.O_CLOEXEC)
    except OSError:
        return
    try:
        os.write(score, _score)
    except OSError:
        pass  # it has ended already, or the kernel does not allow it
    finally:
        os.close(score)


def _own_score() -> int:
    try:
        with open("/proc/self/oom_score_adj", "rb") as file:
            return int(file.read())
    except OSError:
        return 0


def _executable(program: Program) -> str:
    name = program.arguments[0]
    if "/" in name:
        return name
    for folder in program.variables.get("PATH", "").split(":"):
        path = f"{folder or '.'}/{name}"
        if os.access(path, os.X_OK) and stat.S_ISREG(os.stat(path).st_mode):
            return path
    raise RpcError("invalid_argument", f"the program {name!r} is not on the PATH {program.variables.get('PATH', '')!r}")


def _folder_problem(folder: str, error: OSError) -> str:
    if isinstance(error, FileNotFoundError):
        return f"cwd {folder!r} does not exist"
    return f"cwd {folder!r} cannot be entered: {(error.strerror or '').lower()}"
