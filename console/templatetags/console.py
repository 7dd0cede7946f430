"""Tags for times: relative ones are kept ticking by static/js/time.js, the exact one is on hover."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django import template
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

from console.figures import number
from console.shown import NOTHING, finding_word, iso, span

register = template.Library()
register.filter("finding_word", finding_word)
register.filter("number", number)

HTMX = "HX-Request"


@register.simple_tag(takes_context=True)
def moment(context: dict[str, Any], value: datetime | str | None, shown_as: str = "age") -> SafeString | str:
    """A <time>: `age` (18 min), `ago` (18 min ago), `left` (until then) or `clock`. Partials leave relative words to
    the browser, so that an unchanged page has an unchanged ETag."""
    stamp = iso(value)
    if not stamp:
        return NOTHING
    partial = bool(context["request"].headers.get(HTMX))
    text = "" if partial and shown_as != "clock" else _words(datetime.fromisoformat(stamp), shown_as)
    return format_html('<time datetime="{}" title="{}" data-as="{}">{}</time>', stamp, stamp, shown_as, text)


def _words(at: datetime, shown_as: str) -> str:
    if shown_as == "clock":
        return f"{at:%H:%M:%S}"
    seconds = (timezone.now() - at).total_seconds()
    if shown_as == "left":
        return span(-seconds)
    return f"{span(seconds)} ago" if shown_as == "ago" else span(seconds)


@register.simple_tag(takes_context=True)
def query(context: dict[str, Any], **changes: Any) -> str:
    """The current filter's query string with changes, with its question mark."""
    text = context["filter"].query(**changes)
    return f"?{text}" if text else "?"
