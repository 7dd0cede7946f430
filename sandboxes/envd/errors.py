"""The three ways a request is refused: broken HTTP, an HTTP route's error, a Connect call's error."""

from __future__ import annotations

import errno

RPC_STATUS = {
    "invalid_argument": 400,
    "unauthenticated": 401,
    "permission_denied": 403,
    "not_found": 404,
    "already_exists": 409,
    "failed_precondition": 400,
    "resource_exhausted": 429,
    "internal": 500,
    "unimplemented": 501,
    "unavailable": 503,
    "deadline_exceeded": 504,
}
"""HTTP status of a unary Connect error (e2b-protocol.md 3.1)."""

_ERRNO_CODES = {
    errno.ENOENT: "not_found",
    errno.ESRCH: "not_found",
    errno.EEXIST: "already_exists",
    errno.EACCES: "permission_denied",
    errno.EPERM: "permission_denied",
    errno.EROFS: "permission_denied",
    errno.ENOTDIR: "invalid_argument",
    errno.EISDIR: "invalid_argument",
    errno.EINVAL: "invalid_argument",
    errno.ENAMETOOLONG: "invalid_argument",
    errno.ELOOP: "invalid_argument",
    errno.ENXIO: "invalid_argument",
    errno.ETXTBSY: "invalid_argument",
    errno.ENOEXEC: "invalid_argument",
    errno.E2BIG: "invalid_argument",
    errno.ENOSPC: "resource_exhausted",
    errno.EDQUOT: "resource_exhausted",
    errno.EMFILE: "resource_exhausted",
    errno.ENFILE: "resource_exhausted",
    errno.ENOMEM: "resource_exhausted",
    errno.EAGAIN: "resource_exhausted",
}
_DISK_FULL = (errno.ENOSPC, errno.EDQUOT)


class Gone(Exception):
    """The client has left, or its connection is of no more use."""


class HttpError(Exception):
    """An HTTP route's refusal; the body is `{"code": status, "message": message}`."""

    def __init__(self, status: int, message: str, close: bool = False) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.close = close


class RpcError(Exception):
    """A Connect call's refusal; the body or trailer holds `{"code": code, "message": message}`."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def rpc_error(error: OSError, what: str) -> RpcError:
    """The Connect error for a failed system call; `what` says what was tried, as in "listing /tmp"."""
    return RpcError(_ERRNO_CODES.get(error.errno or 0, "internal"), _sentence(error, what))


def http_error(error: OSError, what: str) -> HttpError:
    """Likewise for HTTP routes; a full disk is 507 there (e2b-protocol.md 3.4)."""
    if error.errno in _DISK_FULL:
        return HttpError(507, _sentence(error, what))
    code = _ERRNO_CODES.get(error.errno or 0, "internal")
    return HttpError(RPC_STATUS[code], _sentence(error, what))


def _sentence(error: OSError, what: str) -> str:
    return f"{what} failed: {(error.strerror or str(error)).lower()}"
