"""What every page of a team has around it: sign-in, the seat, the sidebar, and the place in the live feed."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate

from django.contrib.auth.decorators import login_required
from django.db.models import Exists, OuterRef
from django.http import HttpRequest, HttpResponse, HttpResponseNotModified
from django.shortcuts import redirect, render
from django.urls import reverse

from pools import access
from pools.access import Seat
from pools.models import Env, Role, User

from .figures import number
from .live import stream
from .stalls import stalls
from .truth import read

type View[**P] = Callable[Concatenate[HttpRequest, Seat, P], HttpResponse]


def who(request: HttpRequest) -> User:
    """The signed-in user of a view behind `team_page`."""
    assert isinstance(request.user, User)  # noqa: S101 - login_required has seen to it
    return request.user


def team_page[**P](role: Role = Role.VIEWER) -> Callable[[View[P]], Callable[..., HttpResponse]]:
    """Decorate a view(request, seat, ...) whose URL has `team`: signed in, a member, and of at least this role."""

    def decorate(view: View[P]) -> Callable[..., HttpResponse]:
        @login_required
        @wraps(view)
        def checked(request: HttpRequest, team: str, *args: P.args, **kwargs: P.kwargs) -> HttpResponse:
            return view(request, access.seat_for(who(request), team, role), *args, **kwargs)

        return checked

    return decorate


def frame(request: HttpRequest, seat: Seat, section: str) -> dict[str, Any]:
    """What page.html needs, read first: the place in the stream before any truth, so that what follows is a delta."""
    place = stream.place(seat.team.pk)
    truth = read(seat.team.pk)
    return {
        "seat": seat,
        "team": seat.team,
        "home": reverse("overview", args=[seat.team.name]),
        "teams": access.teams_of(who(request)),
        "section": section,
        "place": place,
        "truth": truth,
        "stalls": stalls(truth),
        "figures_all": number(truth.counts.live),
    }


def answer(request: HttpRequest, template: str, context: dict[str, Any], status: int = 200) -> HttpResponse:
    """The page, or only its live part for htmx and the poll, which gets 304 while nothing changed."""
    if not request.htmx:  # type: ignore[attr-defined]
        return private(render(request, template, context, status=status))
    response = private(render(request, f"{template}#live", context, status=status))
    etag = f'W/"{hashlib.sha256(response.content).hexdigest()[:32]}"'
    if request.headers.get("If-None-Match") == etag:
        return HttpResponseNotModified(headers={"ETag": etag})
    response["ETag"] = etag
    return response


def private(response: HttpResponse) -> HttpResponse:
    response["Cache-Control"] = "no-store"
    response["Vary"] = "HX-Request, Cookie"
    return response


@login_required
def home(request: HttpRequest) -> HttpResponse:
    """To the first team that has an env, else the first; or to a page that says how to get into one."""
    has_env = Exists(Env.objects.filter(team=OuterRef("pk")))
    team = access.teams_of(who(request)).order_by(has_env.desc(), "name").first()
    if team is None:
        return render(request, "no_team.html")
    return redirect("overview", team=team.name)
