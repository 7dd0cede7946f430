"""How many sandboxes a scaling group should have. Pure: `decide` is a function of its arguments only.

Demand-anchored (peers.md 5.10): want = claimed + queued + minIdle, held within floor and ceiling. Held sandboxes
(with a finding) use room but never count as supply, so a broken image cannot be taken for capacity.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

HELD_LIMIT = 3
"""This many held or just failed sandboxes stop growth: more would fare alike. Time frees them, so it is tried again."""


@dataclass(frozen=True)
class Policy:
    """The group's bounds, in sandboxes."""

    min_replicas: int
    max_replicas: int
    min_idle: int
    max_starting: int
    """Outstanding creates at once; a quarter of the demand if that is more (peers.md 5.10)."""
    quiet_window: float
    """Seconds without a claim before surplus idle sandboxes end."""


@dataclass(frozen=True)
class Observed:
    """The group's sandboxes and claims, counted in one statement."""

    claimed: int
    queued: int
    idle: int
    starting: int
    """Pending or starting, expected to become idle."""
    held: int
    stopping: int
    quota_free: int
    quiet_for: float
    """Seconds since the newest claim."""
    failed: int = 0
    """Ended within FAILED_WINDOW without ever being idle."""
    cause: str = ""
    """In the cluster's words, of the held or failed ones."""

    @property
    def supply(self) -> int:
        return self.claimed + self.idle + self.starting

    @property
    def live(self) -> int:
        return self.supply + self.held + self.stopping


class Binding(StrEnum):
    """What kept a decision from asking for more (or less)."""

    NONE = "none"
    DEMAND = "demand"
    FLOOR = "floor"
    CEILING = "ceiling"
    QUOTA = "quota"
    STARTING = "starting"
    HELD = "held"
    QUIET = "quiet"


@dataclass(frozen=True)
class Decision:
    """`change` > 0: insert that many; < 0: end that many idle ones. `sentence` is what people read."""

    want: int
    change: int
    binding: Binding
    sentence: str

    @property
    def matters(self) -> bool:
        """Whether it changes something or explains why it cannot."""
        return self.change != 0 or self.binding not in (Binding.NONE, Binding.FLOOR, Binding.QUIET)


def decide(policy: Policy, seen: Observed) -> Decision:
    """The next step of a group."""
    demand = seen.claimed + seen.queued + policy.min_idle
    want = min(max(demand, policy.min_replicas), policy.max_replicas)
    if want > seen.supply:
        return grow(policy, seen, want)
    if seen.supply > want and seen.idle > 0 and seen.queued == 0:
        return shrink(policy, seen, want)
    return at_target(policy, seen, want, demand)


def grow(policy: Policy, seen: Observed, want: int) -> Decision:
    need = want - seen.supply
    rooms = [
        (max(0, policy.max_replicas - seen.live), Binding.CEILING),
        (max(0, seen.quota_free), Binding.QUOTA),
        (max(0, starting_limit(policy, seen) - seen.starting), Binding.STARTING),
        (0 if seen.held + seen.failed >= HELD_LIMIT else need, Binding.HELD),
    ]
    room, binding = min(rooms, key=lambda pair: pair[0])
    if room >= need:
        binding = Binding.FLOOR if want == policy.min_replicas else Binding.DEMAND
    change = min(need, room)
    return Decision(want, change, binding, explain_growth(policy, seen, binding, need, change))


def starting_limit(policy: Policy, seen: Observed) -> int:
    return max(policy.max_starting, (seen.claimed + seen.queued) // 4)


def explain_growth(policy: Policy, seen: Observed, binding: Binding, need: int, change: int) -> str:
    asked = f"{seen.queued} queued, {seen.claimed} claimed and {policy.min_idle} to keep idle need {need} more."
    if binding is Binding.CEILING:
        return f"{asked} The ceiling of {policy.max_replicas} leaves room for {change}; raise it to the run's peak."
    if binding is Binding.QUOTA:
        return f"{asked} The team's quota leaves room for {change}; end sandboxes or ask for more quota."
    if binding is Binding.STARTING:
        return f"{asked} {seen.starting} are starting, {starting_limit(policy, seen)} at once is the limit."
    if binding is Binding.HELD:
        what = f"{seen.held} sandboxes are stuck" if seen.held else f"{seen.failed} sandboxes have just failed to start"
        return f"{asked} Growth waits and will be tried again: {what} ({seen.cause or 'see their findings'})."
    return f"{asked} Growing by {change}."


def shrink(policy: Policy, seen: Observed, want: int) -> Decision:
    surplus = min(seen.idle, seen.supply - want)
    if seen.quiet_for < policy.quiet_window:
        wait = max(1, round(policy.quiet_window - seen.quiet_for))
        return Decision(want, 0, Binding.QUIET, f"{surplus} idle are surplus; they end in {wait} s if no claim comes.")
    return Decision(want, -surplus, Binding.NONE, f"{surplus} idle were surplus for a quiet minute and are ended.")


def at_target(policy: Policy, seen: Observed, want: int, demand: int) -> Decision:
    if demand > policy.max_replicas:
        text = f"Demand is {demand}, the ceiling is {policy.max_replicas}; raise it to the run's peak."
        return Decision(want, 0, Binding.CEILING, text)
    text = f"At target. {seen.idle} claimable, ceiling {policy.max_replicas}, quota leaves {max(0, seen.quota_free)}."
    if seen.starting:
        text = f"{seen.starting} starting; with them the target of {want} is met."
    return Decision(want, 0, Binding.FLOOR if want == policy.min_replicas else Binding.NONE, text)


def inputs(policy: Policy, seen: Observed) -> dict[str, Any]:
    """What a decision is stored with."""
    return asdict(policy) | asdict(seen)
