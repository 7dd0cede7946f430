"""Sets the demo's group, quota and cluster to the size that a measurement needs, and waits for it."""

from __future__ import annotations

from tests.stack import Stack, until

WARM_LIMIT = 180.0
BOUNDS = """
    UPDATE pools_scalinggroup SET max_replicas = %s, min_idle = %s, max_starting = %s, generation = generation + 1,
        due_at = now()
    WHERE name = %s
"""


def resize(stack: Stack, name: str, *, ceiling: int, idle: int, rate: float = 150, starting: int = 500) -> None:
    """The group `base-<name>`; `rate` is the cluster's creates a second."""
    stack.execute("UPDATE pools_quota SET max_sandboxes = 50000")
    stack.execute("UPDATE pools_cluster SET create_rate = %s, current_rate = NULL", [rate])
    stack.execute(BOUNDS, [ceiling, idle, starting, name])
    until(lambda: idle_of(stack, name) >= idle, WARM_LIMIT, lambda: f"{idle_of(stack, name)} of {idle} idle")


def idle_of(stack: Stack, name: str) -> int:
    sql = "SELECT count(*) FROM sandboxes_sandbox s JOIN pools_scalinggroup g ON g.id = s.group_id "
    return int(stack.query(sql + "WHERE s.state = 'idle' AND g.name = %s", name)[0][0])


def left(stack: Stack) -> int:
    """Sandboxes of trainers, and claims of theirs that still wait."""
    waiting = "SELECT count(*) FROM sandboxes_claim WHERE state IN ('queued', 'bound')"
    return stack.count("claimed") + int(stack.query(waiting)[0][0])
