"""The node: containerd and the kubelet, configured so that all their files are in the state folder."""

from __future__ import annotations

import json
from pathlib import Path

from . import network, tools
from .binaries import Binaries
from .place import CGROUP, NODE, Place, Ports

PAUSE = "agentbox/pause:1"
MAX_PODS = 250
CONTAINERD = """\
version = 2
root = "{folder}/root"
state = "{folder}/state"
disabled_plugins = ["io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs", \
"io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs"]

[grpc]
address = "{socket}"

[plugins."io.containerd.internal.v1.opt"]
path = "{folder}/opt"

[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "docker.io/{pause}"
# Root in a container or a small VM may lack CAP_SYS_RESOURCE; without this no Pod would start there.
restrict_oom_score_adj = true
netns_mounts_under_state_dir = true
stream_server_address = "127.0.0.1"

[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "{plugins}"
conf_dir = "{cni}"

[plugins."io.containerd.grpc.v1.cri".registry]
config_path = "{folder}/registries"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
BinaryName = "{runc}"
Root = "{folder}/runc"
"""
REGISTRY = """\
server = "http://{registry}"

[host."http://{registry}"]
capabilities = ["pull", "resolve"]
"""


def prepare(place: Place, ports: Ports) -> None:
    """Write the configuration of both."""
    docker_io = place.containerd / "registries" / "docker.io"
    docker_io.mkdir(parents=True)
    (docker_io / "hosts.toml").write_text(REGISTRY.format(registry=f"127.0.0.1:{ports.registry}"))
    (place.containerd / "config.toml").write_text(containerd_configuration(place))
    place.kubelet.mkdir()
    (place.kubelet / "config.json").write_text(json.dumps(kubelet_configuration(place, ports), indent=2))


def containerd_configuration(place: Place) -> str:
    return CONTAINERD.format(
        folder=place.containerd,
        socket=place.containerd_socket,
        pause=PAUSE,
        plugins=tools.CNI,
        cni=place.cni,
        runc=tools.program("runc"),
    )


def containerd(place: Place) -> list[str]:
    return [tools.program("containerd"), "--config", str(place.containerd / "config.toml"), "--log-level", "warn"]


def kubelet(binaries: Binaries, place: Place) -> list[str]:
    return [
        str(binaries.path("kubelet")),
        f"--config={place.kubelet / 'config.json'}",
        f"--kubeconfig={place.state / 'kubelet.kubeconfig'}",
        f"--root-dir={place.kubelet}",
        f"--cert-dir={place.kubelet / 'pki'}",
        f"--hostname-override={NODE}",
        f"--node-ip={network.GATEWAY}",
    ]


def kubelet_configuration(place: Place, ports: Ports) -> dict[str, object]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        **serving(place.pki, ports),
        "containerRuntimeEndpoint": f"unix://{place.containerd_socket}",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{CGROUP}",
        "failCgroupV1": False,
        "failSwapOn": False,
        "makeIPTablesUtilChains": False,
        "resolvConf": "",
        "podLogsDir": str(place.pod_logs),
        "volumePluginDir": str(place.kubelet / "plugins"),
        "maxPods": MAX_PODS,
        "serializeImagePulls": False,
        # A full disk is the machine's business: neither evict Pods nor delete images because of it.
        "evictionHard": {"memory.available": "100Mi"},
        "imageGCHighThresholdPercent": 100,
        # The defaults pace a node far below what it can start.
        **{"kubeAPIQPS": 500, "kubeAPIBurst": 1000, "registryPullQPS": 0},
        # 0 is said to mean no limit, and is one of 5 a second: words about Pods came minutes late.
        **{"eventRecordQPS": 500, "eventBurst": 1000},
    }


def serving(pki: Path, ports: Ports) -> dict[str, object]:
    return {
        "address": network.GATEWAY,
        "port": ports.kubelet,
        "healthzBindAddress": "127.0.0.1",
        "healthzPort": ports.kubelet_health,
        "tlsCertFile": str(pki / "node.crt"),
        "tlsPrivateKeyFile": str(pki / "node.key"),
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(pki / "ca.crt")},
        },
        "authorization": {"mode": "Webhook"},
    }
