"""A token bucket whose rate follows the server's patience: halved when it says 429, grown again when it is content."""

from __future__ import annotations

from dataclasses import dataclass

GROWTH_PER_SECOND = 0.02
"""Of the full rate, while nothing is refused: from half to full in about 25 s."""


@dataclass(slots=True)
class Bucket:
    """`rate` tokens a second now, `full` at best; holds at most one second's worth. `at` in seconds of any clock."""

    full: float
    rate: float
    tokens: float
    at: float

    def refill(self, now: float) -> None:
        elapsed = max(0.0, now - self.at)
        self.rate = min(self.full, self.rate + self.full * GROWTH_PER_SECOND * elapsed)
        self.tokens = min(max(1.0, self.rate), self.tokens + self.rate * elapsed)
        self.at = now

    def take(self, wanted: int, now: float) -> int:
        """As many of `wanted` as may go now."""
        self.refill(now)
        granted = min(wanted, int(self.tokens))
        self.tokens -= granted
        return granted

    def halve(self) -> None:
        self.rate = max(1.0, self.rate / 2)
        self.tokens = 0.0
