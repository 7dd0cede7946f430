"""An authority of our own, and what it signs: every server of the cluster has a certificate, every client checks it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from . import network, tools
from .place import NODE, Place

DAYS = "3650"
LIMIT = 20.0
EMPTY_CONFIG = "[req]\ndistinguished_name = name\n[name]\n"
"""Else the machine's openssl.cnf would make every certificate an authority."""
LOCAL = "DNS:localhost,IP:127.0.0.1"
API_NAMES = f"{LOCAL},DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc,IP:10.96.0.1"
CLIENTS = {
    "admin": "/O=system:masters/CN=agentbox-admin",
    "apiserver-client": "/O=system:masters/CN=kube-apiserver",
    "controller-manager": "/CN=system:kube-controller-manager",
    "scheduler": "/CN=system:kube-scheduler",
    "kubelet": f"/O=system:nodes/CN=system:node:{NODE}",
}


def make(place: Place) -> None:
    """All keys and certificates, anew."""
    place.pki.mkdir(mode=0o700)
    (place.pki / "empty.cnf").write_text(EMPTY_CONFIG)
    authority(place.pki)
    openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", str(place.pki / "service-account.key"))
    sign(place.pki, "server", "/CN=agentbox-kubernetes", f"{API_NAMES},IP:{network.GATEWAY}")
    sign(place.pki, "node", f"/CN={NODE}", f"DNS:{NODE},IP:{network.GATEWAY}")
    for name, subject in CLIENTS.items():
        sign(place.pki, name, subject)


def authority(pki: Path) -> None:
    extensions = [
        "basicConstraints=critical,CA:TRUE",
        "keyUsage=critical,keyCertSign,cRLSign,digitalSignature",
        "subjectKeyIdentifier=hash",
    ]
    request(pki, "ca", "/CN=agentbox-kubernetes-ca", extensions, [])


def sign(pki: Path, name: str, subject: str, hosts: str = "") -> None:
    """A certificate for servers and clients alike: etcd's members are both."""
    extensions = [
        "basicConstraints=critical,CA:FALSE",
        "keyUsage=critical,digitalSignature",
        "extendedKeyUsage=serverAuth,clientAuth" if hosts else "extendedKeyUsage=clientAuth",
        "subjectKeyIdentifier=hash",
        "authorityKeyIdentifier=keyid",
        *([f"subjectAltName={hosts}"] if hosts else []),
    ]
    request(pki, name, subject, extensions, ["-CA", str(pki / "ca.crt"), "-CAkey", str(pki / "ca.key")])


def request(pki: Path, name: str, subject: str, extensions: list[str], signer: list[str]) -> None:
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", str(pki / f"{name}.key")]
    out = ["-out", str(pki / f"{name}.crt"), "-days", DAYS, "-subj", subject]
    added = [part for extension in extensions for part in ("-addext", extension)]
    openssl("req", "-x509", "-config", str(pki / "empty.cnf"), *key, *out, *signer, *added)


def openssl(*arguments: str) -> None:
    subprocess.run([tools.program("openssl"), *arguments], check=True, capture_output=True, timeout=LIMIT)


def kubeconfig(place: Place, user: str, api: int) -> str:
    """JSON is YAML too."""
    cluster = {"server": f"https://127.0.0.1:{api}", "certificate-authority": str(place.pki / "ca.crt")}
    credentials = {
        "client-certificate": str(place.pki / f"{user}.crt"),
        "client-key": str(place.pki / f"{user}.key"),
    }
    name = "agentbox"
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": user, "user": credentials}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": user, "namespace": name}}],
        "current-context": name,
    }
    return json.dumps(content, indent=2)
