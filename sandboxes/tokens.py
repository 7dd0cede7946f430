"""Names and secrets of sandboxes. Tokens are derived, not stored: HMAC-SHA-256 of the id under SECRET_KEY."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import string

from django.conf import settings

ALPHABET = string.ascii_lowercase + string.digits


def new_sandbox_id() -> str:
    """`i` and 20 of [a-z0-9]: fits `49983-<id>` into a DNS label, has no dash (e2b-protocol 0.12)."""
    return "i" + "".join(secrets.choice(ALPHABET) for _ in range(20))


def derive(purpose: str, sandbox_id: str) -> str:
    return hmac.new(settings.SECRET_KEY.encode(), f"{purpose}:{sandbox_id}".encode(), hashlib.sha256).hexdigest()


def access_token(sandbox_id: str) -> str:
    """What the SDK sends as X-Access-Token; the same on create, connect and info."""
    return derive("access", sandbox_id)


def bootstrap_token(sandbox_id: str) -> str:
    """What the edge shows to envd's /init."""
    return derive("bootstrap", sandbox_id)


def bootstrap_digest(sandbox_id: str) -> str:
    """What the Pod is given instead of the token, so that reading a Pod's spec opens nothing."""
    return hashlib.sha256(bootstrap_token(sandbox_id).encode()).hexdigest()
