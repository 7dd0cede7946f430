"""The daemon of all simulated Pods, a process of its own: its answers do not wait for the API's work.

GET /health and POST /init get 204. Each Pod's address has a listening socket of its own, so one without a live Pod
refuses connections.
"""

import asyncio
import contextlib
import os
import select
import socket
import subprocess
import sys
from pathlib import Path

IDLE_SECONDS = 60.0
BODY_BYTES = 1 << 20
_ANSWER = b"HTTP/1.1 204 No Content\r\n\r\n"
_UNKNOWN = b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n"
_ROOT = Path(__file__).parents[2]


class Stub:
    """localkube's end. The process ends with the connection to it, whatever ends us."""

    def __init__(self) -> None:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = [sys.executable, "-S", "-m", f"{__package__}.stub", str(theirs.fileno())]
        environment = {"PYTHONPATH": str(_ROOT), "PATH": os.environ.get("PATH", os.defpath)}
        self._process = subprocess.Popen(command, pass_fds=[theirs.fileno()], env=environment, cwd="/")
        theirs.close()

    def add(self, address: str, listener: socket.socket) -> None:
        socket.send_fds(self._control, [address.encode()], [listener.fileno()])
        listener.close()

    def remove(self, address: str) -> None:
        self._control.send(address.encode())

    def close(self) -> None:
        self._control.close()
        self._process.wait()


class Daemons:
    """Serves the sockets that `control` hands over: all in one epoll set, which the loop watches as one file."""

    def __init__(self, control: socket.socket) -> None:
        self.over = asyncio.Event()
        self._control = control
        self._epoll = select.epoll()
        self._listeners: dict[int, socket.socket] = {}
        self._fds: dict[bytes, int] = {}
        self._answering: set[asyncio.Task[None]] = set()
        loop = asyncio.get_running_loop()
        loop.add_reader(control.fileno(), self._hear)
        loop.add_reader(self._epoll.fileno(), self._accept)

    def _hear(self) -> None:
        address, fds, _, _ = socket.recv_fds(self._control, 64, 1)
        if not address:
            return self.over.set()
        if fds:
            return self._add(address, fds[0])
        return self._remove(address)

    def _add(self, address: bytes, fd: int) -> None:
        self._listeners[fd], self._fds[address] = socket.socket(fileno=fd), fd
        self._listeners[fd].setblocking(False)
        self._epoll.register(fd, select.EPOLLIN)

    def _remove(self, address: bytes) -> None:
        fd = self._fds.pop(address)
        self._epoll.unregister(fd)
        self._listeners.pop(fd).close()

    def _accept(self) -> None:
        for fd, _ in self._epoll.poll(0, 64):
            with contextlib.suppress(OSError):
                connection, _ = self._listeners[fd].accept()
                connection.setblocking(False)
                task = asyncio.get_running_loop().create_task(_answer(connection))
                self._answering.add(task)
                task.add_done_callback(self._answering.discard)


async def _answer(connection: socket.socket) -> None:
    """Requests of one connection, one after the other."""
    loop, rest = asyncio.get_running_loop(), b""
    with connection, contextlib.suppress(OSError, ValueError, IndexError, TimeoutError):
        while len(rest) < BODY_BYTES:
            async with asyncio.timeout(IDLE_SECONDS):
                chunk = await loop.sock_recv(connection, 65536)
            if not chunk:
                return
            rest += chunk
            while request := _request(rest):
                path, rest = request
                await loop.sock_sendall(connection, _ANSWER if path in (b"/health", b"/init") else _UNKNOWN)


def _request(received: bytes) -> tuple[bytes, bytes] | None:
    """The path of a complete request and what was received after it: a client may send several at once."""
    head, end, body = received.partition(b"\r\n\r\n")
    size = _body_size(head)
    if not end or len(body) < size:
        return None
    return head.split(b" ", 2)[1].partition(b"?")[0], body[size:]


def _body_size(head: bytes) -> int:
    lengths = [line.split(b":")[1] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    return int(lengths[0]) if lengths else 0


async def serve(control: socket.socket) -> None:
    await Daemons(control).over.wait()


if __name__ == "__main__":
    asyncio.run(serve(socket.socket(fileno=int(sys.argv[1]))))
