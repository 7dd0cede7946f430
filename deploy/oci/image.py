"""Container images as the OCI specifies them: compressed tars and two JSON documents, made with the standard library.

No times and no owners go in, so the same files make the same image, byte for byte.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import tarfile
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

MANIFEST_TYPE = "application/vnd.oci.image.manifest.v1+json"
INDEX_TYPE = "application/vnd.oci.image.index.v1+json"
CONFIG_TYPE = "application/vnd.oci.image.config.v1+json"
LAYER_TYPE = "application/vnd.oci.image.layer.v1.tar+gzip"
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
FAST = 1
"""Of gzip's levels: images are packed far more often than they travel far."""


@dataclass(frozen=True)
class Blob:
    kind: str
    data: bytes

    @cached_property
    def digest(self) -> str:
        return digest_of(self.data)

    @property
    def descriptor(self) -> dict[str, Any]:
        return {"mediaType": self.kind, "digest": self.digest, "size": len(self.data)}


def digest_of(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


class Layer:
    """A part of a root file system. Names have no leading slash; all but some folders belongs to root."""

    def __init__(self) -> None:
        self._bytes = io.BytesIO()
        self._tar = tarfile.open(fileobj=self._bytes, mode="w", format=tarfile.GNU_FORMAT)  # noqa: SIM115

    def folder(self, name: str, mode: int = 0o755, owner: int = 0) -> None:
        self._add(name, tarfile.DIRTYPE, mode, owner=owner)

    def file(self, name: str, content: bytes, mode: int = 0o644) -> None:
        self._add(name, tarfile.REGTYPE, mode, content=content)

    def link(self, name: str, target: str) -> None:
        self._add(name, tarfile.SYMTYPE, 0o777, target=target)

    def copy(self, path: Path, name: str) -> None:
        """One file, link or folder of this machine, a folder without what is in it."""
        mode = path.lstat().st_mode & 0o7777
        if path.is_symlink():
            self.link(name, str(path.readlink()))
        elif path.is_dir():
            self.folder(name, mode)
        else:
            self.file(name, path.read_bytes(), mode)

    def copy_tree(self, path: Path, name: str) -> None:
        for each in sorted(path.rglob("*")):
            self.copy(each, f"{name}/{each.relative_to(path)}")

    def _add(self, name: str, kind: bytes, mode: int, content: bytes = b"", target: str = "", owner: int = 0) -> None:
        entry = tarfile.TarInfo(name)
        entry.type, entry.mode, entry.size, entry.linkname = kind, mode, len(content), target
        entry.uid = entry.gid = owner
        self._tar.addfile(entry, io.BytesIO(content))

    def tar(self) -> bytes:
        """The end of it: nothing can be added any more."""
        self._tar.close()
        return self._bytes.getvalue()


@dataclass(frozen=True)
class Image:
    config: Blob
    layers: tuple[Blob, ...]

    @cached_property
    def manifest(self) -> Blob:
        layers = [layer.descriptor for layer in self.layers]
        document = {"schemaVersion": 2, "mediaType": MANIFEST_TYPE, "config": self.config.descriptor, "layers": layers}
        return Blob(MANIFEST_TYPE, encoded(document))

    @property
    def blobs(self) -> list[Blob]:
        """All but the manifest."""
        return [*self.layers, self.config]


def image(*layers: Layer, **run: Any) -> Image:
    """`run` is the `config` of the OCI: Entrypoint, Cmd, Env, User, WorkingDir."""
    tars = [layer.tar() for layer in layers]
    document = {
        "architecture": ARCHITECTURES.get(os.uname().machine, os.uname().machine),
        "os": "linux",
        "config": run,
        "rootfs": {"type": "layers", "diff_ids": [digest_of(tar) for tar in tars]},
    }
    packed = tuple(Blob(LAYER_TYPE, gzip.compress(tar, FAST, mtime=0)) for tar in tars)
    return Image(Blob(CONFIG_TYPE, encoded(document)), packed)


def encoded(document: dict[str, Any]) -> bytes:
    return json.dumps(document, sort_keys=True).encode()


def save(made: Image, name: str, file: Path) -> None:
    """One tar in OCI layout, for `ctr images import`, `docker load` or `skopeo copy oci-archive:...`."""
    names = {"io.containerd.image.name": name, "org.opencontainers.image.ref.name": name.rpartition(":")[2]}
    manifests = [made.manifest.descriptor | {"annotations": names}]
    index = {"schemaVersion": 2, "mediaType": INDEX_TYPE, "manifests": manifests}
    layout = Layer()
    layout.file("oci-layout", encoded({"imageLayoutVersion": "1.0.0"}))
    layout.file("index.json", encoded(index))
    for blob in [*made.blobs, made.manifest]:
        layout.file(f"blobs/{blob.digest.replace(':', '/')}", blob.data)
    file.write_bytes(layout.tar())
