"""What has to be true before the processes of `manage.py up` start: tables, first rows, static files."""

from __future__ import annotations

from typing import Any

from django.core.management import call_command
from django.core.management.base import BaseCommand


class Command(BaseCommand):
    help = "Migrate, seed and collect static files: the first step of `manage.py up`."
    requires_system_checks = []

    def handle(self, *args: Any, **options: Any) -> None:
        call_command("migrate", interactive=False, verbosity=0)
        call_command("seed")
        call_command("collectstatic", interactive=False, verbosity=0)
