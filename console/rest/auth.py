"""Who calls the REST API: a trainer's key, or a signed-in person (whose writes need the CSRF token)."""

from __future__ import annotations

from rest_framework.authentication import BaseAuthentication, SessionAuthentication
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from pools.access import Who, authenticate_key
from pools.models import ApiKey, User

HEADERS = ("AGENTBOX-API-KEY", "X-API-Key")
BEARER = "Bearer "


def secret_of(request: Request) -> str:
    """The key in the request's headers, "" if there is none."""
    for header in HEADERS:
        if secret := request.headers.get(header, ""):
            return str(secret).strip()
    authorization = str(request.headers.get("Authorization", ""))
    return authorization.removeprefix(BEARER).strip() if authorization.startswith(BEARER) else ""


class ByKey(BaseAuthentication):
    def authenticate(self, request: Request) -> tuple[ApiKey, str] | None:
        secret = secret_of(request)
        if not secret:
            return None
        key = authenticate_key(secret)
        if key is None:
            raise AuthenticationFailed("This API key is unknown or revoked. Make one under the team's keys.")
        return key, "key"

    def authenticate_header(self, request: Request) -> str:
        return 'Bearer realm="AgentBox"'


class BySession(SessionAuthentication):
    pass


class Known(BasePermission):
    def has_permission(self, request: Request, view: object) -> bool:
        return isinstance(request.user, User | ApiKey)


def caller(request: Request) -> Who:
    assert isinstance(request.user, User | ApiKey)  # noqa: S101 - Known has seen to it
    return request.user
