"""Images: what is in their layers, and that registries and runtimes are given what they expect."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from deploy.oci.image import Image, Layer, image, save
from deploy.oci.problem import Problem
from deploy.oci.registry import parsed, push


class Registry(BaseHTTPRequestHandler):
    """As much of the distribution protocol as a push needs; it checks digests as real ones do."""

    blobs: dict[str, bytes] = {}
    manifests: dict[str, bytes] = {}
    calls: list[str] = []

    def do_HEAD(self) -> None:
        self.answer(200 if self.path.rpartition("/")[2] in self.blobs else 404)

    def do_POST(self) -> None:
        self.answer(403 if "closed" in self.path else 202, Location="/upload?state=some")

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if "/manifests/" in self.path:
            self.manifests[self.path.rpartition("/")[2]] = body
            return self.answer(201 if self.headers["Content-Type"].startswith("application/vnd.oci.image") else 400)
        digest = parse_qs(urlsplit(self.path).query)["digest"][0]
        self.blobs[digest] = body
        return self.answer(201 if digest == f"sha256:{hashlib.sha256(body).hexdigest()}" else 400)

    def answer(self, status: int, **headers: str) -> None:
        self.calls.append(self.command)
        body = b'{"errors":[{"code":"DENIED"}]}' if status == 403 else b""
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture
def registry() -> Iterator[str]:
    Registry.blobs, Registry.manifests, Registry.calls = {}, {}, []
    server = ThreadingHTTPServer(("127.0.0.1", 0), Registry)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def small() -> Image:
    layer = Layer()
    layer.folder("tmp", 0o1777)
    layer.file("bin/tool", b"tool", 0o755)
    layer.link("bin/other", "tool")
    return image(layer, Env=["PATH=/bin"], User="1000")


def entries(made: Image) -> dict[str, tarfile.TarInfo]:
    with tarfile.open(fileobj=io.BytesIO(gzip.decompress(made.layers[0].data))) as tar:
        return {entry.name: entry for entry in tar}


def test_layers_keep_modes_and_links_and_no_times_or_owners(small: Image) -> None:
    found = entries(small)
    assert found["tmp"].mode == 0o1777
    assert found["bin/tool"].mode == 0o755
    assert found["bin/other"].linkname == "tool"
    assert {(entry.mtime, entry.uid, entry.gid) for entry in found.values()} == {(0, 0, 0)}


def test_the_config_says_what_to_run_and_which_layers(small: Image) -> None:
    config = json.loads(small.config.data)
    assert config["config"] == {"Env": ["PATH=/bin"], "User": "1000"}
    unpacked = hashlib.sha256(gzip.decompress(small.layers[0].data)).hexdigest()
    assert config["rootfs"]["diff_ids"] == [f"sha256:{unpacked}"]


def test_a_push_uploads_what_is_missing_and_names_the_image_by_digest(small: Image, registry: str) -> None:
    name = push(small, f"{registry}/some/image:1")
    assert name == f"{registry}/some/image@{small.manifest.digest}"
    assert Registry.manifests == {"1": small.manifest.data}
    assert Registry.blobs == {blob.digest: blob.data for blob in small.blobs}
    Registry.calls.clear()
    push(small, f"{registry}/some/image:2")
    assert Registry.calls == ["HEAD", "HEAD", "PUT"]


def test_a_refusal_is_told_in_the_registrys_words(small: Image, registry: str) -> None:
    with pytest.raises(Problem, match=r"403 Forbidden.*DENIED"):
        push(small, f"{registry}/closed:1")


def test_a_registry_that_is_not_there_is_named(small: Image) -> None:
    with pytest.raises(Problem, match=r"cannot be reached at http://127.0.0.1:1/"):
        push(small, "127.0.0.1:1/image:1")


def test_only_this_machine_is_spoken_to_without_encryption() -> None:
    assert parsed("localhost:5000/a/b:1").url == "http://localhost:5000/v2/a/b"
    assert parsed("registry.example/a:1").url == "https://registry.example/v2/a"


@pytest.mark.parametrize("name", ["", "image", "image:1", "registry/image", "registry/IMAGE:1", "registry/image:1@x"])
def test_an_incomplete_name_is_refused(name: str) -> None:
    with pytest.raises(Problem, match="REGISTRY/REPOSITORY:TAG"):
        parsed(name)


def test_a_saved_image_is_an_oci_layout(small: Image, tmp_path: Path) -> None:
    save(small, "registry.example/image:7", tmp_path / "image.tar")
    with tarfile.open(tmp_path / "image.tar") as tar:
        files = {entry.name: tar.extractfile(entry).read() for entry in tar}
    (manifest,) = json.loads(files["index.json"])["manifests"]
    assert manifest["annotations"]["io.containerd.image.name"] == "registry.example/image:7"
    assert files[f"blobs/{manifest['digest'].replace(':', '/')}"] == small.manifest.data
    assert len(files) == 2 + 1 + len(small.blobs)
