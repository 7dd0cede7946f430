"""One structured line an event, on standard output, in every process."""

from __future__ import annotations

import logging.config
import sys
from typing import Any

import structlog

SHARED: list[structlog.typing.Processor] = [
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_log_level,
    structlog.stdlib.add_logger_name,
    structlog.processors.TimeStamper(fmt="%H:%M:%S", utc=True),
    structlog.processors.format_exc_info,
]


def configure(settings: dict[str, Any]) -> None:
    """Django's LOGGING_CONFIG hook. `settings` is {"level": a logging level's name}."""
    plain = structlog.dev.plain_traceback
    renderer = structlog.dev.ConsoleRenderer(colors=sys.stdout.isatty(), exception_formatter=plain)
    formatter = {
        "()": structlog.stdlib.ProcessorFormatter,
        "processors": [structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
        "foreign_pre_chain": SHARED,
    }
    logging.config.dictConfig(
        {
            "version": 1,
            "disable_existing_loggers": False,
            "formatters": {"line": formatter},
            "handlers": {"out": {"class": "logging.StreamHandler", "formatter": "line", "stream": sys.stdout}},
            "root": {"handlers": ["out"], "level": settings["level"]},
            "loggers": {
                "celery.beat": {"level": "WARNING"},
                "celery.app.trace": {"level": "WARNING"},
                "celery.worker.strategy": {"level": "WARNING"},
                "django.request": {"level": "ERROR"},
                "uvicorn.access": {"level": "WARNING"},
            },
        }
    )
    structlog.configure(
        processors=[*SHARED, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
