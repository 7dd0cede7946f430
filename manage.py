#!/usr/bin/env python
"""Django's command line for the AgentBox console."""

import os
import sys


def main() -> None:
    if sys.version_info < (3, 12):  # noqa: UP036 - whoever runs this with an old Python gets a sentence
        sys.exit(f"AgentBox needs Python 3.12 or newer, this is {sys.version.split()[0]}: use `make run`.")
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings")
    if sys.argv[1:2] == ["up"]:  # before Django: it makes what the settings read
        from console.up.command import main as up

        sys.exit(up(sys.argv[2:]))
    if sys.argv[1:2] == ["kubernetes"]:  # likewise: it needs neither settings nor a database
        from console.kubernetes.command import main as kubernetes

        sys.exit(kubernetes(sys.argv[2:]))
    from django.core.management import execute_from_command_line

    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
