"""What can go wrong at the Kubernetes API, so that its client's exceptions spread no further. Pure."""

from __future__ import annotations


class ClusterError(Exception):
    """The call failed; `message` is the server's own words where it gave any."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class Transient(ClusterError):
    """Worth another try: 5xx, timeouts, connection trouble. `retry_after` in seconds, 0 if the server named none."""

    def __init__(self, message: str, retry_after: float = 0.0) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Throttled(Transient):
    """429: the server asks us to slow down."""


class AlreadyExists(ClusterError):
    """409 on create: ours, since names are ours alone."""


class Gone(ClusterError):
    """404 on get or delete."""


class Expired(ClusterError):
    """410: the resourceVersion is too old; list again."""


class PreconditionFailed(ClusterError):
    """409 on delete: another Pod has that name now."""


class OverQuota(ClusterError):
    """403 "exceeded quota": a hold, not a failure."""


class Rejected(ClusterError):
    """Any other 4xx: the same request will never succeed."""


class NotAllowed(Rejected):
    """The cluster does not know us, or our account lacks the right: an operator has to mend it."""


def classify(status: int, message: str, retry_after: float = 0.0) -> ClusterError:
    """The error for an HTTP status of the API (409 is told apart by the caller, who knows the verb)."""
    if status == 403 and "exceeded quota" in message:
        return OverQuota(message)
    if status == 404:
        return Gone(message)
    if status == 409:
        return AlreadyExists(message)
    if status == 410:
        return Expired(message)
    if status == 429:
        return Throttled(message, retry_after)
    if status == 401 or (status == 403 and 'User "' in message):  # in words of RBAC, not of an admission plugin
        return NotAllowed(message)
    if status in (403, 400, 405, 413, 422):
        return Rejected(message)
    return Transient(message, retry_after)
