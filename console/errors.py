"""Refusals as pages: a DomainError raised in a view becomes the page with its status and its sentence."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as _

from pools.errors import Conflict, DomainError, Forbidden, NotFound, QuotaExceeded

STATUS = {
    NotFound: HTTPStatus.NOT_FOUND,
    Forbidden: HTTPStatus.FORBIDDEN,
    Conflict: HTTPStatus.CONFLICT,
    QuotaExceeded: HTTPStatus.TOO_MANY_REQUESTS,
}


def status_of(error: DomainError) -> HTTPStatus:
    return STATUS.get(type(error), HTTPStatus.BAD_REQUEST)


class Refusals:
    """Middleware."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        if not isinstance(error, DomainError):
            return None
        return page(request, status_of(error), error.message)


def page(request: HttpRequest, status: HTTPStatus, text: str) -> HttpResponse:
    title = {
        HTTPStatus.NOT_FOUND: _("Not found"),
        HTTPStatus.FORBIDDEN: _("Not allowed"),
        HTTPStatus.INTERNAL_SERVER_ERROR: _("Something broke"),
    }.get(status, _("Not possible"))
    context = {"title": title, "text": text, "status": status.value}
    return render(request, "error.html", context, status=status)


def bad_request(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    return page(request, HTTPStatus.BAD_REQUEST, _("The request could not be understood."))


def forbidden(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    return page(request, HTTPStatus.FORBIDDEN, _("You may not see this page."))


def not_found(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    return page(request, HTTPStatus.NOT_FOUND, _("There is no such page. Perhaps the address has a slip in it."))


def broken(request: HttpRequest) -> HttpResponse:
    text = _("The console could not answer. It has been logged; try again, and tell an admin if it stays.")
    return page(request, HTTPStatus.INTERNAL_SERVER_ERROR, text)


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    text = _("This form was open for too long or came from another site. Go back, reload the page and send it again.")
    return page(request, HTTPStatus.FORBIDDEN, text)
