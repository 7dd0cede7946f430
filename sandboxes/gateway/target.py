"""Which sandbox and port a request is for. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

from sandboxes.serving.asgi import Scope, header

LABEL = re.compile(r"(?P<port>[0-9]+)-(?P<id>.*)")
SANDBOX_ID = re.compile(r"[a-z0-9]{1,40}")


class BadTarget(Exception):
    """The host or the headers name no possible sandbox; the text says what is wrong."""


@dataclass(frozen=True, slots=True)
class Target:
    sandbox_id: str
    port: int


def target_of(scope: Scope, envd_port: int) -> Target | None:
    """None = not for a sandbox. Host names win, because signed URLs carry no headers. Raises BadTarget."""
    host = (header(scope, b"host") or "").lower()
    if match := LABEL.fullmatch(host.partition(":")[0].partition(".")[0]):
        return checked(match["id"].partition("-")[0], match["port"])
    sandbox_id = header(scope, b"e2b-sandbox-id")
    if sandbox_id is None:
        return None
    return checked(sandbox_id.lower().partition("-")[0], header(scope, b"e2b-sandbox-port") or str(envd_port))


def checked(sandbox_id: str, port: str) -> Target:
    if not (port.isascii() and port.isdigit() and len(port) <= 5 and 1 <= int(port) <= 65535):
        raise BadTarget(f"Invalid sandbox port {port[:20]!r}: it must be a number from 1 to 65535.")
    if not SANDBOX_ID.fullmatch(sandbox_id):
        raise BadTarget("Invalid sandbox ID: it must be letters and digits, as create answered it.")
    return Target(sandbox_id, int(port))
