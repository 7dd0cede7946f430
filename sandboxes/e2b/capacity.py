"""Why no sandbox came in time, in the words of the group's newest decision."""

from __future__ import annotations

from sandboxes.claims import Wanted
from sandboxes.models import Decision
from sandboxes.serving.database import BROKEN, Database
from sandboxes.serving.recent import Recent

from .answers import Refusal, try_again

KEPT_SECONDS = 1.0
ERROR_CODE = "sandbox_capacity_unavailable"
RETRY_AFTER = 5


class Capacity:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._sentences: Recent[int, str] = Recent(self._load, KEPT_SECONDS)

    async def missing(self, wanted: Wanted) -> Refusal:
        """503 with the binding constraint's sentence; nothing was kept, so a repeat is safe."""
        text = f"No sandbox became free within {wanted.wait:.0f} s. {await self._sentence(wanted.group_id)}"
        return try_again(text.strip(), error_code=ERROR_CODE, after=RETRY_AFTER)

    async def _sentence(self, group_id: int) -> str:
        try:
            return await self._sentences.get(group_id)
        except BROKEN:
            return ""

    async def _load(self, group_id: int) -> str:
        return await self._database.upkeep(newest_sentence, group_id)


def newest_sentence(group_id: int) -> str:
    newest = Decision.objects.filter(group_id=group_id).order_by("-at").values_list("sentence", flat=True)
    return newest.first() or ""
