"""The product's own account in the cluster, with the rights of deploy/base/rbac.yaml and no others."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from console.up.checks import write_private
from console.up.options import ROOT
from console.up.problem import Problem

from .place import Place

RIGHTS = ROOT / "deploy" / "base" / "rbac.yaml"
NAMESPACE, NAME = "agentbox-system", "agentbox"
VALID = "8760h"
"""Longer than a cluster lives that is thrown away when it stops."""
LIMIT = 30.0


def kubeconfig(place: Place) -> Path:
    """Give the account its rights and write a kubeconfig with a token of it."""
    kubectl(place, "apply", "--filename", str(RIGHTS))
    token = kubectl(place, "create", "token", NAME, "--namespace", NAMESPACE, "--duration", VALID).strip()
    content = json.loads(place.kubeconfig.read_text())
    content["users"][0]["user"] = {"token": token}
    write_private(place.product_kubeconfig, json.dumps(content, indent=2))
    return place.product_kubeconfig


def kubectl(place: Place, *arguments: str) -> str:
    command = [place.known_facts()["kubectl"], "--kubeconfig", str(place.kubeconfig), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)
    if done.returncode != 0:
        raise Problem(f"kubectl {' '.join(arguments)} failed: {done.stderr.strip()}")
    return done.stdout
