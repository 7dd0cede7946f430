"""How the OpenAPI document names our two ways to authenticate. Imported by the routes, which registers both."""

from __future__ import annotations

from drf_spectacular.extensions import OpenApiAuthenticationExtension

from .auth import HEADERS, ByKey, BySession


class KeyScheme(OpenApiAuthenticationExtension):
    target_class = ByKey
    name = "apiKey"

    def get_security_definition(self, auto_schema: object) -> dict[str, str]:
        return {"type": "apiKey", "in": "header", "name": HEADERS[0]}


class SessionScheme(OpenApiAuthenticationExtension):
    target_class = BySession
    name = "session"

    def get_security_definition(self, auto_schema: object) -> dict[str, str]:
        return {"type": "apiKey", "in": "cookie", "name": "sessionid"}
