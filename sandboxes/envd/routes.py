"""Which path does what. Modules that a sandbox may never need are imported by the first request that does."""

from __future__ import annotations

from . import access, connect, init, jsontext, process_calls
from .connect import STREAM_TYPE, UNARY_TYPE, Stream
from .errors import Gone, HttpError, RpcError
from .http1 import Reply, json_reply, preflight
from .loop import report

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from .http1 import Request
    from .lifetime import Lifetime
    from .loop import Loop
    from .processes import Processes
    from .sandbox import Sandbox
    from .watch import Watchers

    Unary = Callable[[Request], Awaitable[connect.Message]]
    Streaming = Callable[[Request, Stream], Awaitable[None]]
    Plain = Callable[[Request], Awaitable[Reply | None]]

RELAY_HEADER = "x-envd-relay-port"


class Routes:
    def __init__(self, loop: Loop, sandbox: Sandbox, table: Processes, lifetime: Lifetime) -> None:
        self._loop = loop
        self._sandbox = sandbox
        self._table = table
        self._lifetime = lifetime
        self._watchers: Watchers | None = None
        self._plain: dict[str, dict[str, Plain]] = {
            "/health": {"GET": self._health, "HEAD": self._health},
            "/init": {"POST": self._init},
            "/files": {"GET": self._read_file, "HEAD": self._read_file, "POST": self._write_file},
            "/files/compose": {"POST": self._compose},
            "/envs": {"GET": self._envs},
            "/metrics": {"GET": self._metrics},
        }
        self._unary: dict[str, Unary] = {
            "/process.Process/List": lambda request: process_calls.list_processes(table),
            "/process.Process/SendInput": lambda request: process_calls.send_input(table, request),
            "/process.Process/CloseStdin": lambda request: process_calls.close_stdin(table, request),
            "/process.Process/Update": lambda request: process_calls.update(table, request),
            "/process.Process/SendSignal": lambda request: process_calls.send_signal(table, request),
        }
        self._streaming: dict[str, Streaming] = {
            "/process.Process/Start": lambda request, stream: process_calls.start(sandbox, table, request, stream),
            "/process.Process/Connect": lambda request, stream: process_calls.connect(table, request, stream),
            "/process.Process/StreamInput": lambda request, stream: process_calls.stream_input(table, request, stream),
            "/filesystem.Filesystem/WatchDir": self._watch,
        }

    async def answer(self, request: Request) -> Reply | None:
        """The reply to send; None when the route has sent its own."""
        try:
            return await self._answer(request)
        except RpcError as error:
            return connect.error_reply(error)
        except HttpError as error:
            return json_reply(error.status, {"code": error.status, "message": error.message}, close=error.close)

    async def _answer(self, request: Request) -> Reply | None:
        if RELAY_HEADER in request.headers:
            from . import relay

            return await relay.relay(self._loop, self._sandbox, request)
        if request.method == "OPTIONS":
            return preflight(request)
        if methods := self._plain.get(request.path):
            return await self._method(methods, request)(request)
        access.check_token(self._sandbox, request.headers.get("x-access-token", ""))
        return await self._call(request)

    def _method(self, methods: dict[str, Plain], request: Request) -> Plain:
        route = methods.get(request.method)
        if route is None:
            raise HttpError(405, f"{request.path} answers to {', '.join(methods)} only")
        return route

    async def _call(self, request: Request) -> Reply | None:
        streaming = self._streaming.get(request.path)
        unary = self._unary.get(request.path) or self._file_call(request.path)
        if not streaming and not unary:
            raise HttpError(404, f"there is nothing at {request.path[:200]}")
        if request.method != "POST":
            raise HttpError(405, f"{request.path} answers to POST only")
        wanted = STREAM_TYPE if streaming else UNARY_TYPE
        if connect.media_type(request) != wanted:
            raise HttpError(415, f"the header Content-Type must be {wanted}")
        if streaming:
            await self._stream(request, streaming)
            return None
        assert unary  # noqa: S101
        return Reply(200, jsontext.dump(await unary(request)), f"Content-Type: {UNARY_TYPE}\r\n")

    async def _stream(self, request: Request, streaming: Streaming) -> None:
        async with Stream(request) as stream:
            try:
                await streaming(request, stream)
            except RpcError as error:
                await stream.end(error)
            except (Gone, HttpError):
                raise
            except Exception as error:  # noqa: BLE001
                report(error)
                await stream.end(RpcError("internal", f"internal error: {error!r}"))

    async def _health(self, request: Request) -> Reply:
        return Reply(204)

    async def _init(self, request: Request) -> Reply:
        return await init.init(self._sandbox, self._lifetime, request)

    async def _envs(self, request: Request) -> Reply:
        access.check_token(self._sandbox, request.headers.get("x-access-token", ""))
        return json_reply(200, self._sandbox.variables)

    async def _metrics(self, request: Request) -> Reply:
        access.check_token(self._sandbox, request.headers.get("x-access-token", ""))
        from . import metrics

        return json_reply(200, metrics.measure())

    async def _read_file(self, request: Request) -> Reply | None:
        access.check_file_access(self._sandbox, request, "read")
        from . import download

        return await download.download(self._loop, self._sandbox, request)

    async def _write_file(self, request: Request) -> Reply:
        access.check_file_access(self._sandbox, request, "write")
        from . import upload

        return await upload.upload(self._loop, self._sandbox, request)

    async def _compose(self, request: Request) -> Reply:
        access.check_token(self._sandbox, request.headers.get("x-access-token", ""))
        from . import compose

        return await compose.compose(self._loop, self._sandbox, request)

    async def _watch(self, request: Request, stream: Stream) -> None:
        await self._watching().stream(request, stream)

    def _file_call(self, path: str) -> Unary | None:
        service, _, name = path[1:].partition("/")
        if service != "filesystem.Filesystem":
            return None
        if "Watcher" in name:
            return self._watching().calls.get(name)
        from . import file_calls

        call = file_calls.CALLS.get(name)
        return (lambda request: call(self._loop, self._sandbox, request)) if call else None

    def _watching(self) -> Watchers:
        if self._watchers is None:
            from .watch import Watchers

            self._watchers = Watchers(self._loop, self._sandbox)
        return self._watchers
