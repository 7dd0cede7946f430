"""Listening sockets, bound once by the supervisor: a restarted process finds its queue of connections intact."""

from __future__ import annotations

import errno
import socket

from .problem import Problem

HOST = "127.0.0.1"
BACKLOG = 4096


def listen(port: int, purpose: str, other: str) -> socket.socket:
    """A socket that children inherit. `other` is the advice if the port is taken."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    # Inherited by what it accepts: uvicorn takes --fd for a Unix socket and would let Nagle hold answers for 40 ms.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        listener.bind((HOST, port))
    except OSError as error:
        listener.close()
        raise Problem(f"Port {port} ({purpose}) {reason(error)}: {other}") from error
    listener.listen(BACKLOG)
    listener.set_inheritable(True)
    return listener


def reason(error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return "is taken by another program"
    return f"cannot be used ({error.strerror})"


def free(preferred: int) -> int:
    """`preferred` if nobody listens there, else any free port."""
    for port in (preferred, 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, port))
            except (OSError, OverflowError):
                continue
            return int(probe.getsockname()[1])
    raise Problem("No port is free on the loopback interface: end some programs that listen there.")
