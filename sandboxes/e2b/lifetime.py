"""Info, kill, and everything that moves a sandbox's deadline: timeout, connect, refreshes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

from sandboxes import transitions, wakes
from sandboxes.serving.batch import Batch
from sandboxes.serving.database import Database

from . import details
from .answers import Answer, Refusal, invalid, not_there, try_again
from .call import Call
from .details import Row, created, detailed
from .parse import seconds

LONGEST_REFRESH = 3600


async def found(call: Call) -> Row:
    """The team's running sandbox named in the path; raises Refusal 404."""
    row = await call.control.database.run(details.find, call.key.team_id, call.sandbox_id)
    if row is None:
        raise not_there(call.sandbox_id[:40])
    return row


async def info(call: Call) -> Answer:
    return Answer(200, detailed(await found(call)))


async def kill(call: Call) -> Answer:
    """204, or 404 when it is gone already. The data plane is cut before the answer, the Pod is deleted soon after."""
    call.key.check_operates()
    if not await call.control.kills.get((call.key.team_id, call.sandbox_id, call.key.actor)):
        raise not_there(call.sandbox_id[:40])
    call.control.routes.gone([call.sandbox_id])
    return Answer(204)


type Kill = tuple[int, str, str]
"""Team id, sandbox id, actor."""


def kills(database: Database) -> Batch[Kill, bool]:
    """What episodes that end together ask for is done together; keys of sandboxes that were there are answered."""

    async def kill(asked: list[Kill]) -> Mapping[Kill, bool]:
        killed = await database.run(end, [kill for kill in asked if "\0" not in kill[1]])
        return {kill: kill[1] in killed for kill in asked}

    return Batch(kill)


def end(kills: Sequence[Kill]) -> set[str]:
    moved = transitions.kill(kills)
    for cluster_id in {sandbox.cluster_id for sandbox in moved}:
        wakes.wake_cluster(cluster_id)
    wakes.wake_groups(sandbox.group_id for sandbox in moved)
    return {sandbox.id for sandbox in moved}


async def set_timeout(call: Call) -> Answer:
    """{"timeout": n}: the sandbox ends n seconds from now, sooner or later than before; 0 ends it now."""
    call.key.check_operates()
    timeout = seconds("timeout", (await call.json()).get("timeout"), least=0)
    if timeout is None:
        raise invalid("timeout", "is required: seconds from now, 0 to end the sandbox now.")
    await move_deadline(call, await found(call), timeout, "timeout", only_extend=False)
    return Answer(204)


async def connect(call: Call) -> Answer:
    """{"timeout": n}?: extends the sandbox to n seconds from now if that is later; never shortens."""
    call.key.check_operates()
    body = await call.json()
    timeout = seconds("timeout", body.get("timeout"), least=0)
    row = await found(call)
    if timeout is not None:
        await move_deadline(call, row, timeout, "timeout", only_extend=True)
    return Answer(200, created(row.id, row.template))


async def refresh(call: Call) -> Answer:
    """{"duration": n}: like connect's timeout, at most an hour."""
    call.key.check_operates()
    duration = seconds("duration", (await call.json()).get("duration"), least=0)
    if duration is None or duration > LONGEST_REFRESH:
        raise invalid("duration", f"must be seconds from 0 to {LONGEST_REFRESH}.")
    await move_deadline(call, await found(call), duration, "duration", only_extend=True)
    return Answer(204)


async def move_deadline(call: Call, row: Row, duration: int, name: str, *, only_extend: bool) -> None:
    """The row is the truth, so it is moved last: until then a failure has changed nothing that anybody relies on."""
    end_at = datetime.now(UTC) + timedelta(seconds=duration)
    check_longest(row, end_at, name)
    if end_at > row.end_at:
        problem = await call.control.envd.extend(row.id, row.pod_ip, end_at.timestamp())
        if problem:
            raise try_again(f"The sandbox could not be told its new deadline ({problem}); the old one stands.")
    elif only_extend:
        return
    moved = await call.control.database.run(transitions.set_deadline, row.id, end_at, only_extend=only_extend)
    if moved is None or moved.end_at is None:
        raise not_there(row.id)
    call.control.routes.moved(row.id, moved.end_at.timestamp())


def check_longest(row: Row, end_at: datetime, name: str) -> None:
    """Over the limit is refused, never clamped: a day that became five minutes loses somebody's run."""
    latest = row.started_at + timedelta(seconds=row.max_timeout)
    if end_at <= latest:
        return
    left = max(0, int((latest - datetime.now(UTC)).total_seconds()))
    raise invalid(
        name,
        f"a sandbox of the env {row.template} lives at most {row.max_timeout} s from its start; {left} s are left.",
    )


async def not_supported(call: Call) -> Answer:
    """501 is not retried by the SDKs and not mistaken for `already paused` (409) or `gone` (404)."""
    what = f"{call.scope['method']} {call.scope['path']}"[:200]
    raise Refusal(501, f"{what} is not supported by AgentBox.")
