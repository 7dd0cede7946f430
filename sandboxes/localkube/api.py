"""The HTTP face: discovery, the verbs on objects, watches, and localkube's own switches under /localkube/."""

import hmac
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from decimal import Decimal
from http import HTTPStatus

from starlette.applications import Starlette
from starlette.requests import HTTPConnection, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route, WebSocketRoute
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocket

from sandboxes.localkube import admission, patches, streams, tables
from sandboxes.localkube.cluster import Cluster
from sandboxes.localkube.kubelet import Kubelet
from sandboxes.localkube.objects import (
    KINDS,
    ApiError,
    Json,
    Kind,
    bad_request,
    field_selector,
    in_words,
    label_selector,
    not_found,
)
from sandboxes.localkube.processes import RealContainers
from sandboxes.localkube.simulation import Settings
from sandboxes.localkube.store import Entry, Wanted, error_line, list_body

WATCH_SECONDS = 1800.0
VERSION = {"major": "1", "minor": "34", "gitVersion": "v1.34.4", "platform": "linux/amd64", "compiler": "python"}
_OPEN = {"/healthz", "/livez", "/readyz", "/version"}
_NO_LIMIT_BYTES = 3 << 20  # a larger body is no Kubernetes object


@dataclass(frozen=True)
class Place:
    """What a path names: a kind, perhaps a namespace, an object and a subresource."""

    kind: Kind
    namespace: str = ""
    name: str = ""
    sub: str = ""

    @classmethod
    def parse(cls, path: str) -> "Place":
        parts = path.strip("/").split("/")
        namespace = ""
        if parts[0] == "namespaces" and len(parts) > 2:
            _, namespace, *parts = parts
        kind = KINDS.get(parts[0])
        if kind is None or len(parts) > 3 or (kind.namespaced is False and namespace):
            raise ApiError(404, "NotFound", "the server could not find the requested resource")
        return cls(kind, namespace, *parts[1:])

    @property
    def key(self) -> tuple[str, str]:
        return (self.namespace, self.name)


class Api:
    def __init__(self, cluster: Cluster, real: Kubelet, runs: RealContainers, settings: Settings, token: str) -> None:
        self._cluster = cluster
        self._kubelet = real
        self._containers = runs
        self._settings = settings
        self._token = token
        self._calls: Counter[tuple[str, str, str, str]] = Counter()

    def app(self) -> ASGIApp:
        every = ["GET", "POST", "PUT", "PATCH", "DELETE"]
        routes = [
            WebSocketRoute("/api/v1/{path:path}", self._exec),
            Route("/api/v1/{path:path}", self._objects, methods=every),
            Route("/localkube/{path:path}", self._switches, methods=every),
            Route("/{path:path}", self._discovery),
        ]
        return Guard(Starlette(routes=routes, exception_handlers={ApiError: _told}), self._token)

    # ---- objects -----------------------------------------------------------------------------------------------

    async def _objects(self, request: Request) -> Response:
        place = Place.parse(request.path_params["path"])
        if place.sub == "log" and place.kind.plural == "pods" and request.method == "GET":
            self._count("get", place)
            return self._log(place, request)
        if place.sub == "exec":
            raise bad_request("Upgrade request required")
        if place.sub not in ("", "status"):
            raise ApiError(404, "NotFound", "the server could not find the requested resource")
        verb = self._verb(place, request)
        self._count(verb, place)
        body = await request.body()
        if len(body) > _NO_LIMIT_BYTES:
            raise ApiError(413, "RequestEntityTooLarge", "Request entity too large: limit is 3145728")
        answer: Callable[[Place, Request, bytes], Response] = getattr(self, f"_{verb}")
        return answer(place, request, body)

    def _count(self, verb: str, place: Place) -> None:
        """As a role names it: verb, resource, namespace, and the name of what is in none."""
        resource = f"{place.kind.plural}/{place.sub}" if place.sub else place.kind.plural
        self._calls[verb, resource, place.namespace, "" if place.kind.namespaced else place.name] += 1

    def _verb(self, place: Place, request: Request) -> str:
        watching = request.query_params.get("watch") in ("true", "1")
        reading = "get" if place.name else "watch" if watching else "list"
        verb = {"GET": reading, "DELETE": "delete", "PATCH": "patch", "POST": "create"}.get(request.method, "")
        needs_name = verb in ("get", "delete", "patch")
        if verb not in place.kind.verbs or bool(place.name) is not needs_name or (place.sub and verb != "get"):
            raise ApiError(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")
        return verb

    def _get(self, place: Place, request: Request, _body: bytes) -> Response:
        self._count_quotas(place.kind)
        return _shown(place.kind, [self._cluster.get(place.kind, place.key)], request)

    def _list(self, place: Place, request: Request, _body: bytes) -> Response:
        self._count_quotas(place.kind)
        query, wanted = request.query_params, self._wanted(place, request)
        limit, version = _number(query, "limit"), _version(query.get("resourceVersion", ""))
        exact = _match(query.get("resourceVersionMatch", ""), version) == "Exact"
        page = self._cluster.of(place.kind).page(wanted, limit, query.get("continue", ""), version, exact=exact)
        if tables.wanted(request.headers.get("accept", "")):
            return Response(tables.encode(place.kind, page.entries, page), media_type="application/json")
        return Response(list_body(place.kind, page), media_type="application/json")

    def _watch(self, place: Place, request: Request, _body: bytes) -> Response:
        query = request.query_params
        seconds = float(_number(query, "timeoutSeconds") or WATCH_SECONDS)
        collection, wanted = self._cluster.of(place.kind), self._wanted(place, request)
        try:
            watcher = collection.watch(wanted, _version(query.get("resourceVersion", "")))
        except ApiError as error:
            return Response(error_line(error), media_type="application/json")
        stream = watcher.stream(seconds, query.get("allowWatchBookmarks") in ("true", "1"))
        if tables.wanted(request.headers.get("accept", "")):
            stream = tables.watch(place.kind, stream)
        return StreamingResponse(stream, media_type="application/json")

    def _wanted(self, place: Place, request: Request) -> Wanted:
        labels, fields = request.query_params.get("labelSelector"), request.query_params.get("fieldSelector")
        by_field = field_selector(place.kind, fields) if fields else None
        return Wanted(place.namespace, label_selector(labels) if labels else None, by_field)

    def _create(self, place: Place, request: Request, body: bytes) -> Response:
        entry = self._cluster.create(place.kind, place.namespace, admission.parse(body))
        return _shown(place.kind, [entry], request, HTTPStatus.CREATED)

    def _patch(self, place: Place, request: Request, body: bytes) -> Response:
        content_type = request.headers.get("content-type", "").partition(";")[0].strip()
        entry = self._cluster.patch(place.kind, place.key, patches.parse(body, content_type), content_type)
        return _shown(place.kind, [entry], request)

    def _delete(self, place: Place, request: Request, body: bytes) -> Response:
        options = admission.parse(body) if body else {}
        if "gracePeriodSeconds" in request.query_params:
            options["gracePeriodSeconds"] = _number(request.query_params, "gracePeriodSeconds")
        grace = options.get("gracePeriodSeconds")
        if grace is not None and not isinstance(grace, int):
            raise bad_request(f"gracePeriodSeconds: {grace!r} must be a whole number")
        entry = self._cluster.delete(place.kind, place.key, options)
        return Response(entry.body, media_type="application/json")

    def _count_quotas(self, kind: Kind) -> None:
        """Quotas show what is used now; counted when somebody looks."""
        if kind.plural != "resourcequotas":
            return
        for entry in list(self._cluster.of(kind).entries.values()):
            quota = entry.load()
            used = self._cluster.used(entry.key[0])
            hard = quota["spec"].get("hard", {})
            counted = {name: in_words(used.get(name, Decimal(0)), name) for name in hard}
            if quota.get("status") != {"hard": hard, "used": counted}:
                self._cluster.of(kind).put(quota | {"status": {"hard": hard, "used": counted}})

    # ---- streams -----------------------------------------------------------------------------------------------

    def _log(self, place: Place, request: Request) -> Response:
        pod, query = self._cluster.get(place.kind, place.key).load(), request.query_params
        life = self._kubelet.lives.get(pod["metadata"]["uid"])
        ask = streams.asked(query, place.name)
        found = streams.log_of(pod, life.run if life else None, query)
        if found is None:
            return Response(status_code=HTTPStatus.NO_CONTENT)
        if query.get("follow") in ("true", "1"):
            return StreamingResponse(found.follow(ask), media_type="text/plain")
        return PlainTextResponse(ask.shown(found.lines()))

    async def _exec(self, websocket: WebSocket) -> None:
        query = websocket.query_params
        try:
            place = Place.parse(websocket.path_params["path"])
            if place.sub != "exec":
                raise not_found(place.kind, place.name)
            self._count("get", place)
            pod = self._cluster.get(place.kind, place.key).load()
            container = streams.main_container(pod, query)
            if not pod["spec"].get("nodeName"):
                raise bad_request(f"pod {place.name} does not have a host assigned")
        except ApiError as error:
            return await websocket.send_denial_response(JSONResponse(error.status, error.code))
        life = self._kubelet.lives.get(pod["metadata"]["uid"])
        if life is None or life.run is None or not life.run.running:
            return await streams.refuse(websocket, container)
        return await streams.execute(websocket, self._containers, life, query.getlist("command"))

    # ---- switches and discovery --------------------------------------------------------------------------------

    async def _switches(self, request: Request) -> Response:
        match request.method, request.path_params["path"].split("/"):
            case "GET", ["simulation"]:
                pass
            case "GET", ["calls"]:
                return JSONResponse([[*call, count] for call, count in sorted(self._calls.items())])
            case "PUT", ["simulation"]:
                self._settings.change(admission.parse(await request.body()))
            case "POST", ["compact"]:
                self._cluster.store.compact()
            case "POST", ["close-watches"]:
                self._cluster.store.close_watches()
            case "POST", ["nodes", name, "down"]:
                self._cluster.node_down(name, self._settings.node_eviction)
            case _:
                raise ApiError(404, "NotFound", "the server could not find the requested resource")
        return JSONResponse(asdict(self._settings))

    async def _discovery(self, request: Request) -> Response:
        path = request.path_params["path"].rstrip("/")
        if path in ("healthz", "livez", "readyz"):
            return PlainTextResponse("ok")
        found: dict[str, Json] = {
            "version": VERSION,
            "api": {"kind": "APIVersions", "versions": ["v1"]},
            "apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": []},
            "api/v1": {"kind": "APIResourceList", "groupVersion": "v1", "resources": _resources()},
        }
        if path not in found:
            raise ApiError(404, "NotFound", "the server could not find the requested resource")
        return JSONResponse(found[path])


class Guard:
    """The token, checked before anything else sees a request: as bearer, or in front of the path, since kubectl sends
    no bearer token over plain HTTP."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._expected = f"Bearer {token}"
        self._prefix = prefix(token)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan" or scope["path"] in _OPEN:
            return await self._app(scope, receive, send)
        if scope["path"].startswith(self._prefix):
            path = scope["path"].removeprefix(self._prefix)
            return await self._app({**scope, "path": path, "raw_path": path.encode()}, receive, send)
        given = HTTPConnection(scope).headers.get("authorization", "")
        if hmac.compare_digest(given.encode(), self._expected.encode()):
            return await self._app(scope, receive, send)
        denied = JSONResponse(ApiError(401, "Unauthorized", "Unauthorized").status, 401)
        if scope["type"] == "websocket":
            return await WebSocket(scope, receive, send).send_denial_response(denied)
        return await denied(scope, receive, send)


def prefix(token: str) -> str:
    return f"/as/{token}"


def _told(_request: Request, error: Exception) -> Response:
    if not isinstance(error, ApiError):
        raise error
    return JSONResponse(error.status, error.code)


def _shown(kind: Kind, entries: list[Entry], request: Request, code: int = 200) -> Response:
    if tables.wanted(request.headers.get("accept", "")):
        return Response(tables.encode(kind, entries), code, media_type="application/json")
    return Response(entries[0].body, code, media_type="application/json")


def _number(query: Mapping[str, str], name: str) -> int:
    text = query.get(name) or "0"
    if not text.isdigit():
        raise bad_request(f"{name}: {text!r} must be a whole number not below 0")
    return int(text)


def _version(text: str) -> str:
    if text and not text.isdigit():
        raise ApiError(400, "Invalid", f'resourceVersion: Invalid value: "{text}": must be a number')
    return text


def _match(text: str, version: str) -> str:
    """How a list's version is meant, checked as the real API does."""
    why = ""
    if text and not version:
        why = "Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided"
    if text not in ("", "Exact", "NotOlderThan"):
        why = f'Unsupported value: "{text}": supported values: "Exact", "NotOlderThan", ""'
    if text == "Exact" and version == "0":
        why = 'Forbidden: resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
    if why:
        message = f'ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: {why}'
        raise ApiError(422, "Invalid", message)
    return text


def _resources() -> list[Json]:
    subs = [("pods/log", "Pod", ["get"]), ("pods/exec", "PodExecOptions", ["get", "create"])]
    whole = [
        {"name": kind.plural, "singularName": kind.name.lower(), "namespaced": kind.namespaced, "kind": kind.name,
         "verbs": list(kind.verbs), "shortNames": list(kind.short)}
        for kind in KINDS.values()
    ]  # fmt: skip
    return [*whole, *({"name": n, "singularName": "", "namespaced": True, "kind": k, "verbs": v} for n, k, v in subs)]
