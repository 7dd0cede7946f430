"""Everything that `manage.py up` runs, in the order of the design: servers, cluster, the five processes."""

from __future__ import annotations

import compileall
import functools
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from signal import Signals

from . import interpreter, postgresql, valkey
from .options import ROOT, Options
from .program import Program, Ready, http_ready

FACES, WORK, CLUSTER, SERVERS = range(4)
"""Stages of stopping: first nobody asks, then nobody acts, then the Pods end, last what they all stand on."""
BACKGROUND = 10
"""Niceness of what refills and observes: on one machine those who wait for a claim come first."""
EDGES = ("edge-1", "edge-2")
ENVD = "/opt/agentbox"
CLUSTER_NAME = "local"
NAMESPACE = "agentbox"
IMAGE = "agentbox/base:1"
ENVD_IMAGE = "agentbox/envd:1"
"""Brings envd into the Pods of a real cluster; localkube's have it by a mount."""
NODE = ["--node-name", "local", "--node-cpu", "200", "--node-memory", str(400 * 2**30), "--max-pods", "200"]
"""A demo's sandboxes mostly wait, so the node takes far more of them than it has CPUs."""
WEBSOCKETS = ["--ws", "websockets", "--ws-ping-interval", "20", "--ws-max-size", "65536", "--ws-max-queue", "16"]
WEBSOCKETS += ["--ws-per-message-deflate", "false"]
SERVING = ["--timeout-graceful-shutdown", "2", "--timeout-keep-alive", "75", "--log-level", "warning"]
"""Connections stay open for longer than clients keep idle ones, else a client may reuse one that is being closed."""


def programs(options: Options, web_socket: int, edge_socket: int, kubernetes_port: int) -> list[Program]:
    environment = shared_environment(options)
    servers = [*own_postgresql(options), *own_valkey(options)]
    names = tuple(program.name for program in servers)
    cluster = [] if options.kubeconfig else [localkube(options, environment, kubernetes_port)]
    watched = ("prepare", *(program.name for program in cluster))

    def python(name: str, command: list[str], after: tuple[str, ...], stage: int, once: bool = False) -> Program:
        return Program(name, command, named(environment, name), after, stage=stage, once=once)

    def background(name: str, command: list[str], after: tuple[str, ...], stage: int) -> Program:
        return replace(python(name, command, after, stage), nice=BACKGROUND)

    # Passes may be cut anywhere (a test kills the worker under load), and Celery's own ways to stop take seconds.
    return [
        *servers,
        *cluster,
        python("prepare", manage("prepare"), names, WORK, once=True),
        replace(background("worker", worker(), ("prepare",), WORK), stop_signal=Signals.SIGKILL),
        background("beat", beat(), ("prepare",), FACES),
        background("watcher", manage("watch", "--cluster", CLUSTER_NAME), watched, WORK),
        face("web", web(web_socket), options.port, web_socket, environment),
        *(face(name, edge(edge_socket), options.edge_port, edge_socket, environment) for name in EDGES),
    ]


def face(name: str, command: list[str], port: int, socket: int, environment: dict[str, str]) -> Program:
    ready = http_ready(port, "/readyz")
    return Program(name, command, named(environment, name), ("prepare",), ready, FACES, sockets=(socket,))


def named(environment: dict[str, str], name: str) -> dict[str, str]:
    """So that pg_stat_activity says whose a connection is."""
    return environment | {"PGAPPNAME": name}


def shared_environment(options: Options) -> dict[str, str]:
    """What every process of ours is told. The secret key stays in its file: an environment is easily shown."""
    return os.environ | {
        "AGENTBOX_VAR": str(options.var),
        "DATABASE_URL": options.database_url or postgresql.url(options.postgresql, "agentbox"),
        "REDIS_URL": options.redis_url or valkey.url(options.valkey),
        "KUBECONFIG": options.kubeconfig or str(options.local_kubeconfig),
        "AGENTBOX_NAMESPACE": os.environ.get("AGENTBOX_NAMESPACE", NAMESPACE),
        "AGENTBOX_ENVD_IMAGE": os.environ.get("AGENTBOX_ENVD_IMAGE", ENVD_IMAGE if options.single_node else ""),
        "AGENTBOX_EDGE_URL": os.environ.get("AGENTBOX_EDGE_URL", options.edge_url),
        "AGENTBOX_SANDBOX_DOMAIN": os.environ.get("AGENTBOX_SANDBOX_DOMAIN", f"localhost:{options.edge_port}"),
        "DJANGO_SETTINGS_MODULE": "console.settings",
        "PYTHONUNBUFFERED": "1",
    }


def own_postgresql(options: Options) -> list[Program]:
    if options.database_url:
        return []

    def ready() -> bool:
        if not postgresql.ready(options.postgresql):
            return False
        postgresql.create_database(options.postgresql, "agentbox")
        return True

    command = postgresql.command(options.postgresql)
    stop = postgresql.STOP
    return [Program("postgresql", command, plain(), (), when(ready), SERVERS, stop, ordinary=True)]


def own_valkey(options: Options) -> list[Program]:
    if options.redis_url:
        return []
    ready = when(functools.partial(valkey.ready, options.valkey))
    return [Program("valkey", valkey.command(options.valkey), plain(), (), ready, SERVERS, valkey.STOP)]


def when(check: Callable[[], bool]) -> Ready:
    """`check` takes milliseconds: it asks a Unix socket."""

    async def ready() -> bool:
        return check()

    return ready


def plain() -> dict[str, str]:
    return {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C.UTF-8"}


def localkube(options: Options, environment: dict[str, str], port: int) -> Program:
    place = ["--state", str(options.var / "localkube"), "--kubeconfig", str(options.local_kubeconfig)]
    hidden = ["--hide", str(options.var), "--hide", str(ROOT)]
    pods = ["--namespace", NAMESPACE, *NODE, "--image", IMAGE, *hidden, *mounts(options)]
    unsafe = ["--unsafe-pods"] if options.unsafe_pods else []
    command = module("sandboxes.localkube", "--port", str(port), *place, *pods, *unsafe, *options.localkube)
    return Program("localkube", command, environment, (), http_ready(port, "/readyz"), CLUSTER)


def mounts(options: Options) -> list[str]:
    """envd and a Python for it, as the image of a real cluster has them; tasks find the same Python on their PATH."""
    places = [f"{ENVD}/python"] if Path(sys.base_prefix) == Path("/usr") else [f"{ENVD}/python", "/usr/local"]
    envd = ROOT / "sandboxes" / "envd"
    compileall.compile_dir(envd, quiet=2)  # a Pod cannot write it down, and compiling would double its start
    pairs = interpreter.mounts(options.var / "python", places)
    pairs += [(envd, f"{ENVD}/lib/envd"), (envd / "launcher", f"{ENVD}/bin/envd")]
    return [part for source, target in pairs for part in ("--mount", f"{source}:{target}")]


def edge(socket: int) -> list[str]:
    loop = ["--loop", "uvloop", "--http", "httptools", "--no-access-log", "--ws-per-message-deflate", "false"]
    # What users' programs say of themselves passes through the gateway; forwarded addresses are of no use here.
    loop += ["--no-server-header", "--no-proxy-headers"]
    return module("uvicorn", "sandboxes.edge:app", "--fd", str(socket), *loop, *SERVING)


def web(socket: int) -> list[str]:
    # The newer implementation of WebSockets in uvicorn has no bounded queue, so the older one's warning is accepted.
    accepted = [sys.executable, "-W", "ignore:The `websockets` implementation is deprecated"]
    application = ["console.asgi:application", "--fd", str(socket), "--no-access-log"]
    return [*accepted, "-m", "uvicorn", *application, *WEBSOCKETS, *SERVING]


def worker() -> list[str]:
    quiet = ["--without-gossip", "--without-mingle", "--without-heartbeat"]
    return celery("worker", "--pool", "prefork", "--concurrency", "4", *quiet)


def beat() -> list[str]:
    """It keeps no file: passes that were missed are not made up for."""
    return celery("beat", "--scheduler", "celery.beat:Scheduler", "--pidfile", "")


def celery(*arguments: str) -> list[str]:
    """Without its banner, and without its warning about root: whoever runs a demo as root knows."""
    accepted = [sys.executable, "-W", "ignore:You're running the worker with superuser privileges"]
    return [*accepted, "-m", "celery", "--quiet", "-A", "console", *arguments]


def manage(*arguments: str) -> list[str]:
    return [sys.executable, "manage.py", *arguments]


def module(name: str, *arguments: str) -> list[str]:
    return [sys.executable, "-m", name, *arguments]
