"""Pod addresses on loopback, and the small part of HTTP that is spoken at them."""

import asyncio
import contextlib
import ipaddress
import secrets
import socket

from sandboxes.localkube.kubelet import PORT, LaunchError

_NETWORK = ipaddress.ip_network("127.64.0.0/10")


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

    def reserve(self) -> str:
        """For a Pod whose container cannot start yet."""
        address, listener = self.open()
        listener.close()
        return address


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
