"""The only getter of sandboxes for faces (see pools.access)."""

from __future__ import annotations

from pools.access import Seat, Who, seat_in
from pools.errors import NotFound
from pools.models import Role

from .models import Sandbox


def sandbox_for(who: Who, sandbox_id: str, role: Role = Role.VIEWER) -> tuple[Sandbox, Seat]:
    """The sandbox, live or ended, and the caller's seat in its team. Raises NotFound and Forbidden."""
    missing = f"There is no sandbox {sandbox_id}."
    wanted = Sandbox.objects.select_related("pool__group__env", "pool__group__instance_type", "cluster", "team")
    sandbox = wanted.filter(pk=sandbox_id).first()
    if sandbox is None:
        raise NotFound(missing)
    return sandbox, seat_in(who, sandbox.team_id, missing, role)
