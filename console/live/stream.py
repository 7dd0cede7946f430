"""A team's place in its live stream: (epoch, id). The epoch is new when Redis lost its memory, and ids grow within it.

The page carries its place; the socket goes on from there (design section 4, Live feed).
"""

from __future__ import annotations

import secrets
from functools import cache
from typing import NamedTuple

import redis
import structlog
from django.conf import settings

from sandboxes.live import stream as key

log = structlog.get_logger(__name__)

EPOCH = "live:epoch"
START = "0-0"
TIMEOUT = 0.5


class Place(NamedTuple):
    """Where a reader is; no epoch means that Redis did not answer and nobody can follow."""

    epoch: str
    seq: str

    @property
    def known(self) -> bool:
        return bool(self.epoch)


NOWHERE = Place("", START)


@cache
def client() -> redis.Redis:
    return redis.Redis.from_url(
        settings.REDIS_URL, socket_timeout=TIMEOUT, socket_connect_timeout=TIMEOUT, decode_responses=True
    )


def place(team_id: int) -> Place:
    """The newest place of the team's stream, NOWHERE when Redis does not answer."""
    try:
        with client().pipeline(transaction=False) as pipe:
            pipe.set(EPOCH, secrets.token_hex(4), nx=True)
            pipe.get(EPOCH)
            pipe.xrevrange(key(team_id), count=1)
            _, epoch, newest = pipe.execute()
    except redis.RedisError as error:
        log.warning("live stream not reached", error=str(error))
        return NOWHERE
    return Place(epoch, newest[0][0] if newest else START)


def order(seq: str) -> tuple[int, int]:
    """Stream ids as numbers, to compare them. Raises ValueError for anything else."""
    milliseconds, _, count = seq.partition("-")
    return int(milliseconds), int(count)
