"""`manage.py watch --cluster NAME`: the watcher process."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from pools.models import Cluster
from sandboxes.cluster.errors import ClusterError
from sandboxes.watcher import Watcher


class Command(BaseCommand):
    help = "Watch one cluster's Pods. Exits with 1 when it cannot continue, so that its supervisor starts it anew."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--cluster", required=True, help="the cluster's name")

    def handle(self, *args: Any, **options: Any) -> None:
        cluster = Cluster.objects.filter(name=options["cluster"]).first()
        if cluster is None:
            names = ", ".join(Cluster.objects.values_list("name", flat=True)) or "none yet, run `manage.py seed`"
            raise CommandError(f"No cluster is named {options['cluster']!r}. There is: {names}.")
        try:
            Watcher(cluster).run()
        except ClusterError as error:
            raise CommandError(f"The watch of {cluster.name} cannot continue: {error.message}") from error
