"""The states of a sandbox and of a claim, and what each may become. Pure."""

from __future__ import annotations

from enum import StrEnum


class State(StrEnum):
    """A sandbox's states (design section 2). It serves one claim in its life, so there is no way back to idle."""

    PENDING = "pending"
    STARTING = "starting"
    IDLE = "idle"
    CLAIMED = "claimed"
    STOPPING = "stopping"
    ENDED = "ended"


LIVE = (State.PENDING, State.STARTING, State.IDLE, State.CLAIMED, State.STOPPING)
"""Everything that holds quota: terminating Pods still occupy the cluster."""
UNCLAIMED = (State.PENDING, State.STARTING, State.IDLE)

NEXT: dict[State, tuple[State, ...]] = {
    State.PENDING: (State.STARTING, State.IDLE, State.STOPPING, State.ENDED),
    State.STARTING: (State.IDLE, State.STOPPING, State.ENDED),
    State.IDLE: (State.CLAIMED, State.STOPPING, State.ENDED),
    State.CLAIMED: (State.STOPPING, State.ENDED),
    State.STOPPING: (State.ENDED,),
    State.ENDED: (),
}


def sources(target: State) -> list[str]:
    """The states from which `target` may be entered, as stored."""
    return [state.value for state, targets in NEXT.items() if target in targets]


class Group(StrEnum):
    """The four groups shown to people."""

    READY = "ready"
    WORKING = "working"
    STUCK = "stuck"
    ENDED = "ended"


def shown_group(state: str, finding: str) -> Group:
    """Where a sandbox is shown; stuck always has a finding."""
    if state == State.ENDED:
        return Group.ENDED
    if finding:
        return Group.STUCK
    return Group.READY if state in (State.IDLE, State.CLAIMED) else Group.WORKING


class ClaimState(StrEnum):
    QUEUED = "queued"
    BOUND = "bound"
    DELIVERED = "delivered"
    CANCELLED = "cancelled"
    EXPIRED = "expired"


class EndReason(StrEnum):
    """Why a sandbox ended; the actor says who."""

    KILLED = "killed"
    TIMEOUT = "timeout"
    CALLER_GONE = "caller_gone"
    NOT_DELIVERED = "not_delivered"
    NOT_ARMED = "not_armed"
    SURPLUS = "surplus"
    START_TIMEOUT = "start_timeout"
    FAILED = "failed"
    EVICTED = "evicted"
    POD_GONE = "pod_gone"
    REJECTED = "rejected"
