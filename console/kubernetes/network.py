"""The Pods' network: a bridge of our own with a private subnet. The host reaches Pods by their addresses, and they it.

We make the bridge ourselves and give it the gateway's address: so the node has an address without any outside network,
the plugin has no reason to switch on forwarding, and as nothing is masqueraded there are no iptables rules.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from . import tools
from .place import Place

BRIDGE = "agentbox-k8s"
SUBNET, GATEWAY = "10.213.0.0/20", "10.213.0.1"
LIMIT = 10.0
CNI_RESULTS = Path("/var/lib/cni/results")
"""Where the CNI library keeps its notes, whatever we say."""


def configuration(place: Place) -> str:
    addresses = {
        "type": "host-local",
        "ranges": [[{"subnet": SUBNET, "gateway": GATEWAY}]],
        "routes": [{"dst": "0.0.0.0/0"}],
        "dataDir": str(place.cni / "addresses"),
    }
    bridge = {"type": "bridge", "bridge": BRIDGE, "isGateway": False, "ipMasq": False, "ipam": addresses}
    return json.dumps({"cniVersion": "0.4.0", "name": "agentbox-kubernetes", "plugins": [bridge]}, indent=2)


def make(place: Place) -> None:
    place.cni.mkdir(exist_ok=True)
    (place.cni / "10-agentbox.conflist").write_text(configuration(place))
    ip("link", "add", BRIDGE, "type", "bridge")
    ip("address", "add", f"{GATEWAY}/{SUBNET.partition('/')[2]}", "dev", BRIDGE)
    ip("link", "set", BRIDGE, "up")


def remove() -> None:
    """The Pods' ends of it went with their network namespaces."""
    if Path(f"/sys/class/net/{BRIDGE}").exists():
        ip("link", "delete", BRIDGE)


def forget(place: Place) -> None:
    """The CNI library's notes about Pods that nobody took off the network."""
    for sandbox in (place.containerd / "state" / "io.containerd.grpc.v1.cri" / "sandboxes").glob("*"):
        for note in CNI_RESULTS.glob(f"*-{sandbox.name}-*"):
            note.unlink(missing_ok=True)


def ip(*arguments: str) -> None:
    subprocess.run([tools.program("ip"), *arguments], check=True, capture_output=True, timeout=LIMIT)
