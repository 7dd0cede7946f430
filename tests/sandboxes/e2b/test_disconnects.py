"""Callers that leave at any moment: nothing they half had is kept, and nothing is handed out twice."""

from __future__ import annotations

import json
import random
import socket
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

from django.db import connection
from django.db.models import Count

from sandboxes import transitions
from sandboxes.models import Claim, Sandbox
from tests.sandboxes.edge_fixtures import World
from tests.sandboxes.edges import StandIn, wait_until

CALLERS = 200
AT_ONCE = 4
PATIENT = 20
"""So many wait for their answer, which also tells when the others must leave."""


def leave_after(world: World, pause: float | None) -> str:
    """The id of the sandbox whose 201 was read before leaving, or ""; without a pause the caller waits for it."""
    body = json.dumps({"templateID": "base", "timeout": 300}).encode()
    head = f"POST /v2/sandboxes HTTP/1.1\r\nHost: x\r\nX-API-Key: {world.key}\r\nContent-Length: {len(body)}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", world.edge.port), timeout=10) as caller:
        caller.sendall(head.encode() + body)
        if pause is not None:
            time.sleep(pause)
            caller.setblocking(False)
        answer = read_what_is_there(caller)
    if not answer.startswith(b"HTTP/1.1 201") or not answer.endswith(b"}"):
        return ""
    return str(json.loads(answer.partition(b"\r\n\r\n")[2])["sandboxID"])


def read_what_is_there(caller: socket.socket) -> bytes:
    answer = b""
    try:
        while not answer.endswith(b"}") and (piece := caller.recv(65536)):
            answer += piece
    except BlockingIOError:
        pass
    return answer


def settled() -> bool:
    """Nothing under way. The edge may read the request of a caller who left long after that caller did."""
    under_way = Claim.objects.filter(state__in=["queued", "bound"]).exists()
    return not under_way and not Sandbox.objects.filter(state="claimed", delivered_at=None).exists()


def test_two_hundred_callers_leave_around_bind_and_delivery(world: World, stand_in: StandIn) -> None:
    world.team.quota.max_sandboxes = 1000
    world.team.quota.save()
    world.idle_many(CALLERS, stand_in.ip)
    stand_in.delay = 0.01
    moments = random.Random(7)
    with ThreadPoolExecutor(AT_ONCE) as callers:
        started = time.monotonic()
        answered = list(callers.map(lambda _: leave_after(world, None), range(PATIENT)))
        usual = (time.monotonic() - started) * AT_ONCE / PATIENT
        pauses = [moments.uniform(0, 1.5 * usual) for _ in range(CALLERS - PATIENT)]
        answered += [got for got in callers.map(lambda pause: leave_after(world, pause), pauses) if got]
    wait_until(settled, 20)

    assert "" not in answered
    assert Claim.objects.filter(state="cancelled").exists(), "the moments must fall on both sides of the delivery"
    assert len(set(answered)) == len(answered)
    twice = Claim.objects.exclude(sandbox_id=None).values("sandbox_id").annotate(n=Count("id")).filter(n__gt=1)
    assert not twice.exists()
    states = Counter(Sandbox.objects.values_list("state", flat=True))
    assert set(states) <= {"idle", "claimed", "stopping"}, states
    assert set(answered) <= set(Sandbox.objects.filter(state="claimed").values_list("id", flat=True))
    # A 201 that was sent but never read lives on to its deadline, and not longer.
    with connection.cursor() as cursor:
        cursor.execute("UPDATE sandboxes_sandbox SET end_at = now() WHERE state = 'claimed'")
    assert {moved.end_reason for moved in transitions.stop_overdue(1000)} <= {"timeout"}
    assert not Sandbox.objects.filter(state="claimed").exists()
    assert len(stand_in.armed) == len(set(stand_in.armed))


def test_who_leaves_while_the_sandbox_is_armed_leaves_it_ended(world: World, stand_in: StandIn) -> None:
    world.idle_many(1, stand_in.ip)
    stand_in.delay = 0.5
    thread = threading.Thread(target=leave_after, args=(world, 0.1))
    thread.start()
    wait_until(lambda: Sandbox.objects.filter(state="stopping").exists())
    thread.join()
    row = Sandbox.objects.get()
    assert (row.end_reason, row.delivered_at) == ("caller_gone", None)
    assert Claim.objects.get().state == "cancelled"


def test_who_leaves_the_queue_leaves_no_claim(world: World) -> None:
    assert leave_after(world, 0.2) == ""
    wait_until(lambda: Claim.objects.filter(state="cancelled").count() == 1)
