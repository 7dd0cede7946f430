"""POST /v2/sandboxes (and /sandboxes): claim a sandbox. 201 means usable (e2b-protocol 0.6)."""

from __future__ import annotations

from sandboxes.claims import Wanted

from .answers import Answer, invalid
from .call import Call
from .catalog import Template
from .details import created
from .parse import Order, digest, parse_create, parse_idempotency_key


async def create(call: Call) -> Answer:
    call.key.check_operates()
    idempotency_key = parse_idempotency_key(call.header(b"idempotency-key"))
    body = await call.json()
    order = parse_create(body)
    template = await call.control.catalog.template(call.key.team_id, order.template)
    wanted = Wanted(
        team_id=call.key.team_id,
        group_id=template.group(order.group),
        timeout=lifetime(order, template),
        metadata=order.metadata,
        wait=order.wait,
        idempotency_key=idempotency_key,
        request_digest=digest(body) if idempotency_key else "",
        image=order.image,
    )
    gone = call.gone()
    try:
        bound = await call.control.claiming.obtain(wanted, order.env_vars, gone)
    finally:
        gone.cancel()
    call.control.routes.learn(bound.sandbox_id, bound.pod_ip, bound.end_at.timestamp())
    return Answer(201, created(bound.sandbox_id, order.template))


def lifetime(order: Order, template: Template) -> int:
    if order.timeout is None:
        return template.default_timeout
    if order.timeout > template.max_timeout:
        text = f"at most {template.max_timeout} seconds are allowed for the env {template.name}, not {order.timeout}."
        raise invalid("timeout", text)
    return order.timeout
