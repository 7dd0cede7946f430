"""The registry on loopback.

Image names without a host, such as `agentbox/base:1`, come from here too: containerd is told that this is docker.io.
"""

from __future__ import annotations

import json
import secrets

from . import tools
from .place import Place


def configuration(place: Place, port: int) -> str:
    content = {
        "version": 0.1,
        "log": {"level": "warn", "accesslog": {"disabled": True}},
        "storage": {"filesystem": {"rootdirectory": str(place.registry)}, "delete": {"enabled": True}},
        "http": {"addr": f"127.0.0.1:{port}", "secret": secrets.token_hex(16)},
    }
    return json.dumps(content, indent=2)


def prepare(place: Place, port: int) -> None:
    place.registry.mkdir(exist_ok=True)
    (place.state / "registry.json").write_text(configuration(place, port))


def command(place: Place) -> list[str]:
    return [tools.program("docker-registry"), "serve", str(place.state / "registry.json")]
