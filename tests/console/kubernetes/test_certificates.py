"""The certificates do what they are for, by the strict rules of Python's own TLS."""

from __future__ import annotations

import json
import socket
import ssl
import threading
from pathlib import Path

import pytest

from console.kubernetes import certificates
from console.kubernetes.place import Place


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    made = Place(tmp_path_factory.mktemp("state"))
    certificates.make(made)
    return made


def handshake(place: Place, server: str, client: str, name: str) -> dict[str, object]:
    """What the server learns of the client; both check each other."""
    ours, theirs = socket.socketpair()
    offered = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(place.pki / "ca.crt"))
    offered.verify_mode = ssl.CERT_REQUIRED
    offered.load_cert_chain(place.pki / f"{server}.crt", place.pki / f"{server}.key")
    wanted = ssl.create_default_context(cafile=str(place.pki / "ca.crt"))
    wanted.verify_flags |= ssl.VERIFY_X509_STRICT
    wanted.load_cert_chain(place.pki / f"{client}.crt", place.pki / f"{client}.key")
    seen: dict[str, object] = {}

    def serve() -> None:
        with offered.wrap_socket(theirs, server_side=True) as connection:
            seen.update(connection.getpeercert() or {})
            connection.sendall(b".")

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        with ours, wanted.wrap_socket(ours, server_hostname=name) as connection:
            connection.recv(1)
    finally:
        ours.close()
        thread.join(timeout=10)
    return seen


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "10.213.0.1"])
def test_the_servers_are_who_they_say(place: Place, name: str) -> None:
    seen = handshake(place, "server", "admin", name)
    subject = dict(part for [part] in seen["subject"])
    assert subject == {"organizationName": "system:masters", "commonName": "agentbox-admin"}


def test_the_node_is_known_by_its_name(place: Place) -> None:
    seen = handshake(place, "node", "kubelet", "single")
    assert (("commonName", "system:node:single"),) in seen["subject"]


def test_keys_are_readable_by_their_owner_only(place: Place) -> None:
    assert place.pki.stat().st_mode & 0o077 == 0


def test_a_kubeconfig_names_the_authority(place: Place) -> None:
    content = json.loads(certificates.kubeconfig(place, "admin", 6443))
    cluster = content["clusters"][0]["cluster"]
    assert cluster == {"server": "https://127.0.0.1:6443", "certificate-authority": f"{place.pki}/ca.crt"}
    for file in content["users"][0]["user"].values():
        assert Path(file).exists()
