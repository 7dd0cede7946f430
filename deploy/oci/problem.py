"""What keeps an image from being made or pushed: one sentence that names the way out.

Its own, so that the packer runs under any Python that is to be packed, without the product's dependencies.
"""

from __future__ import annotations


class Problem(Exception):
    """Shown without a traceback; the exit code is 1."""
