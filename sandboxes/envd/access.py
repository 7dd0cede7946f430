"""Who may call: the bootstrap token for `/init`, the access token or a signature for the rest (e2b-protocol.md 3.5)."""

from __future__ import annotations

import time
from _operator import _compare_digest as same
from binascii import b2a_base64

from .errors import HttpError
from .lean import sha256

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .http1 import Request
    from .sandbox import Sandbox

EXPIRED = "signature is already expired"
"""Clients compare this text."""


def check_bootstrap(sandbox: Sandbox, request: Request) -> None:
    """HttpError 401 unless the caller holds the token whose hash the Pod was started with."""
    if not sandbox.bootstrap_sha256:
        return
    kind, _, token = request.headers.get("authorization", "").partition(" ")
    digest = sha256(token.strip().encode()).hexdigest()
    if kind.lower() != "bearer" or not same(digest.encode(), sandbox.bootstrap_sha256.encode()):
        raise HttpError(401, "the header Authorization must be Bearer and this sandbox's bootstrap token")


def check_token(sandbox: Sandbox, given: str, header: str = "X-Access-Token") -> None:
    """HttpError 401 for a wrong token. Without any a sandbox is open only if it was started open (local tests)."""
    if sandbox.unarmed:
        raise HttpError(401, "this sandbox is not claimed yet")
    if sandbox.access_token and not same(given.encode(), sandbox.access_token.encode()):
        raise HttpError(401, f"the header {header} must be this sandbox's access token")


def check_file_access(sandbox: Sandbox, request: Request, operation: str) -> None:
    """The header counts if it is there; without it the query must be signed for just this path, user and operation."""
    if not sandbox.access_token or "x-access-token" in request.headers:
        check_token(sandbox, request.headers.get("x-access-token", ""))
        return
    query = request.parameters()
    if "signature" not in query:
        raise HttpError(401, "this needs the header X-Access-Token or a signature in the query")
    signed = [query.get("path", ""), operation, query.get("username", ""), sandbox.access_token]
    expiration = query.get("signature_expiration")
    signature = sign(*signed, *([expiration] if expiration is not None else []))
    if not same(query["signature"].encode(), signature.encode()):
        raise HttpError(401, "the signature does not fit this path, user and operation")
    if expiration is not None and not _lies_ahead(expiration):
        raise HttpError(401, EXPIRED)


def sign(*fields: str) -> str:
    digest = sha256(":".join(fields).encode()).digest()
    return "v1_" + b2a_base64(digest, newline=False).decode().rstrip("=")


def _lies_ahead(expiration: str) -> bool:
    digits = expiration.removeprefix("-")
    if not digits.isascii() or not digits.isdigit() or len(digits) > 15:
        raise HttpError(400, "signature_expiration must be unix seconds")
    return int(expiration) >= time.time()
