"""An image made by hand, pushed to a stand-in that checks what a registry checks."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from urllib.parse import parse_qs, urlsplit

import pytest

from console.kubernetes import registry


class Registry(BaseHTTPRequestHandler):
    blobs: dict[str, bytes] = {}
    manifests: dict[str, bytes] = {}

    def do_POST(self) -> None:
        self.answer(202, {"Location": f"http://{self.headers['Host']}/upload/1?state=x"})

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path.startswith("/v2/refused"):
            self.answer(400, {}, b"name unknown")
        elif "/manifests/" in self.path:
            self.manifests[self.path] = body
            self.answer(201, {})
        else:
            digest = parse_qs(urlsplit(self.path).query)["digest"][0]
            assert digest == "sha256:" + hashlib.sha256(body).hexdigest()
            self.blobs[digest] = body
            self.answer(201, {})

    def answer(self, status: int, headers: dict[str, str], body: bytes = b"") -> None:
        self.send_response(status)
        for name, value in ({"Content-Length": str(len(body))} | headers).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def address() -> Iterator[str]:
    Registry.blobs, Registry.manifests = {}, {}
    with HTTPServer(("127.0.0.1", 0), Registry) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_an_image_is_pushed_whole(address: str) -> None:
    files: registry.Files = {"/bin/tool": b"program", "/bin/link": "tool"}
    assert registry.push(address, "tests/one", "2", files, {"Cmd": ["/bin/tool"]}) == f"{address}/tests/one:2"
    manifest = json.loads(Registry.manifests["/v2/tests/one/manifests/2"])
    config = json.loads(Registry.blobs[manifest["config"]["digest"]])
    assert config["config"] == {"Cmd": ["/bin/tool"]}
    layer = gzip.decompress(Registry.blobs[manifest["layers"][0]["digest"]])
    assert config["rootfs"]["diff_ids"] == [registry.digest(layer)]
    with tarfile.open(fileobj=io.BytesIO(layer)) as tar:
        assert tar.extractfile("bin/tool").read() == b"program"
        assert tar.getmember("bin/tool").mode == 0o755
        assert tar.getmember("bin/link").linkname == "tool"


def test_a_refusal_is_told_in_the_registrys_words(address: str) -> None:
    with pytest.raises(OSError, match="answers 400 to PUT /v2/refused/manifests/1: name unknown"):
        registry.push(address, "refused", "1", {"a": b""}, {})
