"""The registry on loopback: its configuration, and pushing a small image that is made by hand.

Image names without a host, such as `agentbox/base:1`, come from here too: containerd is told that this is docker.io.
"""

from __future__ import annotations

import gzip
import hashlib
import http.client
import io
import json
import platform
import secrets
import tarfile
from typing import Any

from . import tools
from .place import Place

LIMIT = 30.0
OCI = "application/vnd.oci.image"
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}

Files = dict[str, bytes | str]
"""Path in the image -> content of a program or file, or the target of a link."""


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


def push(registry: str, name: str, tag: str, files: Files, settings: dict[str, Any]) -> str:
    """Push an image of one layer; returns its reference. `settings` are OCI's: Cmd, Env, User and so on."""
    layer = archive(files)
    packed = gzip.compress(layer, mtime=0)
    description = {
        "architecture": ARCHITECTURES.get(platform.machine(), platform.machine()),
        "os": "linux",
        "config": settings,
        "rootfs": {"type": "layers", "diff_ids": [digest(layer)]},
    }
    parts = [(f"{OCI}.config.v1+json", json.dumps(description).encode()), (f"{OCI}.layer.v1.tar+gzip", packed)]
    described = [{"mediaType": kind, "digest": digest(part), "size": len(part)} for kind, part in parts]
    kind = f"{OCI}.manifest.v1+json"
    manifest = {"schemaVersion": 2, "mediaType": kind, "config": described[0], "layers": described[1:]}
    for _, part in parts:
        upload(registry, name, part)
    ask(registry, "PUT", f"/v2/{name}/manifests/{tag}", json.dumps(manifest).encode(), kind)
    return f"{registry}/{name}:{tag}"


def archive(files: Files) -> bytes:
    """A tar of executable files, with the folders above them."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for path, content in files.items():
            entry = tarfile.TarInfo(path.lstrip("/"))
            entry.mode = 0o755
            if isinstance(content, str):
                entry.type, entry.linkname = tarfile.SYMTYPE, content
            else:
                entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content) if isinstance(content, bytes) else None)
    return stream.getvalue()


def upload(registry: str, name: str, part: bytes) -> None:
    location = ask(registry, "POST", f"/v2/{name}/blobs/uploads/", b"", "")
    separator = "&" if "?" in location else "?"
    path = "/" + location.partition("://")[2].partition("/")[2]
    ask(registry, "PUT", f"{path}{separator}digest={digest(part)}", part, "application/octet-stream")


def ask(registry: str, verb: str, path: str, body: bytes, kind: str) -> str:
    """Returns the answer's Location."""
    connection = http.client.HTTPConnection(registry, timeout=LIMIT)
    try:
        connection.request(verb, path, body, {"Content-Type": kind} if kind else {})
        response = connection.getresponse()
        text = response.read().decode(errors="replace")
    finally:
        connection.close()
    if response.status >= 300:
        raise OSError(f"The registry {registry} answers {response.status} to {verb} {path}: {text[:500]}")
    return response.headers.get("Location") or ""


def digest(content: bytes) -> str:
    return "sha256:" + hashlib.sha256(content).hexdigest()
