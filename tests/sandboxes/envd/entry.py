"""Starts envd from the tree: `entry.py PARENT_OF_PACKAGE`. Under coverage its lines count, on bare threads too."""

from __future__ import annotations

import os
import sys

sys.path.insert(0, sys.argv[1])


def measure() -> None:
    """`coverage` traces threads made by `threading` only."""
    import _thread
    import threading

    import coverage

    coverage.process_startup()
    start = _thread.start_new_thread

    def traced(function, arguments):
        def run(*given):
            sys.settrace(threading.gettrace())
            function(*given)

        return start(run, arguments)

    _thread.start_new_thread = traced


if any(name.startswith("COVERAGE_PROCESS") for name in os.environ):
    measure()

from envd.main import main  # noqa: E402

main()
