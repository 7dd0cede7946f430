"""What has to be true before the processes of `manage.py up` start: tables, partitions and first rows."""

from __future__ import annotations

from typing import Any

from django.core.management import call_command
from django.core.management.base import BaseCommand

from sandboxes import partitions


class Command(BaseCommand):
    help = "Migrate, make partitions and seed: the first step of `manage.py up`."
    requires_system_checks = []

    def handle(self, *args: Any, **options: Any) -> None:
        call_command("migrate", interactive=False, verbosity=0)
        partitions.housekeep()  # today's partition must be there before the first row of today
        call_command("seed")
