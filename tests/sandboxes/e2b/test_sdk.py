"""The unmodified E2B SDK, sync and async, against a real edge process and real daemons."""

from __future__ import annotations

import asyncio

import pytest
from e2b import (
    AsyncSandbox,
    AuthenticationException,
    NotFoundException,
    Sandbox,
    SandboxException,
    SandboxQuery,
    SandboxState,
)

from sandboxes import models
from tests.sandboxes.edge_fixtures import World


def test_a_sandbox_is_created_used_and_killed(world: World) -> None:
    row = world.idle()
    sandbox = Sandbox.create(
        "base", timeout=60, metadata={"run": "7"}, envs={"COLOUR": "blue", "HOME": "/tmp"}, **world.options
    )
    assert sandbox.sandbox_id == row.id
    assert sandbox.is_running()
    done = sandbox.commands.run("echo $COLOUR; exit 0")
    assert done.stdout == "blue\n"
    sandbox.files.write("/tmp/note-of-" + row.id, "hello")
    assert sandbox.files.read("/tmp/note-of-" + row.id) == "hello"
    info = sandbox.get_info()
    assert info.metadata == {"run": "7"}
    assert info.template_id == "base"
    assert 50 < (info.end_at - info.started_at).total_seconds() < 62
    assert sandbox.kill() is True
    assert sandbox.is_running() is False
    assert sandbox.kill() is False
    row.refresh_from_db()
    assert (row.state, row.end_reason) == ("stopping", "killed")


def test_the_async_sdk_does_the_same(world: World) -> None:
    world.idle()

    async def use() -> str:
        sandbox = await AsyncSandbox.create("base", timeout=60, envs={"HOME": "/tmp"}, **world.options)
        done = await sandbox.commands.run("printf async")
        await sandbox.set_timeout(120)
        page = await AsyncSandbox.list(api_key=world.key, api_url=world.edge.url).next_items()
        assert [listed.sandbox_id for listed in page] == [sandbox.sandbox_id]
        assert await sandbox.kill()
        return done.stdout

    assert asyncio.run(use()) == "async"


def test_connect_gives_the_same_sandbox_and_only_extends(world: World) -> None:
    world.idle()
    sandbox = world.create(timeout=300)
    before = models.Sandbox.objects.get().end_at
    again = Sandbox.connect(sandbox.sandbox_id, timeout=10, **world.options)
    assert again.commands.run("echo here").stdout == "here\n"
    assert models.Sandbox.objects.get().end_at == before
    Sandbox.connect(sandbox.sandbox_id, timeout=900, **world.options)
    after = models.Sandbox.objects.get().end_at
    assert before is not None
    assert after is not None
    assert (after - before).total_seconds() > 500


def test_the_sdk_raises_its_own_exceptions(world: World) -> None:
    with pytest.raises(AuthenticationException, match="unknown or revoked"):
        Sandbox.create("base", **(world.options | {"api_key": "e2b_" + "0" * 40}))
    with pytest.raises(SandboxException, match=r"404: There is no env 'nope' in your team. There are: base."):
        Sandbox.create("nope", **world.options)
    with pytest.raises(NotFoundException):
        Sandbox.connect("i" + "0" * 20, **world.options)
    with pytest.raises(SandboxException, match="autoPause: is not supported"):
        Sandbox.create("base", lifecycle={"on_timeout": "pause"}, **world.options)


def test_pausing_is_refused_plainly(world: World) -> None:
    world.idle()
    sandbox = world.create()
    with pytest.raises(SandboxException, match=r"501: POST /sandboxes/.* is not supported"):
        sandbox.pause()


def test_metrics_come_from_the_daemon(world: World) -> None:
    world.idle()
    sandbox = world.create()
    (point,) = sandbox.get_metrics()
    assert point.mem_total > 0


def test_nothing_runs_in_a_paused_state(world: World) -> None:
    world.idle()
    world.create()
    paginator = Sandbox.list(query=SandboxQuery(state=[SandboxState.PAUSED]), api_key=world.key, api_url=world.edge.url)
    assert paginator.next_items() == []
