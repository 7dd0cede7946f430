from __future__ import annotations

from django.utils.translation import gettext as _

from pools.models import InstanceType


def shape(of: InstanceType) -> str:
    """ "2 CPU, 4 GiB"."""
    cpu, memory = of.cpu_millis / 1000, of.memory_mib / 1024
    return _("%(cpu)s CPU, %(memory)s GiB") % {"cpu": f"{cpu:g}", "memory": f"{memory:.3g}"}
