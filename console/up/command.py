"""`manage.py up` from start to end."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys

import psycopg

from . import checks, demo_env, options, ports, postgresql, programs, single_node, supervisor, valkey
from .options import Options
from .problem import Problem
from .program import Program
from .screen import Screen
from .supervisor import Supervisor

CLAIMABLE_LIMIT = 120.0
CLAIMABLE_POLL = 0.1
CLAIMABLE = """
    SELECT count(*) FILTER (WHERE sandbox.state = 'idle'), scaling.min_idle
    FROM pools_scalinggroup scaling JOIN pools_env env ON env.default_group_id = scaling.id
    JOIN pools_pool pool ON pool.group_id = scaling.id
    JOIN pools_cluster cluster ON cluster.id = pool.cluster_id
    LEFT JOIN sandboxes_sandbox sandbox ON sandbox.group_id = scaling.id AND sandbox.state = 'idle'
    WHERE env.name = 'base' AND cluster.name = 'local' AND cluster.synced_at > %s
    GROUP BY scaling.id ORDER BY scaling.id LIMIT 1
"""
"""Idle sandboxes of the seeded group as a watcher of this start has seen them, and how many it keeps."""


def main(arguments: list[str]) -> int:
    """Returns the exit code: 0 after Ctrl-C once it ran, 1 with a sentence if it could not start."""
    try:
        checks.platform()
        chosen = options.read(arguments)
        checks.state_folder(chosen.var)
        with checks.alone(chosen.var), single_node.running(chosen):
            start(chosen)
    except Problem as problem:
        print(f"manage.py up: {problem}", file=sys.stderr)  # noqa: T201
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def start(chosen: Options) -> None:
    """Everything before the first process of ours runs."""
    left = supervisor.clear(chosen.pid_files)
    web = ports.listen(chosen.port, "the web's", "choose another with PORT=, for example make run PORT=9000.")
    edge = ports.listen(chosen.edge_port, "the edge's, PORT + 1", "choose another PORT=, for example PORT=9000.")
    with web, edge:
        checks.given_servers(chosen)
        checks.namespaces(chosen)
        checks.secret_key(chosen.var)
        prepare_servers(chosen)
        kubernetes = ports.free(chosen.port + 2)
        asyncio.run(run(chosen, programs.programs(chosen, web.fileno(), edge.fileno(), kubernetes), left))


def prepare_servers(chosen: Options) -> None:
    if not chosen.redis_url:
        valkey.prepare(chosen.valkey)
    if chosen.database_url:
        return
    try:
        postgresql.prepare(chosen.postgresql)
    except subprocess.CalledProcessError as error:
        text = error.stderr.decode(errors="replace").strip().splitlines()[-1]
        raise Problem(f"PostgreSQL cannot make its data folder ({text}): correct that, or set DATABASE_URL.") from error


async def run(chosen: Options, all_programs: list[Program], left: list[str]) -> None:
    screen = Screen([program.name for program in all_programs])
    supervised = Supervisor(all_programs, chosen.pid_files, screen)
    asked = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, asked.set)
    if left:
        screen.say(f"ended what an earlier start left behind: {', '.join(left)}")
    screen.start()
    supervised.start()
    up = asyncio.create_task(come_up(chosen, supervised, screen))
    supervised.failed.add_done_callback(lambda _: asked.set())
    try:
        await asked.wait()
    finally:
        up.cancel()
        screen.started()
        screen.say("stopping; everything is kept in " + demo_env.shown(chosen.var))
        await supervised.stop()
    if supervised.failed.done():
        supervised.failed.result()


async def come_up(chosen: Options, supervised: Supervisor, screen: Screen) -> None:
    """Until the first sandboxes can be claimed; then say how to use them."""
    try:
        await supervised.all_ready()
        demo_env.write(chosen)
        await claimable(chosen, screen)
        screen.started()
        screen.block(demo_env.summary(chosen))
    except Exception as error:  # noqa: BLE001 - raised again by whoever waits for `failed`
        supervised.fail(error)


async def claimable(chosen: Options, screen: Screen) -> None:
    """Wait for the seeded group's idle sandboxes. A cluster of somebody else may take long: then it is only said."""
    url = chosen.database_url or postgresql.url(chosen.postgresql, "agentbox")
    loop = asyncio.get_running_loop()
    deadline = loop.time() + CLAIMABLE_LIMIT
    with psycopg.connect(url, autocommit=True, connect_timeout=5) as connection:
        while loop.time() < deadline:
            row = connection.execute(CLAIMABLE, [screen.began_at]).fetchone()
            idle, wanted = row or (0, 0)
            if row and idle >= wanted:
                screen.say(f"{idle} sandboxes are claimable ({screen.elapsed():.1f} s)", "dim")
                return
            screen.wait_for(f"warming sandboxes: {idle} claimable")
            await asyncio.sleep(CLAIMABLE_POLL)
    screen.say(f"no sandboxes are claimable yet; the console says why: {chosen.web_url}", "yellow")
