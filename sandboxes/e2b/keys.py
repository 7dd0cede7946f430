"""Who calls: the key in X-API-Key, looked up in PostgreSQL at most every few seconds a process."""

from __future__ import annotations

from dataclasses import dataclass

from pools import access
from pools.models import Role
from sandboxes.serving.asgi import Scope, header
from sandboxes.serving.database import Database
from sandboxes.serving.recent import Recent

from .answers import Refusal

KEPT_SECONDS = 3.0
"""A revoked key works for at most this long."""


@dataclass(frozen=True, slots=True)
class Key:
    team_id: int
    team: str
    name: str
    role: Role

    @property
    def actor(self) -> str:
        return f"key:{self.name}"

    def check_operates(self) -> None:
        if not access.allows(self.role, Role.OPERATOR):
            message = f"The key {self.name} may only look ({self.role.value}). Use a key with the role operator."
            raise Refusal(403, message)


class Keys:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._recent: Recent[str, Key | None] = Recent(self._load, KEPT_SECONDS)

    async def of(self, scope: Scope) -> Key:
        """The caller's key; raises Refusal 401."""
        secret = header(scope, b"x-api-key")
        if not secret:
            raise Refusal(401, "The header X-API-Key is missing. Set E2B_API_KEY to a key of your team.")
        key = await self._recent.get(secret)
        if key is None:
            raise Refusal(401, "This API key is unknown or revoked. Set E2B_API_KEY to a valid key of your team.")
        return key

    async def _load(self, secret: str) -> Key | None:
        return await self._database.run(load, secret)


def load(secret: str) -> Key | None:
    row = access.authenticate_key(secret)
    return None if row is None else Key(row.team_id, row.team.name, row.name, Role(row.role))
