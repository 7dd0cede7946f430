"""One Redis subscription a process: which claims are bound, which sandboxes are gone, which deadlines moved.

Hints only: each has a fallback that asks PostgreSQL once a second, so a dead Redis costs at most that second.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import redis.asyncio as redis
from django.conf import settings

Listener = Callable[[Any], None]
"""Is given the JSON of one message."""

SILENCE = 5.0


class Notices:
    def __init__(self, listeners: dict[str, Listener]) -> None:
        self._listeners = {channel.encode(): listener for channel, listener in listeners.items()}

    async def listen(self) -> None:
        """Subscribe and pass messages on until the connection fails; meant for `loops.forever`."""
        client = redis.Redis.from_url(settings.REDIS_URL, socket_connect_timeout=2, health_check_interval=5)
        async with client, client.pubsub() as subscription:
            await subscription.subscribe(*self._listeners)
            while True:
                message = await subscription.get_message(timeout=SILENCE)
                if message and message["type"] == "message":
                    self._pass_on(message["channel"], message["data"])

    def _pass_on(self, channel: bytes, data: bytes) -> None:
        listener = self._listeners.get(channel)
        if listener is not None:
            listener(json.loads(data))
