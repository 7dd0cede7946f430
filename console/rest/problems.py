"""Every error as problem+json (RFC 9457) with a stable `code`, a sentence in `detail`, and the `field` it is about."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import Http404
from rest_framework import exceptions, status
from rest_framework.response import Response
from rest_framework.views import exception_handler

from console.errors import status_of
from pools.errors import DomainError, InvalidDocument

MEDIA_TYPE = "application/problem+json"
HOW_TO_SIGN_IN = "Send an API key in the AGENTBOX-API-KEY header, or sign in."
REST_NAMES = {"min_replicas": "minReplicas", "max_replicas": "maxReplicas", "min_idle": "minIdle"}


class Precondition(exceptions.APIException):
    """If-Match is missing (428) or names another revision (412)."""

    def __init__(self, status_code: int, detail: str, code: str) -> None:
        super().__init__(detail, code)
        self.status_code = status_code


def answer(error: Exception, context: dict[str, Any]) -> Response | None:
    """DRF's exception handler. Unknown exceptions go on to Django (500)."""
    if isinstance(error, DomainError):
        shown = problem(status_of(error).value, error.code, error.message, REST_NAMES.get(error.field, error.field))
        if isinstance(error, InvalidDocument):
            shown.data["errors"] = [{"field": field, "detail": text} for field, text in error.problems]
        return shown
    if isinstance(error, Http404 | PermissionDenied):
        error = exceptions.NotFound() if isinstance(error, Http404) else exceptions.PermissionDenied()
    if isinstance(error, exceptions.NotAuthenticated):
        error.detail = exceptions.ErrorDetail(HOW_TO_SIGN_IN, error.default_code)
    response = exception_handler(error, context)
    if response is None or not isinstance(error, exceptions.APIException):
        return None
    field, detail = first(error.detail)
    shown = problem(response.status_code, code_of(error), detail, field)
    for name, value in response.headers.items():
        if name.lower() != "content-type":
            shown[name] = value
    return shown


def problem(status_code: int, code: str, detail: str, field: str = "") -> Response:
    body = {"type": "about:blank", "title": HTTPStatus(status_code).phrase, "status": status_code, "code": code}
    body |= {"detail": detail} | ({"field": field} if field else {})
    return Response(body, status_code, content_type=MEDIA_TYPE)


def first(detail: Any, field: str = "") -> tuple[str, str]:
    """The first (field, sentence) in DRF's nested details."""
    if isinstance(detail, dict):
        name, inner = next(iter(detail.items()))
        return first(inner, "" if name == "non_field_errors" else str(name))
    if isinstance(detail, list):
        return first(detail[0], field)
    return field, str(detail)


def code_of(error: exceptions.APIException) -> str:
    if isinstance(error, exceptions.ValidationError):
        return "invalid"
    if error.status_code == status.HTTP_401_UNAUTHORIZED:
        return "not_authenticated"
    return str(error.get_codes())
