"""Looked at before anything is started, so that a start that cannot succeed says why in one sentence."""

from __future__ import annotations

import fcntl
import os
import secrets
import subprocess
import sys
from pathlib import Path
from typing import IO

import psycopg
import redis

from sandboxes.cluster import client

from .child import enter_user_namespace
from .options import Options
from .problem import Problem

NEEDED_MIB = 512
LONGEST_VAR = 80
"""Bytes: PostgreSQL's socket is 26 longer, and a Unix socket's path ends at 107."""
OTHER_VAR = "set AGENTBOX_VAR to a folder elsewhere"


def platform() -> None:
    if sys.platform != "linux":
        raise Problem("AgentBox runs on Linux only: its sandboxes are Linux namespaces. Use a Linux machine or VM.")


def state_folder(var: Path) -> None:
    """`var` exists, is ours alone, takes writes and has room."""
    if len(os.fsencode(var)) > LONGEST_VAR:
        raise Problem(f"The path {var} is too long for Unix sockets: {OTHER_VAR} of at most {LONGEST_VAR} bytes.")
    try:
        var.mkdir(mode=0o700, parents=True, exist_ok=True)
        probe = var / "probe"
        probe.write_bytes(b"0" * 4096)
        probe.unlink()
    except OSError as error:
        raise Problem(f"{var} cannot be written ({error.strerror}): make it writable, or {OTHER_VAR}.") from error
    free = os.statvfs(var)
    if (mib := free.f_bavail * free.f_frsize // 2**20) < NEEDED_MIB:
        raise Problem(f"Only {mib} MiB are free in {var}, {NEEDED_MIB} are needed: free some, or {OTHER_VAR}.")


def alone(var: Path) -> IO[str]:
    """The lock of the one supervisor of this folder; the kernel frees it when we end, however that happens."""
    lock = (var / "up.lock").open("a+")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        lock.seek(0)
        pid = lock.read().strip() or "unknown"
        advice = "stop it with Ctrl-C there, or set AGENTBOX_VAR and PORT to run a second one"
        raise Problem(f"AgentBox already runs on {var} (process {pid}): {advice}.") from error
    lock.truncate(0)
    lock.write(str(os.getpid()))
    lock.flush()
    return lock


def namespaces(options: Options) -> None:
    if options.kubeconfig or options.unsafe_pods or namespaces_allowed():
        return
    raise Problem(
        "The kernel allows no namespaces here, so sandboxes cannot be isolated: allow them (sysctl "
        "kernel.unprivileged_userns_clone=1, or run the container with --security-opt seccomp=unconfined), or run "
        "sandboxes as plain processes, for code you trust only: make run ARGS=--unsafe-pods."
    )


def namespaces_allowed() -> bool:
    def enter() -> None:  # pragma: no cover - between fork and exec nobody measures
        enter_user_namespace(0)
        os.unshare(os.CLONE_NEWNS | os.CLONE_NEWPID | os.CLONE_NEWNET | os.CLONE_NEWUTS | os.CLONE_NEWIPC)

    try:
        subprocess.run(["true"], preexec_fn=enter, check=True, timeout=5)
    except (OSError, subprocess.SubprocessError):
        return False
    return True


def given_servers(options: Options) -> None:
    """What we were told to use answers."""
    if options.database_url:
        try:
            psycopg.connect(options.database_url, connect_timeout=5).close()
        except psycopg.Error as error:
            text = str(error).strip().splitlines()[0]
            raise Problem(f"DATABASE_URL does not work ({text}): correct it, or unset it to use our own.") from error
    if options.redis_url:
        try:
            with redis.Redis.from_url(options.redis_url, socket_timeout=5, socket_connect_timeout=5) as server:
                server.ping()
        except (redis.RedisError, ValueError) as error:
            raise Problem(f"REDIS_URL does not work ({error}): correct it, or unset it to use our own.") from error
    if options.kubeconfig:
        given_cluster(options.kubeconfig)


def given_cluster(kubeconfig: str) -> None:
    try:
        client.connect(kubeconfig, "default").uid()
    except Exception as error:  # whatever is wrong with it, the person needs the sentence
        text = str(error).strip().splitlines()[0]
        raise Problem(f"KUBECONFIG={kubeconfig} does not work ({text}): correct it, or unset it.") from error


def secret_key(var: Path) -> None:
    """Made once; settings read it."""
    file = var / "secret_key"
    if not file.exists():
        write_private(file, secrets.token_hex(32))


def write_private(file: Path, text: str) -> None:
    """Write a file whole and readable by its owner only."""
    fresh = file.with_name(f"{file.name}.new")
    fresh.unlink(missing_ok=True)
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as stream:
        stream.write(text)
    fresh.rename(file)
