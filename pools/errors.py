"""What can be wrong with a request, independent of HTTP: every face maps these to its own form."""

from __future__ import annotations

from collections.abc import Sequence


class DomainError(Exception):
    """A refusal a person can act on: a stable `code`, a sentence, and the field it is about ("" if none)."""

    code = "invalid"

    def __init__(self, message: str, *, field: str = "", code: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.field = field
        self.code = code or type(self).code


class Invalid(DomainError):
    """The input breaks a rule."""


class InvalidDocument(Invalid):
    """Several fields of one document are wrong: `problems` are pairs of path and sentence, the first is the message."""

    def __init__(self, problems: Sequence[tuple[str, str]]) -> None:
        field, text = problems[0]
        super().__init__(f"{field}: {text}", field=field)
        self.problems = tuple(problems)


class NotFound(DomainError):
    """No such object, or not yours: the two look alike on purpose."""

    code = "not_found"


class Forbidden(DomainError):
    """Your role does not allow it."""

    code = "forbidden"


class Conflict(DomainError):
    """Somebody changed it meanwhile."""

    code = "conflict"


class QuotaExceeded(DomainError):
    """The team's quota leaves no room."""

    code = "quota_exceeded"
