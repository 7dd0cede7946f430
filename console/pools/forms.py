"""The form for floor, ceiling and idle count. Works without JavaScript; names the field and the way out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypedDict

from django.http import QueryDict
from django.utils.translation import gettext as _

from pools.errors import Invalid
from pools.models import ScalingGroup


class Bounds(TypedDict):
    min_replicas: int
    max_replicas: int
    min_idle: int


NAMES: tuple[str, ...] = ("min_replicas", "max_replicas", "min_idle")


@dataclass
class Field:
    name: str
    label: str
    hint: str
    value: str = ""
    error: str = ""

    def number(self) -> int:
        """Raises Invalid with the way out."""
        text = self.value.strip()
        if not text:
            raise Invalid(_("Give a number; 0 is allowed."), field=self.name)
        if not (text.isascii() and text.isdigit()):
            raise Invalid(_("“%s” is not a whole number from 0 up, such as 64.") % text, field=self.name)
        return int(text)


@dataclass
class ScaleForm:
    """Strings as sent, and what is wrong with each."""

    fields: list[Field]
    generation: str
    general: str = ""
    quota_effect: str = field(default="")

    @classmethod
    def of(cls, group: ScalingGroup) -> ScaleForm:
        return cls(_fields({name: str(getattr(group, name)) for name in NAMES}), str(group.generation))

    @classmethod
    def sent(cls, data: QueryDict) -> ScaleForm:
        return cls(_fields({name: data.get(name, "")[:12] for name in NAMES}), data.get("generation", "")[:12])

    @property
    def wrong(self) -> bool:
        return bool(self.general) or any(field.error for field in self.fields)

    def bounds(self) -> Bounds:
        """The numbers. Every field that is none says so; then the first of them is raised."""
        numbers, errors = {}, []
        for each in self.fields:
            try:
                numbers[each.name] = each.number()
            except Invalid as error:
                each.error = error.message
                errors.append(error)
        if errors:
            raise errors[0]
        floor, ceiling, idle = (numbers[name] for name in NAMES)
        return Bounds(min_replicas=floor, max_replicas=ceiling, min_idle=idle)

    def generation_number(self) -> int:
        if not (self.generation.isascii() and self.generation.isdigit()):
            raise Invalid(_("The form is incomplete: load the page again."), field="generation")
        return int(self.generation)

    def refuse(self, error: Invalid) -> None:
        for each in self.fields:
            if each.name == error.field:
                each.error = error.message
                return
        self.general = error.message

    def overtaken(self, group: ScalingGroup) -> None:
        """Somebody was faster: show both, and let Apply overwrite knowingly."""
        for each in self.fields:
            if each.value.strip() != str(getattr(group, each.name)):
                each.error = _("It is %d now; yours is kept here.") % getattr(group, each.name)
        self.general = _("Somebody changed these bounds meanwhile. Compare, then apply again.")
        self.generation = str(group.generation)


def _fields(values: dict[str, str]) -> list[Field]:
    floor = Field("min_replicas", _("Floor"), _("Kept whatever the demand. The steady load of your run."))
    ceiling = Field("max_replicas", _("Ceiling"), _("The peak in flight at once, not the number of episodes."))
    idle = Field("min_idle", _("Idle"), _("Kept claimable on top of demand."))
    for each in (floor, ceiling, idle):
        each.value = values[each.name]
    return [floor, ceiling, idle]
