"""`POST /init`: the edge arms a sandbox for a claim, and may call again to move its deadline."""

from __future__ import annotations

from . import VERSION, access, fields, jsontext
from .errors import HttpError, RpcError
from .http1 import Reply

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .http1 import Request
    from .lifetime import Lifetime
    from .sandbox import Sandbox

_LIMIT = 1024 * 1024
_LATEST = 32503680000.0


async def init(sandbox: Sandbox, lifetime: Lifetime, request: Request) -> Reply:
    """Body `{envVars, accessToken, defaultUser, defaultWorkdir, deadline}`, all optional; `deadline` in unix seconds.

    Answers 204 with X-Envd-Version. 401 without the bootstrap token, 400 naming the field that is wrong.
    """
    access.check_bootstrap(sandbox, request)
    message = parsed(await request.body.read_all(_LIMIT))
    try:
        changes = _changes(message)
    except RpcError as error:
        raise HttpError(400, error.message) from None
    for name, value in changes.items():
        setattr(sandbox, name, value)
    if sandbox.deadline is not None:
        lifetime.end_at(sandbox.deadline + sandbox.margin)
    return Reply(204, headers=f"X-Envd-Version: {VERSION}\r\n")


def parsed(data: bytes) -> dict[str, Any]:
    try:
        message = jsontext.parse(data or b"{}")
    except ValueError as error:
        raise HttpError(400, f"the body is not JSON: {error}") from None
    if not isinstance(message, dict):
        raise HttpError(400, "the body must be a JSON object")
    return message


def _changes(message: dict[str, Any]) -> dict[str, object]:
    """Attributes of Sandbox to set; what the message leaves out stays."""
    changes: dict[str, object] = {}
    if message.get("envVars") is not None:
        changes["variables"] = fields.variables(message, "envVars")
    for name, attribute in (("defaultUser", "default_user"), ("accessToken", "access_token")):
        if value := fields.text(message, name):
            changes[attribute] = value
    if folder := fields.text(message, "defaultWorkdir"):
        changes["default_workdir"] = _absolute(folder)
    if message.get("deadline") is not None:
        changes["deadline"] = _moment(message["deadline"])
    return changes


def _absolute(folder: str) -> str:
    if not folder.startswith("/"):
        raise HttpError(400, "defaultWorkdir must be an absolute path")
    return folder


def _moment(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < _LATEST:
        raise HttpError(400, "deadline must be a number of unix seconds")
    return float(value)
