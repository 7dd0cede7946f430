"""Pushing an image to a registry, by the OCI distribution protocol. Without a password: for those there is `save`."""

from __future__ import annotations

import ipaddress
import re
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass

from .image import Blob, Image
from .problem import Problem

SECONDS = 60
NAME = re.compile(r"(?P<host>[^/]+)/(?P<repository>[a-z0-9._/-]+):(?P<tag>[\w.-]{1,128})", re.ASCII)


@dataclass(frozen=True)
class Reference:
    host: str
    repository: str
    tag: str

    @property
    def url(self) -> str:
        """Plain HTTP on this machine only, as container runtimes hold it too."""
        scheme = "http" if is_loopback(urllib.parse.urlsplit(f"//{self.host}").hostname or "") else "https"
        return f"{scheme}://{self.host}/v2/{self.repository}"


def parsed(name: str) -> Reference:
    if match := NAME.fullmatch(name):
        return Reference(**match.groupdict())
    raise Problem(f"{name!r} is not the name of an image: write REGISTRY/REPOSITORY:TAG.")


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def push(image: Image, name: str) -> str:
    """Returns the image's name by its digest, which stays the same whatever is pushed under the tag later."""
    reference = parsed(name)
    for blob in image.blobs:
        if not there(f"{reference.url}/blobs/{blob.digest}"):
            upload(reference, blob)
    manifest = image.manifest
    ask("PUT", f"{reference.url}/manifests/{reference.tag}", manifest.data, manifest.kind)
    return f"{reference.host}/{reference.repository}@{manifest.digest}"


def there(url: str) -> bool:
    try:
        ask("HEAD", url)
    except Problem as problem:
        if isinstance(problem.__cause__, urllib.error.HTTPError) and problem.__cause__.code == 404:
            return False
        raise
    return True


def upload(reference: Reference, blob: Blob) -> None:
    """Where to is the registry's choice: an address that may be relative and may have a query already."""
    start = f"{reference.url}/blobs/uploads/"
    place = urllib.parse.urljoin(start, ask("POST", start, b""))
    joint = "&" if urllib.parse.urlsplit(place).query else "?"
    ask("PUT", f"{place}{joint}digest={urllib.parse.quote(blob.digest)}", blob.data, "application/octet-stream")


def ask(method: str, url: str, body: bytes | None = None, kind: str = "") -> str:
    """The answer's Location. Problem with the registry's own words if it refuses."""
    headers = {"Content-Type": kind} if kind else {}
    request = urllib.request.Request(url, body, headers, method=method)  # noqa: S310
    try:
        with urllib.request.urlopen(request, timeout=SECONDS) as answer:  # noqa: S310
            return str(answer.headers.get("Location", ""))
    except urllib.error.HTTPError as error:
        said = error.read(300).decode(errors="replace")
        raise Problem(f"The registry refused {method} {url}: {error.code} {error.reason} {said}".strip()) from error
    except OSError as error:
        raise Problem(f"The registry cannot be reached at {url}: {error}") from error
