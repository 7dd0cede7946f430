"""The Celery application, nothing else."""

import os
from typing import Any

from celery import Celery
from celery.signals import task_prerun

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings")

app = Celery("console")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks(["sandboxes"])


@task_prerun.connect
def check_connection(**_: Any) -> None:
    """Connections outlive tasks, so each task has one tried first: a restart of PostgreSQL costs no pass."""
    from django.db import close_old_connections

    close_old_connections()
