"""Starts the parts in their order, waits until Pods can be created, and stops them.

Everything but the pushed images is thrown away at the end: every start is a new, empty cluster. So nobody needs a
goodbye, and a stop takes a second.
"""

from __future__ import annotations

import asyncio
import json
import signal

from console.up.checks import write_private
from console.up.problem import Problem
from console.up.supervisor import Supervisor

from . import certificates, cgroups, contents, control_plane, facts, kernel, network, node, registry
from .binaries import Binaries
from .logs import Logs
from .place import Place, Ports, choose_ports
from .programs import programs

KUBECONFIGS = {"admin": "kubeconfig"} | {
    name: f"{name}.kubeconfig" for name in ("controller-manager", "scheduler", "kubelet")
}


def prepare(place: Place) -> Ports:
    """Everything on the disk and in the kernel that the programs expect."""
    ports = choose_ports()
    place.pid_files.mkdir(mode=0o700, exist_ok=True)
    kernel.remember(place)
    certificates.make(place)
    for user, file in KUBECONFIGS.items():
        write_private(place.state / file, certificates.kubeconfig(place, user, ports.api))
    control_plane.prepare(place)
    registry.prepare(place, ports.registry)
    node.prepare(place, ports)
    cgroups.make()
    network.make(place)
    return ports


async def run(binaries: Binaries, place: Place) -> None:
    """Until Ctrl-C, or a problem."""
    ports = prepare(place)
    parts = programs(binaries, place, ports)
    screen = Logs([program.name for program in parts], place.logs)
    supervised = Supervisor(parts, place.pid_files, screen)
    asked = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, asked.set)
    screen.start()
    supervised.start()
    known = facts.facts(binaries, place, ports)
    up = asyncio.create_task(come_up(place, known, supervised, screen))
    supervised.failed.add_done_callback(lambda _: asked.set())
    try:
        await asked.wait()
    finally:
        up.cancel()
        screen.started()
        screen.say("stopping")
        await supervised.stop()
    if supervised.failed.done() and (problem := supervised.failed.exception()):
        raise Problem(f"{problem} Logs are in {place.logs}.") from problem


async def come_up(place: Place, known: dict[str, str], supervised: Supervisor, screen: Logs) -> None:
    try:
        await supervised.ready["registry"].wait()
        await asyncio.to_thread(contents.push_pause, known["registry"])
        await supervised.ready["apiserver"].wait()
        await asyncio.to_thread(contents.make_namespace, place)
        await supervised.all_ready()
        await asyncio.to_thread(contents.wait_for_account, place)
        write_private(place.facts, json.dumps(known, indent=2))
        screen.started()
        screen.say(f"Pods can be created ({screen.elapsed():.1f} s)")
        screen.block(facts.summary(known))
    except Exception as error:  # noqa: BLE001 - raised again by whoever waits for `failed`
        supervised.fail(error)
