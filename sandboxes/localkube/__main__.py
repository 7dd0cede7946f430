"""`python -m sandboxes.localkube`: read the flags, build the parts, serve until told to stop."""

import argparse
import asyncio
import gc
import json
import logging
import os
import secrets
import shutil
import signal
import socket
import sys
from collections.abc import Callable
from decimal import Decimal
from hashlib import sha256
from pathlib import Path
from types import FrameType

import uvicorn

from sandboxes.localkube.addresses import Addresses
from sandboxes.localkube.api import Api, prefix
from sandboxes.localkube.cluster import SIMULATED, Cluster, Node
from sandboxes.localkube.kubelet import Kubelet
from sandboxes.localkube.launcher import Launcher, raise_file_limit
from sandboxes.localkube.processes import RealContainers
from sandboxes.localkube.simulation import Settings, SimulatedContainers

log = logging.getLogger("localkube")
_BACKLOG = 2048
_NAME = "localkube"
SIMULATED_MEMORY = Decimal(1 << 42)


def flags(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("localkube", description=__doc__)
    add = parser.add_argument
    add("--port", type=int, default=0, help="0 takes a free one")
    add("--fd", type=int, help="an already listening socket to serve on instead")
    add("--state", type=Path, required=True, help="folder for logs and the token; emptied of Pods at start")
    add("--kubeconfig", type=Path, required=True, help="written once ready to serve")
    add("--namespace", default="agentbox")
    add("--node-name", default=socket.gethostname().lower(), help="empty: no real node")
    add("--node-cpu", type=Decimal, default=Decimal(os.cpu_count() or 1))
    add("--node-memory", type=Decimal, default=Decimal(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")))
    add("--max-pods", type=int, default=110)
    add("--image", action="append", default=[], help="a name of an image that exists; '*' means all do")
    add("--mount", action="append", default=[], metavar="SRC:DST", help="read-only into every Pod")
    add("--hide", action="append", default=[], type=Path, help="never visible in a Pod")
    add("--unsafe-pods", action="store_true", help="run Pods without isolation")
    add("--simulated-nodes", type=int, default=0)
    add("--simulated-pods-per-node", type=int, default=250)
    add("--simulated-cpu-per-node", type=Decimal, default=Decimal(1000))
    add("--simulate", action="append", default=[], metavar="KEY=VALUE", help=f"one of {', '.join(vars(Settings()))}")
    return parser.parse_args(arguments)


def _mounts(texts: list[str]) -> list[tuple[Path, Path]]:
    pairs: list[tuple[Path, Path]] = []
    for text in texts:
        source, _, destination = text.partition(":")
        if not destination.startswith("/") or not Path(source).exists():
            sys.exit(f"--mount {text}: give SRC:DST, an existing path and an absolute one")
        covered = Path(destination).exists() or any(Path(destination).is_relative_to(where) for _, where in pairs)
        if destination.split("/")[1] in ("usr", "etc", "bin", "lib", "lib64", "sbin") and not covered:
            sys.exit(f"--mount {text}: {destination} must exist on this machine, or be outside /usr and /etc")
        pairs.append((Path(source).resolve(), Path(destination)))
    return pairs


def _prepare_state(state: Path) -> None:
    """A restart starts empty: what a predecessor left is removed (its processes die with it, or with their cgroups)."""
    for name in ("logs", "pods"):
        shutil.rmtree(state / name, ignore_errors=True)
    (state / "root").mkdir(parents=True, exist_ok=True)
    state.chmod(0o700)


def _token(state: Path) -> str:
    """Kept over restarts, so that clients need not read the kubeconfig again."""
    path = state / "token"
    if not path.exists():
        path.touch(0o600)
        path.write_text(secrets.token_urlsafe(32))
    return path.read_text()


def _listen(options: argparse.Namespace) -> socket.socket:
    if options.fd is not None:
        return socket.socket(fileno=options.fd)
    found = socket.socket()
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind(("127.0.0.1", options.port))
    except OSError as error:
        sys.exit(f"localkube cannot listen on port {options.port} ({error.strerror}): choose another --port")
    found.listen(_BACKLOG)
    return found


def _write_kubeconfig(path: Path, port: int, token: str, namespace: str) -> None:
    config = {
        "apiVersion": "v1", "kind": "Config", "current-context": _NAME,
        "clusters": [{"name": _NAME, "cluster": {"server": f"http://127.0.0.1:{port}{prefix(token)}"}}],
        "users": [{"name": _NAME, "user": {"token": token}}],
        "contexts": [{"name": _NAME, "context": {"cluster": _NAME, "user": _NAME, "namespace": namespace}}],
    }  # fmt: skip
    fresh = path.with_suffix(".new")
    fresh.unlink(missing_ok=True)
    fresh.touch(0o600)
    fresh.write_text(json.dumps(config, indent=1))
    fresh.replace(path)


class Server(uvicorn.Server):
    """Calls back when it is ready, and ends open watches when it is told to stop."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None], stopping: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready, self._stopping = ready, stopping

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._ready()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._stopping()
        super().handle_exit(sig, frame)


async def _serve(options: argparse.Namespace, launcher: Launcher, mounts: list[tuple[Path, Path]]) -> None:
    launcher.listen()
    cluster, settings, images, free = Cluster(options.namespace), Settings(), set(options.image), Addresses()
    settings.change(dict(text.partition("=")[::2] for text in options.simulate))
    containers = RealContainers(launcher, options.state, images, [str(where) for _, where in mounts], free)
    real = Kubelet(cluster, containers)
    _add_nodes(options, cluster, real, Kubelet(cluster, SimulatedContainers(settings, free, images)))
    token, listener = _token(options.state), _listen(options)
    app = Api(cluster, real, containers, settings, token).app()
    config = uvicorn.Config(app, log_level="warning", access_log=False, lifespan="off", timeout_graceful_shutdown=2)
    config.timeout_keep_alive = 75
    port = listener.getsockname()[1]

    def ready() -> None:
        _write_kubeconfig(options.kubeconfig, port, token, options.namespace)
        log.info("serving on http://127.0.0.1:%d, kubeconfig %s", port, options.kubeconfig)

    await Server(config, ready, cluster.store.close_watches).serve([listener])


def _add_nodes(options: argparse.Namespace, cluster: Cluster, real: Kubelet, simulated: Kubelet) -> None:
    if options.node_name:
        room = {"cpu": options.node_cpu, "memory": options.node_memory, "pods": Decimal(options.max_pods)}
        cluster.add_node(Node(options.node_name, real, room, {}), "127.0.0.1")
    pods, cpu = Decimal(options.simulated_pods_per_node), options.simulated_cpu_per_node
    for number in range(options.simulated_nodes):
        room = {"cpu": cpu, "memory": SIMULATED_MEMORY, "pods": pods}
        cluster.add_node(Node(f"simulated-{number}", simulated, room, {SIMULATED: "true"}), "127.0.0.1")


def main() -> None:
    logging.basicConfig(level=logging.INFO, format="%(name)s: %(message)s")
    options = flags(sys.argv[1:])
    options.kubeconfig.unlink(missing_ok=True)
    mounts = _mounts(options.mount)
    options.state = options.state.resolve()
    _prepare_state(options.state)
    raise_file_limit()
    gc.set_threshold(50_000, 20, 50)  # thousands of Pods are long-lived objects: look through them seldom
    name = f"localkube-{sha256(bytes(options.state)).hexdigest()[:12]}"
    hidden = [str(path) for path in [*options.hide, options.state]]
    shape = {"unsafe": options.unsafe_pods, "name": name, "base": str(options.state / "root"), "hidden": hidden}
    launcher = Launcher(shape | {"mounts": [[str(source), str(destination)] for source, destination in mounts]})
    if launcher.refused:
        log.warning("%s", launcher.refused)
    elif not launcher.limits:
        log.warning("no limits: control groups cannot be written here, so Pods may take what memory they want")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # uvicorn hands the signal on when it has closed everything
    try:
        with asyncio.Runner(loop_factory=uvicorn.Config("", loop="auto").get_loop_factory()) as runner:
            runner.run(_serve(options, launcher, mounts))
    except KeyboardInterrupt:
        log.info("stopped")
    finally:
        launcher.close()


if __name__ == "__main__":
    main()
