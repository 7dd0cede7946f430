"""Pod addresses on loopback, and the small part of HTTP that is spoken at them."""

import asyncio
import contextlib
import ipaddress
import secrets
import select
import socket

from sandboxes.localkube.kubelet import PORT, LaunchError

IDLE_SECONDS = 60.0
BODY_BYTES = 1 << 20
_NETWORK = ipaddress.ip_network("127.64.0.0/10")
_ANSWER = b"HTTP/1.1 204 No Content\r\n\r\n"
_UNKNOWN = b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n"


class Addresses:
    """In turn from a random one on, so none comes back soon and two localkubes on one machine hardly meet."""

    def __init__(self) -> None:
        self._last = secrets.randbelow(_NETWORK.num_addresses - 2)

    def open(self, address: str = "") -> tuple[str, socket.socket]:
        """A listening socket on an address that nobody has, or again on the one that a restarted container keeps."""
        for _ in range(1 if address else 1000):
            self._last = self._last % (_NETWORK.num_addresses - 2) + (not address)
            with contextlib.suppress(OSError):
                return _listen(address or str(_NETWORK[self._last]))
        raise LaunchError(f"cannot listen on {address or 'any address of 127.64.0.0/10'}, port {PORT}")


def _listen(address: str) -> tuple[str, socket.socket]:
    found = socket.socket()
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind((address, PORT))
        found.listen(1024)
    except OSError:
        found.close()
        raise
    return address, found


async def status_of(address: str, path: str) -> int:
    """The status that a GET is answered with."""
    reader, writer = await asyncio.open_connection(address, PORT)
    try:
        lines = f"GET {path} HTTP/1.1", f"Host: {address}:{PORT}", "User-Agent: kube-probe/1.34", "Connection: close"
        writer.write("\r\n".join([*lines, "", ""]).encode())
        return int((await reader.readline()).split()[1])
    finally:
        writer.close()


class Stub:
    """The daemon of all simulated Pods: GET /health and POST /init get 204. Each Pod's address has a listening socket
    of its own, so one without a live Pod refuses; they are in one epoll set that the loop watches as one file."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._listeners: dict[int, socket.socket] = {}
        self._answering: set[asyncio.Task[None]] = set()
        asyncio.get_running_loop().add_reader(self._epoll.fileno(), self._accept)

    def add(self, listener: socket.socket) -> None:
        listener.setblocking(False)
        self._listeners[listener.fileno()] = listener
        self._epoll.register(listener.fileno(), select.EPOLLIN)

    def remove(self, listener: socket.socket) -> None:
        self._epoll.unregister(listener.fileno())
        del self._listeners[listener.fileno()]
        listener.close()

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
