"""The command lines of etcd, the API server, the controllers and the scheduler."""

from __future__ import annotations

import json
from pathlib import Path

from . import account, network
from .binaries import Binaries
from .place import Place, Ports

SERVICES = "10.96.0.0/24"
"""Nobody serves these addresses (there is no kube-proxy), but the API server wants some."""
PRODUCT = f"system:serviceaccount:{account.NAMESPACE}:{account.NAME}"
FAST_CLIENT = ["--kube-api-qps=1000", "--kube-api-burst=2000"]
"""The defaults would pace the whole cluster at 50 Pods a second."""


def prepare(place: Place) -> None:
    """What the product asks of the API server is written down, so that it can be compared with its rights."""
    asked = {"level": "Metadata", "users": [PRODUCT], "omitStages": ["RequestReceived"]}
    policy = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [asked, {"level": "None"}]}
    place.audit_policy.write_text(json.dumps(policy, indent=2))
    place.audit_log.unlink(missing_ok=True)


def etcd(binaries: Binaries, place: Place, ports: Ports) -> list[str]:
    """Without waiting for the disk: what it holds is thrown away at the end anyway."""
    here, peer = f"https://127.0.0.1:{ports.etcd}", f"https://127.0.0.1:{ports.etcd_peer}"
    ca, certificate, key = pair(place.pki, "server")
    return [
        str(binaries.path("etcd")),
        f"--data-dir={place.etcd}",
        "--unsafe-no-fsync",
        "--log-level=warn",
        f"--listen-client-urls={here}",
        f"--advertise-client-urls={here}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        f"--listen-metrics-urls=http://127.0.0.1:{ports.etcd_health}",
        *["--client-cert-auth", f"--trusted-ca-file={ca}", f"--cert-file={certificate}", f"--key-file={key}"],
        *["--peer-client-cert-auth", f"--peer-trusted-ca-file={ca}"],
        *[f"--peer-cert-file={certificate}", f"--peer-key-file={key}"],
    ]


def apiserver(binaries: Binaries, place: Place, ports: Ports) -> list[str]:
    ca, certificate, key = pair(place.pki, "server")
    _, client_certificate, client_key = pair(place.pki, "apiserver-client")
    accounts = place.pki / "service-account.key"
    return [
        str(binaries.path("kube-apiserver")),
        *["--bind-address=127.0.0.1", f"--secure-port={ports.api}", f"--advertise-address={network.GATEWAY}"],
        *[f"--tls-cert-file={certificate}", f"--tls-private-key-file={key}", f"--client-ca-file={ca}"],
        *[f"--etcd-servers=https://127.0.0.1:{ports.etcd}", f"--etcd-cafile={ca}"],
        *[f"--etcd-certfile={client_certificate}", f"--etcd-keyfile={client_key}"],
        *[f"--kubelet-certificate-authority={ca}", f"--kubelet-client-certificate={client_certificate}"],
        *[f"--kubelet-client-key={client_key}", "--kubelet-preferred-address-types=InternalIP"],
        "--service-account-issuer=https://kubernetes.default.svc",
        *[f"--service-account-key-file={accounts}", f"--service-account-signing-key-file={accounts}"],
        f"--service-cluster-ip-range={SERVICES}",
        *["--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction"],
        "--allow-privileged=true",
        *[f"--audit-policy-file={place.audit_policy}", f"--audit-log-path={place.audit_log}"],
        *["--audit-log-maxsize=50", "--audit-log-maxbackup=1"],
    ]


def controllers(binaries: Binaries, place: Place, ports: Ports) -> list[str]:
    return [
        str(binaries.path("kube-controller-manager")),
        *component(place, "controller-manager", ports.controllers),
        "--use-service-account-credentials=true",
        f"--service-account-private-key-file={place.pki / 'service-account.key'}",
        f"--root-ca-file={place.pki / 'ca.crt'}",
    ]


def scheduler(binaries: Binaries, place: Place, ports: Ports) -> list[str]:
    return [str(binaries.path("kube-scheduler")), *component(place, "scheduler", ports.scheduler)]


def component(place: Place, name: str, port: int) -> list[str]:
    """What the two clients of the API server have in common."""
    own = place.state / f"{name}.kubeconfig"
    _, certificate, key = pair(place.pki, "server")
    return [
        *[f"--kubeconfig={own}", f"--authentication-kubeconfig={own}", f"--authorization-kubeconfig={own}"],
        *["--bind-address=127.0.0.1", f"--secure-port={port}"],
        *[f"--tls-cert-file={certificate}", f"--tls-private-key-file={key}"],
        "--leader-elect=false",
        *FAST_CLIENT,
    ]


def pair(pki: Path, name: str) -> tuple[Path, Path, Path]:
    return pki / "ca.crt", pki / f"{name}.crt", pki / f"{name}.key"
