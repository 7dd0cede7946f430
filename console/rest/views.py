"""The native REST API under /v1. Each view is a getter or a service, and the shape of the answer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework.decorators import api_view
from rest_framework.request import Request
from rest_framework.response import Response

from console.sandboxes import listing
from console.truth import Truth, read
from pools import access, services
from pools.errors import Conflict, NotFound
from pools.models import ApiKey, Env, Role, ScalingGroup
from sandboxes import transitions
from sandboxes.access import sandbox_for
from sandboxes.lifecycle import EndReason
from sandboxes.models import Sandbox

from . import shapes
from .auth import caller
from .problems import Precondition
from .seats import Sum, env_of, group_of, seat_of, total


@extend_schema(responses=shapes.Whoami)
@api_view(["GET"])
def whoami(request: Request) -> Response:
    """Who the call is made by, and the teams they may ask about."""
    who = caller(request)
    seats = [access.seat_for(who, name) for name in access.teams_of(who).values_list("name", flat=True)[:100]]
    only = seats[0] if len(seats) == 1 else None
    teams = [{"name": seat.team.name, "role": seat.role.value} for seat in seats]
    name = who.name if isinstance(who, ApiKey) else who.username
    mode = "key" if isinstance(who, ApiKey) else "session"
    about = {"team": only.team.name if only else None, "role": only.role.value if only else None}
    return Response(shapes.Whoami({"mode": mode, "user": name, "teams": teams} | about).data)


@extend_schema(responses=shapes.EnvShape(many=True))
@api_view(["GET"])
def envs(request: Request) -> Response:
    seat = seat_of(request)
    truth = read(seat.team.pk)
    found = Env.objects.prefetch_related("groups").filter(team=seat.team).order_by("name")
    return Response(shapes.EnvShape([env_sum(truth, env) for env in found], many=True).data)


@extend_schema(methods=["GET"], responses=shapes.EnvShape)
@extend_schema(methods=["PUT"], request=shapes.EnvEditable, responses=shapes.EnvShape)
@api_view(["GET", "PUT"])
def env(request: Request, name: str) -> Response:
    """GET gives the `editable` block and an ETag; PUT takes that block as a whole, with If-Match, from admins."""
    seat = seat_of(request, Role.ADMIN if request.method == "PUT" else Role.VIEWER)
    found = env_of(seat, name)
    if request.method == "PUT":
        wanted = document(request, found, shapes.EnvEditable)
        with overtaken():
            services.edit_env(
                env=found,
                actor=access.actor(caller(request)),
                generation=found.generation,
                template=wanted["pod_template"],
            )
        found = env_of(seat, name)
    return Response(shapes.EnvShape(env_sum(read(seat.team.pk), found)).data, headers={"ETag": etag(found)})


def env_sum(truth: Truth, found: Env) -> Sum:
    groups = {group.pk: group.name for group in found.groups.all()}
    summed = total(pool for pool in truth.pools if pool.group_id in groups)
    return replace(summed, env=found, group_names=tuple(sorted(groups.values())))


@extend_schema(methods=["GET"], responses=shapes.GroupShape)
@extend_schema(methods=["PUT"], request=shapes.Editable, responses=shapes.GroupShape)
@api_view(["GET", "PUT"])
def group(request: Request, env: str, name: str) -> Response:
    """GET gives the `editable` block and an ETag; PUT takes that block as a whole, with If-Match."""
    seat = seat_of(request, Role.OPERATOR if request.method == "PUT" else Role.VIEWER)
    found = group_of(seat, env, name)
    if request.method == "PUT":
        wanted = document(request, found, shapes.Editable)
        with overtaken():
            services.edit_group(group=found, actor=access.actor(caller(request)), generation=found.generation, **wanted)
        found = group_of(seat, env, name)
    truth = read(seat.team.pk)
    summed = replace(total(pool for pool in truth.pools if pool.group_id == found.pk), group=found)
    return Response(shapes.GroupShape(summed).data, headers={"ETag": etag(found)})


def document(request: Request, found: Env | ScalingGroup, shape: type[shapes.Whole]) -> dict[str, Any]:
    """The whole document of a PUT, sent with the ETag of what it replaces."""
    match = request.headers.get("If-Match", "")
    if not match:
        text = f"Send If-Match with the ETag of GET ({etag(found)}), so that nobody's edit is lost."
        raise Precondition(428, text, "precondition_required")
    if match != etag(found):
        text = f"The {found._meta.verbose_name} is at {etag(found)} now, not {match}: GET it again."
        raise Precondition(412, text, "changed_meanwhile")
    wanted = shape(data=request.data)
    wanted.is_valid(raise_exception=True)
    return dict(wanted.validated_data)


@contextmanager
def overtaken() -> Iterator[None]:
    """Somebody was faster between our read and our write."""
    try:
        yield
    except Conflict as error:
        raise Precondition(412, error.message, "changed_meanwhile") from error


def etag(found: Env | ScalingGroup) -> str:
    return f'"{found.generation}"'


@extend_schema(responses=shapes.PoolShape(many=True))
@api_view(["GET"])
def pools(request: Request) -> Response:
    return Response(shapes.PoolShape(read(seat_of(request).team.pk).pools, many=True).data)


@extend_schema(parameters=[shapes.SandboxQuery], responses=shapes.SandboxPage)
@api_view(["GET"])
def sandboxes(request: Request) -> Response:
    """Newest first, by keyset: `next` leads on."""
    seat = seat_of(request)
    query = shapes.SandboxQuery(data=request.query_params)
    query.is_valid(raise_exception=True)
    wanted = listing.parse(request.query_params.dict())
    rows, following = listing.page(seat.team.pk, wanted, query.validated_data["limit"], "cluster")
    return Response(shapes.SandboxPage({"items": rows, "next": str(following) if following else None}).data)


@extend_schema(methods=["GET"], responses=shapes.SandboxShape)
@extend_schema(methods=["DELETE"], responses={202: shapes.SandboxShape})
@api_view(["GET", "DELETE"])
def sandbox(request: Request, sandbox_id: str) -> Response:
    """DELETE ends it: 202, also when it is over already."""
    who = caller(request)
    if request.method == "GET":
        return Response(shapes.SandboxShape(sandbox_for(who, sandbox_id)[0]).data)
    found, _ = sandbox_for(who, sandbox_id, Role.OPERATOR)
    transitions.stop([found.pk], EndReason.KILLED, access.actor(who))
    ended: Sandbox = sandbox_for(who, sandbox_id)[0]
    return Response(shapes.SandboxShape(ended).data, status=202)


@extend_schema(responses=shapes.QuotaShape(many=True))
@api_view(["GET"])
def quotas(request: Request) -> Response:
    seat = seat_of(request)
    truth = read(seat.team.pk)
    used = {"total": truth.quota, "used": truth.counts.live, "free": truth.quota_left}
    return Response(shapes.QuotaShape([{"team": seat.team.name, "resources": {"sandboxes": used}}], many=True).data)


@extend_schema(exclude=True)
@api_view(["GET", "POST", "PUT", "PATCH", "DELETE"])
def nothing(request: Request, rest: str) -> Response:
    """An unknown address under /v1 is answered as a problem, not as a page."""
    raise NotFound(f"There is no /v1/{rest[:100]}. /v1/openapi.json lists what there is.")
