"""Answers and refusals in the SDK's form: every error has `code` (int) and `message` (e2b-protocol 0.3)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from pools.errors import Conflict, DomainError, Forbidden, Invalid, NotFound, QuotaExceeded
from sandboxes.serving.asgi import Header

NO_RETRY: Header = (b"should-retry", b"false")
RETRY: Header = (b"should-retry", b"true")

STATUS: dict[type[DomainError], int] = {Invalid: 400, Forbidden: 403, NotFound: 404, Conflict: 409, QuotaExceeded: 429}


@dataclass(frozen=True, slots=True)
class Answer:
    """`payload` None means no body."""

    status: int
    payload: Any = None
    headers: list[Header] = field(default_factory=list)


class Refusal(Exception):
    """An error answer. `error_code` is the SDK's stable name for the few it knows."""

    def __init__(self, status: int, message: str, *, error_code: str = "", headers: Iterable[Header] = ()) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.error_code = error_code
        self.headers = list(headers)

    def answer(self) -> Answer:
        code = {"error_code": self.error_code} if self.error_code else {}
        return Answer(self.status, {"code": self.status, "message": self.message, **code}, self.headers)


def invalid(field_name: str, message: str) -> Refusal:
    return Refusal(400, f"{field_name}: {message}")


def not_there(sandbox_id: str) -> Refusal:
    """Unknown, ended, expired or another team's: they look alike on purpose."""
    return Refusal(404, f"Sandbox {sandbox_id} was not found. It was never yours, was killed, or reached its timeout.")


def try_again(message: str, *, error_code: str = "", after: int = 1) -> Refusal:
    """503 for what a repeat may cure; nothing was kept."""
    headers = [RETRY, (b"retry-after", str(max(1, after)).encode())]
    return Refusal(503, message, error_code=error_code, headers=headers)


def refusal_of(error: DomainError) -> Refusal:
    status = next((status for kind, status in STATUS.items() if isinstance(error, kind)), 400)
    text = f"{error.field}: {error.message}" if error.field and status == 400 else error.message
    named = error.code if error.code.startswith(("idempotency", "sandbox")) else ""
    headers = [NO_RETRY] if status in (409, 429) else []
    return Refusal(status, text, error_code=named, headers=headers)
