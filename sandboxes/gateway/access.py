"""What a caller may reach through the gateway: envd's public paths with the sandbox's token, user ports freely."""

from __future__ import annotations

import hmac

from sandboxes.serving.asgi import Scope, header

from .routes import Route

HIDDEN = {"init", "freeze", "upgrade"}
"""envd's paths for the edge alone."""


def hidden(scope: Scope) -> bool:
    """Whether the outside must not know this path of envd, however it is written."""
    segments = [segment for segment in scope["path"].split("/") if segment not in ("", ".")]
    return (bool(segments) and segments[0].lower() in HIDDEN) or ".." in segments


def allowed(scope: Scope, route: Route) -> bool:
    """The token, or a path that envd lets through: its health, and signed file URLs, which envd verifies itself."""
    token = header(scope, b"x-access-token")
    if token is not None:
        return hmac.compare_digest(token.encode("latin-1"), route.token.encode())
    path, method = scope["path"], scope["method"]
    if path == "/health":
        return method in ("GET", "HEAD")
    return path == "/files" and method in ("GET", "HEAD", "POST") and b"signature=" in scope["query_string"]
