"""The overview: what can be claimed now, how long a claim waits, and all that is live."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse

from console import figures
from console.pages import answer, frame, team_page
from console.sandboxes import listing
from console.sandboxes.panel import panel
from pools.access import Seat
from pools.models import Pool


@team_page()
def overview(request: HttpRequest, seat: Seat) -> HttpResponse:
    wanted = listing.parse(request.GET)
    context = frame(request, seat, "overview")
    truth = context["truth"]
    context |= panel(seat.team.pk, truth, truth.counts, wanted)
    context |= {
        "figures": figures.of_team(truth),
        "pools": [figures.pool_line(pool) for pool in truth.pools],
        "quota_bar": figures.quota_bar(truth),
        "causes": truth.causes(),
        "clusters": len({pool.cluster for pool in truth.pools}),
    }
    return answer(request, "overview.html", context)


@team_page()
def find(request: HttpRequest, seat: Seat) -> HttpResponse:
    """The box on top: a pool's name leads to the pool, everything else searches the sandboxes."""
    text = listing.parse({"text": request.GET.get("text", "")}).text
    pool = Pool.objects.filter(group__env__team=seat.team, name=text).first()
    if pool is not None:
        return redirect("pool", team=seat.team.name, pool_id=pool.pk)
    if listing.SANDBOX_ID.fullmatch(text):
        return redirect("sandbox", team=seat.team.name, sandbox_id=text)
    return redirect(f"{reverse('sandboxes', args=[seat.team.name])}?{listing.Filter(text=text).query()}")
