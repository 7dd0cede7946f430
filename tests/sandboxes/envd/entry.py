"""Starts envd from the tree: `entry.py PARENT_OF_PACKAGE`. Under coverage its lines count, on bare threads too."""

from __future__ import annotations

import os
import sys

sys.path.insert(0, sys.argv[1])


def measure() -> None:
    """`coverage` traces threads made by `threading` only, and saves at an ordinary exit only."""
    import _thread
    import threading

    import coverage

    coverage.process_startup()
    running = coverage.Coverage.current()
    start, leave = _thread.start_new_thread, os._exit

    def traced(function, arguments):
        def run(*given):
            sys.settrace(threading.gettrace())
            function(*given)

        return start(run, arguments)

    def saved(code):
        running.stop()
        running.save()
        leave(code)

    _thread.start_new_thread, os._exit = traced, saved


if any(name.startswith("COVERAGE_PROCESS") for name in os.environ):
    measure()

from envd.main import main  # noqa: E402

main()
