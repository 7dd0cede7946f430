"""Watching folders: the sync SDK polls, the async SDK streams."""

from __future__ import annotations

import asyncio

import pytest
from e2b import FileNotFoundException, FilesystemEvent, FilesystemEventType, InvalidArgumentException, NotFoundException

from tests.sandboxes.envd.daemon import Daemon, until

CREATE, WRITE, REMOVE = FilesystemEventType.CREATE, FilesystemEventType.WRITE, FilesystemEventType.REMOVE
RENAME, CHMOD = FilesystemEventType.RENAME, FilesystemEventType.CHMOD


def test_a_polled_watcher_tells_what_happened_in_order(envd: Daemon, work: str) -> None:
    sandbox = envd.sdk()
    watcher = sandbox.files.watch_dir(work)
    sandbox.files.write(f"{work}/file", "content")
    assert [(each.type, each.name) for each in watcher.get_new_events()] == [
        (CREATE, "file"),
        (CHMOD, "file"),
        (WRITE, "file"),
    ]
    sandbox.commands.run(f"chmod 600 {work}/file; mv {work}/file {work}/other; rm {work}/other")
    assert [each.type for each in watcher.get_new_events()] == [CHMOD, RENAME, CREATE, REMOVE]
    assert watcher.get_new_events() == []
    watcher.stop()
    with pytest.raises(NotFoundException):
        envd.sdk().files.watch_dir(f"{work}/missing")
    gone = envd.call("filesystem.Filesystem/GetWatcherEvents", watcherId="w1")
    assert gone.json["code"] == "not_found"


def test_a_recursive_watcher_follows_new_moved_and_removed_folders(envd: Daemon, work: str) -> None:
    sandbox = envd.sdk()
    sandbox.files.make_dir(f"{work}/old/inner")
    watcher = sandbox.files.watch_dir(work, recursive=True)
    sandbox.commands.run(f"mkdir -p {work}/new/deep; echo x > {work}/new/deep/file; echo x > {work}/old/inner/file")
    seen: list[FilesystemEvent] = []

    def noticed(name: str, kind: FilesystemEventType) -> bool:
        seen.extend(watcher.get_new_events())
        return any(each.name == name and each.type == kind for each in seen)

    for name, kind in (("new", CREATE), ("new/deep/file", WRITE), ("old/inner/file", WRITE)):
        until(lambda name=name, kind=kind: noticed(name, kind))
    sandbox.commands.run(f"mv {work}/old {work}/moved")
    until(lambda: noticed("moved", CREATE))
    sandbox.files.write(f"{work}/moved/inner/second", "x")
    until(lambda: noticed("moved/inner/second", WRITE))
    sandbox.files.remove(f"{work}/new")
    until(lambda: noticed("new", REMOVE))
    watcher.stop()


def test_an_event_carries_the_entry_if_asked(envd: Daemon, work: str) -> None:
    sandbox = envd.sdk()
    name = envd.call("filesystem.Filesystem/CreateWatcher", path=work, includeEntry=True).json["watcherId"]
    sandbox.commands.run(f"echo four > {work}/file; rm {work}/file; mkdir {work}/folder")
    events = envd.call("filesystem.Filesystem/GetWatcherEvents", watcherId=name).json["events"]
    entries = {(each["type"], each["name"]): each.get("entry") for each in events}
    assert entries[("EVENT_TYPE_REMOVE", "file")] is None
    assert entries[("EVENT_TYPE_CREATE", "folder")]["path"] == f"{work}/folder"
    envd.call("filesystem.Filesystem/RemoveWatcher", watcherId=name)


def test_the_async_sdk_is_told_as_it_happens(envd: Daemon, work: str) -> None:
    async def watch() -> list[tuple[FilesystemEventType, str]]:
        sandbox = envd.async_sdk()
        events: list[tuple[FilesystemEventType, str]] = []
        written = asyncio.Event()

        def note(event: FilesystemEvent) -> None:
            events.append((event.type, event.name))
            if event.type == WRITE:
                written.set()

        handle = await sandbox.files.watch_dir(work, note)
        await sandbox.files.write(f"{work}/file", "content")
        await asyncio.wait_for(written.wait(), 5)
        await handle.stop()
        return events

    assert (CREATE, "file") in asyncio.run(watch())


def test_a_stream_keeps_alive_and_ends_at_its_limit(envd: Daemon, work: str) -> None:
    headers = {"Keepalive_Ping_Interval": "1", "Connect_Timeout_Ms": "1300"}
    messages = envd.stream("filesystem.Filesystem/WatchDir", {"path": work}, **headers)
    assert messages[:2] == [{"start": {}}, {"keepalive": {}}]
    assert messages[-1]["error"]["code"] == "deadline_exceeded"


def test_a_removed_folder_says_so_itself(envd: Daemon, work: str) -> None:
    sandbox = envd.sdk()
    sandbox.files.make_dir(f"{work}/short")
    watcher = sandbox.files.watch_dir(f"{work}/short")
    sandbox.files.remove(f"{work}/short")
    assert (REMOVE, ".") in [(each.type, each.name) for each in watcher.get_new_events()]
    watcher.stop()


def test_only_folders_can_be_watched(envd: Daemon, work: str) -> None:
    files = envd.sdk().files
    files.write(f"{work}/file", "")
    with pytest.raises(InvalidArgumentException):
        files.watch_dir(f"{work}/file")
    with pytest.raises(FileNotFoundException):
        files.watch_dir(f"{work}/missing")


def test_events_that_nobody_fetches_are_bounded_and_their_loss_is_told(envd: Daemon, work: str) -> None:
    sandbox = envd.sdk()
    name = envd.call("filesystem.Filesystem/CreateWatcher", path=work).json["watcherId"]
    sandbox.commands.run(f"cd {work}; touch $(seq 9000); rm $(seq 9000)")

    def lost() -> bool:
        return envd.call("filesystem.Filesystem/GetWatcherEvents", watcherId=name).status == 429

    until(lost)
    assert envd.call("filesystem.Filesystem/RemoveWatcher", watcherId=name).json == {}
    assert envd.memory() < 48 << 20
