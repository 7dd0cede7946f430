"""What keeps `manage.py up` from starting: one sentence that names the way out."""

from __future__ import annotations


class Problem(Exception):
    """Shown without a traceback; the exit code is 1."""
