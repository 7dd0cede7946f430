"""`manage.py up --cluster kubernetes`: the real Kubernetes of one node runs for as long as we do.

It is started detached, as `manage.py kubernetes up` does it, and used like any other cluster: under an account with the
rights of deploy/base/rbac.yaml, with images from a registry.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from console.kubernetes import account, command, machine
from console.kubernetes.place import Place
from deploy import demo_image
from deploy.envd.carrier import carrier
from deploy.envd.pack import pack
from deploy.oci import problem as of_images
from deploy.oci.registry import push

from .options import Options
from .problem import Problem
from .programs import ENVD_IMAGE, IMAGE


@contextmanager
def running(chosen: Options) -> Iterator[None]:
    """One that runs already in our folder is used, and goes on running afterwards."""
    if not chosen.single_node:
        yield
        return
    place, console = Place(chosen.single_node_state), Console(highlight=False)
    ours = not is_up(place)
    if ours:
        command.start(place, console)
    try:
        prepare(place, console)
        yield
    finally:
        if ours:
            command.stop(console)


def is_up(place: Place) -> bool:
    holder = machine.running()
    return holder is not None and holder.place == place and place.facts.exists()


def prepare(place: Place, console: Console) -> None:
    """What our Pods need: an account to create them, and their images."""
    account.kubeconfig(place)
    registry = place.known_facts()["registry"]
    try:
        with console.status(f"Making {ENVD_IMAGE} and {IMAGE}"):
            push_envd(f"{registry}/{ENVD_IMAGE}")
            push(demo_image.demo_image(), f"{registry}/{IMAGE}")
    except of_images.Problem as problem:
        raise Problem(str(problem)) from problem
    console.print(f"{ENVD_IMAGE} and {IMAGE} are in the registry", soft_wrap=True)


def push_envd(name: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        pack(Path(folder))
        push(carrier(Path(folder)), name)
