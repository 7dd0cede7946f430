"""The hash by which a page finds out that it was not told everything. Pure."""

from __future__ import annotations

from collections.abc import Iterable


def fingerprint(rows: Iterable[tuple[str, int]]) -> str:
    """FNV-1a of the (id, rev) pairs in their order; static/js/hash.js computes the same of what is on screen."""
    value = 0x811C9DC5
    for byte in ",".join(f"{id_}:{rev}" for id_, rev in rows).encode("ascii"):
        value = ((value ^ byte) * 0x01000193) & 0xFFFFFFFF
    return f"{value:08x}"
