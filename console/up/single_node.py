"""`manage.py up --cluster kubernetes`: the real Kubernetes of one node runs for as long as we do.

It is started detached, as `manage.py kubernetes up` does it, and used through its kubeconfig like any other cluster.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console

from console.kubernetes import command, machine
from console.kubernetes.place import Place

from .options import Options


@contextmanager
def running(chosen: Options) -> Iterator[None]:
    """One that runs already in our folder is used, and goes on running afterwards."""
    place = Place(chosen.single_node_state)
    if not chosen.single_node or is_up(place):
        yield
        return
    console = Console(highlight=False)
    command.start(place, console)
    try:
        yield
    finally:
        command.stop(console)


def is_up(place: Place) -> bool:
    holder = machine.running()
    return holder is not None and holder.place == place and place.facts.exists()
