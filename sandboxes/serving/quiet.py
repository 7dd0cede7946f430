"""What uvicorn logs and we do not want: cut streams as errors, and WebSocket URLs with whatever secret they carry."""

from __future__ import annotations

import logging

UNWANTED = ("ASGI callable returned without completing response.", '%s - "WebSocket %s"')
"""A cut stream is how a sandbox's end looks, thousands of times a day."""


class WithoutUnwanted(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        return not str(record.msg).startswith(UNWANTED)


def install() -> None:
    logger = logging.getLogger("uvicorn.error")
    if not any(isinstance(present, WithoutUnwanted) for present in logger.filters):
        logger.addFilter(WithoutUnwanted())
