"""Is the process up (/healthz), and can it answer (/readyz)."""

from __future__ import annotations

import structlog
from django.db import Error, connection
from django.http import HttpRequest, JsonResponse

log = structlog.get_logger(__name__)


def healthz(request: HttpRequest) -> JsonResponse:
    return JsonResponse({"status": "ok"})


def readyz(request: HttpRequest) -> JsonResponse:
    """503 while the database does not answer; Redis is not needed to answer."""
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except Error as error:
        log.warning("not ready", error=str(error))
        return JsonResponse({"status": "unready", "reason": "The database does not answer."}, status=503)
    return JsonResponse({"status": "ok"})
