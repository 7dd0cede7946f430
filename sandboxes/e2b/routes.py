"""Which path is answered by what. Both generations of the SDK are served (e2b-protocol 0.1)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from . import lifetime, listing, observing, templates
from .answers import Answer
from .call import Call
from .create import create

type Endpoint = Callable[[Call], Awaitable[Answer]]

ENDPOINTS: list[tuple[str, str, Endpoint]] = [
    ("POST", "/v2/sandboxes", create),
    ("POST", "/sandboxes", create),
    ("GET", "/v2/sandboxes", listing.list_page),
    ("GET", "/sandboxes", listing.list_all),
    ("GET", "/sandboxes/metrics", observing.metrics_of_many),
    ("GET", "/sandboxes/{sandbox}", lifetime.info),
    ("DELETE", "/sandboxes/{sandbox}", lifetime.kill),
    ("POST", "/sandboxes/{sandbox}/timeout", lifetime.set_timeout),
    ("POST", "/sandboxes/{sandbox}/refreshes", lifetime.refresh),
    ("POST", "/v2/sandboxes/{sandbox}/connect", lifetime.connect),
    ("POST", "/sandboxes/{sandbox}/connect", lifetime.connect),
    ("GET", "/sandboxes/{sandbox}/metrics", observing.metrics),
    ("GET", "/sandboxes/{sandbox}/logs", observing.logs),
    ("GET", "/v2/sandboxes/{sandbox}/logs", observing.logs_v2),
    ("GET", "/templates", templates.list_templates),
    ("GET", "/v2/templates", templates.list_templates),
    ("GET", "/default-templates", templates.list_none),
    ("GET", "/templates/aliases/{alias}", templates.alias),
    ("DELETE", "/templates/{template}", templates.delete_template),
]

NOT_SUPPORTED = """
POST /sandboxes/{sandbox}/pause
POST /sandboxes/{sandbox}/resume
POST /sandboxes/{sandbox}/snapshots
POST /sandboxes/{sandbox}/fork
PUT /sandboxes/{sandbox}/network
GET /snapshots
POST /templates
POST /v2/templates
POST /v3/templates
GET /templates/{template}
POST /templates/{template}
PATCH /templates/{template}
PATCH /v2/templates/{template}
GET /templates/{template}/files/{hash}
POST /templates/{template}/builds/{build}
POST /v2/templates/{template}/builds/{build}
GET /templates/{template}/builds/{build}/status
GET /templates/{template}/builds/{build}/logs
POST /templates/tags
DELETE /templates/tags
GET /templates/{template}/tags
GET /templates/{template}/tags/count
GET /templates/{template}/tags/exists
GET /templates/{template}/tags/groups
GET /templates/{template}/tags/{tag}/assignments
GET /volumes
POST /volumes
GET /volumes/{volume}
DELETE /volumes/{volume}
GET /secrets
POST /secrets
GET /secrets/{secret}
POST /secrets/{secret}
DELETE /secrets/{secret}
GET /teams
GET /teams/{team}/metrics
GET /teams/{team}/metrics/max
"""


class Routes:
    """A tree of path segments; a fixed segment wins over a parameter."""

    def __init__(self) -> None:
        self._root: dict[str, Any] = {}
        for method, path, endpoint in ENDPOINTS:
            self._add(method, path, endpoint)
        for line in NOT_SUPPORTED.split("\n"):
            method, _, path = line.partition(" ")
            if path:
                self._add(method, path, lifetime.not_supported)

    def _add(self, method: str, path: str, endpoint: Endpoint) -> None:
        node = self._root
        for segment in path.strip("/").split("/"):
            node = node.setdefault("{}" if segment.startswith("{") else segment, {})
        node.setdefault("/", {})[method] = (endpoint, names(path))

    def find(self, path: str) -> tuple[dict[str, tuple[Endpoint, list[str]]], list[str]]:
        """(what each method is answered by, the values of the parameters); empty for an unknown path."""
        node, values = self._root, []
        for segment in path.strip("/").split("/"):
            if segment not in node or segment in ("", "/", "{}"):
                if "{}" not in node or not segment:
                    return {}, []
                values.append(segment)
                segment = "{}"
            node = node[segment]
        return node.get("/", {}), values


def names(path: str) -> list[str]:
    return [segment[1:-1] for segment in path.split("/") if segment.startswith("{")]
