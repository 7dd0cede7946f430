"""The pools of a team, and the page of one: why it is the size it is, and the form that changes its bounds."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from console import figures
from console.pages import answer, frame, team_page, who
from console.sandboxes import listing
from console.sandboxes.panel import panel
from console.shown import bound_by
from console.truth import Truth
from pools import services
from pools.access import Seat, actor, pool_for
from pools.errors import Conflict, Invalid, NotFound
from pools.models import Pool, Role
from sandboxes.models import Decision

from .forms import ScaleForm
from .shape import shape

DECISIONS = 12


@team_page()
def pools(request: HttpRequest, seat: Seat) -> HttpResponse:
    context = frame(request, seat, "pools")
    truth = context["truth"]
    context |= {"pools": [figures.pool_line(pool) for pool in truth.pools], "quota_bar": figures.quota_bar(truth)}
    return answer(request, "pools.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@team_page()
def pool(request: HttpRequest, seat: Seat, pool_id: int) -> HttpResponse:
    """POST sets the group's bounds; a wrong one comes back with the field, what is wrong and the way out (422)."""
    shown = _within(request, seat, pool_id, Role.OPERATOR if request.method == "POST" else Role.VIEWER)
    wanted = listing.parse(request.GET, pool_id)
    form = ScaleForm.of(shown.group)
    if request.method == "POST":
        form = ScaleForm.sent(request.POST)
        if edited(request, shown, form):
            return redirect("pool", team=seat.team.name, pool_id=pool_id)
    context = frame(request, seat, "pools")
    context |= of_pool(shown, context["truth"], form)
    context |= panel(seat.team.pk, context["truth"], context["truth"].pool(pool_id).counts, wanted)
    return answer(request, "pool.html", context, 422 if form.wrong else 200)


def edited(request: HttpRequest, shown: Pool, form: ScaleForm) -> bool:
    """Whether the bounds were accepted; if not, the form says why."""
    try:
        bounds = form.bounds()
        group = services.edit_group(
            group=shown.group, actor=actor(who(request)), generation=form.generation_number(), **bounds
        )
    except Conflict:
        shown.group.refresh_from_db()
        form.overtaken(shown.group)
        return False
    except Invalid as error:
        form.refuse(error)
        return False
    unchanged = group.generation == form.generation_number()
    messages.success(request, _("Nothing to change.") if unchanged else _("The new bounds are in force."))
    return True


def of_pool(shown: Pool, truth: Truth, form: ScaleForm) -> dict[str, Any]:
    now = truth.pool(shown.pk)
    form.quota_effect = quota_effect(truth, shown)
    return {
        "pool": shown,
        "one_pool": now,
        "shape": shape(shown.group.instance_type),
        "headline": figures.headline(now),
        "figures": figures.of_pool(truth, now),
        "line": figures.pool_line(now),
        "causes": now.counts.causes.most_common(),
        "form": form,
        "decisions": [(decision, bound_by(decision.binding)) for decision in newest_decisions(shown)],
    }


def newest_decisions(shown: Pool) -> QuerySet[Decision]:
    return Decision.objects.filter(group=shown.group_id).order_by("-at", "-id")[:DECISIONS]


def quota_effect(truth: Truth, shown: Pool) -> str:
    """What the team's quota leaves for this ceiling."""
    if truth.quota is None:
        return _("This team has no quota: nothing can start until an admin sets one.")
    ceilings = sum({pool.group_id: pool.ceiling for pool in truth.pools}.values())
    text = _("The team's quota is %(quota)s: %(live)s live, %(left)s left.") % {
        "quota": figures.number(truth.quota),
        "live": figures.number(truth.counts.live),
        "left": figures.number(truth.quota_left or 0),
    }
    if shown.group.max_replicas > truth.quota:
        return f"{text} " + _("The ceiling is above it: the quota stops growth first.")
    if ceilings > truth.quota:
        return f"{text} " + _("All ceilings of the team together allow %s: pools share what is left.") % figures.number(
            ceilings
        )
    return text


def _within(request: HttpRequest, seat: Seat, pool_id: int, role: Role) -> Pool:
    shown, owner = pool_for(who(request), pool_id, role)
    if owner.team.pk != seat.team.pk:
        raise NotFound(f"There is no pool {pool_id} in {seat.team.name}.")
    return shown
