"""API keys: made once, shown once, kept as a digest."""

from __future__ import annotations

import hashlib
import secrets


def new_api_key() -> str:
    """`e2b_` and 40 hex digits: older SDKs refuse any other form (e2b-protocol 0.13)."""
    return "e2b_" + secrets.token_hex(20)


def key_digest(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()
