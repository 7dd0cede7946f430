"""Starts envd: takes its settings from the environment, its socket from its parent or makes one, and serves for ever."""

from __future__ import annotations

import _signal
import os

from . import identity, sandbox, server
from .lifetime import Lifetime
from .loop import Loop
from .processes import Processes
from .routes import Routes

_SIGNALS = (_signal.SIGCHLD, _signal.SIGTERM, _signal.SIGINT)


def main() -> None:
    """Settings: ENVD_BOOTSTRAP_SHA256, ENVD_DEADLINE_MARGIN (seconds), ENVD_PORT, LISTEN_FDS, PATH (passed on to commands)."""
    os.umask(0o022)
    settings = sandbox.from_environment()
    listener = server.listening_socket()
    os.chdir("/")
    loop = Loop()
    table = Processes(loop)
    lifetime = Lifetime(loop, table)
    _listen_for_signals(loop, lifetime)
    if os.getpid() != 1:
        identity.adopt_orphans()
    routes = Routes(loop, settings, table, lifetime)
    loop.start(server.Server(loop, routes).accept(listener))
    loop.run()


def _listen_for_signals(loop: Loop, lifetime: Lifetime) -> None:
    """Signals become bytes in the loop's alarm pipe; the Python functions only keep the kernel from acting by itself."""
    loop.on_signal = lifetime.on_signal
    _signal.set_wakeup_fd(loop.alarm, warn_on_full_buffer=False)
    for number in _SIGNALS:
        _signal.signal(number, lambda number, stack: None)
