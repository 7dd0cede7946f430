"""The list of sandboxes, the page of one, and its end."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from console.pages import answer, frame, team_page, who
from console.pools.shape import shape
from console.shown import line
from pools.access import Seat, actor
from pools.errors import NotFound
from pools.models import Role
from sandboxes import transitions
from sandboxes.access import sandbox_for
from sandboxes.lifecycle import EndReason
from sandboxes.models import Event, Sandbox

from . import listing
from .panel import panel
from .story import phases, said

EVENTS = 50


@team_page()
def sandboxes(request: HttpRequest, seat: Seat) -> HttpResponse:
    wanted = listing.parse(request.GET)
    context = frame(request, seat, "sandboxes")
    truth = context["truth"]
    context |= panel(seat.team.pk, truth, truth.counts, wanted)
    return answer(request, "sandboxes.html", context)


@team_page()
def sandbox(request: HttpRequest, seat: Seat, sandbox_id: str) -> HttpResponse:
    context = frame(request, seat, "sandboxes")
    context |= of_sandbox(_within(request, seat, sandbox_id))
    return answer(request, "sandbox.html", context)


def of_sandbox(sandbox: Sandbox) -> dict[str, Any]:
    shown = line(sandbox)
    return {
        "sandbox": sandbox,
        "line": shown,
        "said": said(sandbox),
        "phases": phases(sandbox),
        "events": Event.objects.filter(sandbox_id=sandbox.pk, team=sandbox.team).order_by("-at", "-id")[:EVENTS],
        "shape": shape(sandbox.pool.group.instance_type),
    }


@require_http_methods(["GET", "HEAD", "POST"])
@team_page(Role.OPERATOR)
def end(request: HttpRequest, seat: Seat, sandbox_id: str) -> HttpResponse:
    """GET asks, POST ends. A sandbox that is over already is no error: the wish is fulfilled."""
    sandbox = _within(request, seat, sandbox_id)
    if request.method == "POST":
        transitions.stop([sandbox.pk], EndReason.KILLED, actor(who(request)))
        return _ended(request, seat, sandbox)
    context = frame(request, seat, "sandboxes")
    context |= {"sandbox": sandbox, "line": line(sandbox), "next": _back(request, seat, request.GET.get("next", ""))}
    return render(request, "end.html", context)


def _ended(request: HttpRequest, seat: Seat, sandbox: Sandbox) -> HttpResponse:
    text = _("%s is ending.") % sandbox.pk
    if request.headers.get("X-Live"):
        return HttpResponse(text, content_type="text/plain; charset=utf-8")
    messages.success(request, text)
    return redirect(_back(request, seat, request.POST.get("next", "")))


def _back(request: HttpRequest, seat: Seat, wanted: str) -> str:
    """Where the person came from, if that is a page of ours; else the team's sandboxes."""
    came_from = wanted or request.headers.get("Referer", "")
    safe = url_has_allowed_host_and_scheme(came_from, {request.get_host()}, require_https=request.is_secure())
    return came_from if safe and not came_from.endswith("/end") else reverse("sandboxes", args=[seat.team.name])


def _within(request: HttpRequest, seat: Seat, sandbox_id: str) -> Sandbox:
    sandbox, owner = sandbox_for(who(request), sandbox_id)
    if owner.team.pk != seat.team.pk:
        raise NotFound(f"There is no sandbox {sandbox_id} in {seat.team.name}.")
    return sandbox
