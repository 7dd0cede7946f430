"""Starts envd: settings from the environment, a socket from its parent or its own; then it serves. Or installs it."""

from __future__ import annotations

import os
import sys

from . import identity, sandbox, server
from .lean import signals
from .lifetime import Lifetime
from .loop import Loop
from .processes import Processes
from .routes import Routes

_SIGNALS = (signals.SIGCHLD, signals.SIGTERM, signals.SIGINT)


def main() -> None:
    if sys.argv[1:2] == ["install"]:
        from .install import install

        install("".join(sys.argv[2:3]))
    else:
        serve()


def serve() -> None:
    """Settings: ENVD_BOOTSTRAP_SHA256, ENVD_DEADLINE_MARGIN (seconds), ENVD_PORT, LISTEN_FDS, PATH (of commands)."""
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
    """Signals become bytes in the loop's alarm pipe; the functions only keep the kernel from acting by itself."""
    loop.on_signal = lifetime.on_signal
    signals.set_wakeup_fd(loop.alarm, warn_on_full_buffer=False)
    for number in _SIGNALS:
        signals.signal(number, lambda number, stack: None)
