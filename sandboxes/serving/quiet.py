"""uvicorn calls a cut stream an error; here it is how a sandbox's end looks, thousands of times a day."""

from __future__ import annotations

import logging

EXPECTED = ("ASGI callable returned without completing response.",)


class WithoutExpected(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        return record.getMessage() not in EXPECTED


def install() -> None:
    logger = logging.getLogger("uvicorn.error")
    if not any(isinstance(present, WithoutExpected) for present in logger.filters):
        logger.addFilter(WithoutExpected())
