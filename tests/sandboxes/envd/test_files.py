"""Files through the unmodified SDK and through plain HTTP."""

from __future__ import annotations

import asyncio
import gzip
import io
import json
import os
from pathlib import Path

import pytest
from e2b import FileNotFoundException, FileType, InvalidArgumentException, NotEnoughSpaceException
from e2b.sandbox.filesystem.filesystem import WriteEntry

from tests.sandboxes.envd.daemon import Daemon

MIB = 1 << 20
BOUND = 48 * MIB


def write(envd: Daemon, path: str, data: bytes) -> None:
    answer = envd.request("POST", f"/files?path={path}", data, Content_Type="application/octet-stream")
    assert answer.status == 200, answer.body


def test_text_and_bytes_come_back_as_written(envd: Daemon, work: str) -> None:
    files = envd.sdk().files
    files.write(f"{work}/new/folder/text.txt", "grüße\n")
    assert files.read(f"{work}/new/folder/text.txt") == "grüße\n"
    everything = bytes(range(256)) * 1000
    files.write(f"{work}/bytes", everything)
    assert bytes(files.read(f"{work}/bytes", format="bytes")) == everything
    files.write(f"{work}/empty", "")
    assert files.read(f"{work}/empty") == ""


def test_many_files_are_written_by_one_call_under_their_whole_paths(envd: Daemon, work: str) -> None:
    files = envd.sdk().files
    names = ["a.txt", "deep/er/b.txt", 'quo"te and ü.txt', "back\\slash", "per%cent", "semi;colon.txt"]
    files.write_files([WriteEntry(path=f"{work}/{name}", data=name) for name in names])
    assert [files.read(f"{work}/{name}") for name in names] == names


def test_the_async_sdk_writes_reads_and_lists(envd: Daemon, work: str) -> None:
    async def use() -> list[str]:
        files = envd.async_sdk().files
        await files.write(f"{work}/one", io.BytesIO(b"1" * MIB))
        assert await files.read(f"{work}/one", format="bytes", gzip=True) == b"1" * MIB
        return [entry.name for entry in await files.list(work)]

    assert asyncio.run(use()) == ["one"]


def test_an_overwritten_file_keeps_its_mode_and_links(envd: Daemon, work: str) -> None:
    sandbox = envd.sdk()
    sandbox.commands.run(f"echo long content > {work}/script; chmod 750 {work}/script; ln {work}/script {work}/twin")
    sandbox.files.write(f"{work}/script", "short")
    assert sandbox.files.read(f"{work}/twin") == "short"
    assert sandbox.files.get_info(f"{work}/script").permissions == "-rwxr-x---"


def test_an_entry_says_all_about_a_file(envd: Daemon, work: str) -> None:
    sandbox = envd.sdk()
    sandbox.files.write(f"{work}/file", "four")
    entry = sandbox.files.get_info(f"{work}/file")
    owner = sandbox.commands.run("id -un; id -gn").stdout.split()
    assert (entry.name, entry.type, entry.size, entry.mode) == ("file", FileType.FILE, 4, 0o644)
    assert (entry.path, entry.permissions, [entry.owner, entry.group]) == (f"{work}/file", "-rw-r--r--", owner)
    sandbox.commands.run(f"ln -s file {work}/link; ln -s nowhere {work}/broken; mkdir -m 1777 {work}/sticky")
    link = sandbox.files.get_info(f"{work}/link")
    assert (link.type, link.symlink_target, link.mode) == (FileType.FILE, f"{work}/file", 0o644)
    sticky = envd.call("filesystem.Filesystem/Stat", path=f"{work}/sticky").json["entry"]
    assert (sticky["permissions"], sticky["type"]) == ("dtrwxrwxrwx", "FILE_TYPE_DIRECTORY")
    assert "type" not in envd.call("filesystem.Filesystem/Stat", path=f"{work}/broken").json["entry"]


def test_a_listing_goes_as_deep_as_asked(envd: Daemon, work: str) -> None:
    sandbox = envd.sdk()
    sandbox.commands.run(f"mkdir -p {work}/a/b/c; touch {work}/a/b/file; ln -s a {work}/z")
    assert [each.path for each in sandbox.files.list(work)] == [f"{work}/a", f"{work}/z"]
    deep = [each.path.removeprefix(work) for each in sandbox.files.list(work, depth=3)]
    assert deep == ["/a", "/a/b", "/a/b/c", "/a/b/file", "/z"]
    assert [each.path for each in sandbox.files.list(f"{work}/z")] == [f"{work}/z/b"]


def test_folders_are_made_once(envd: Daemon, work: str) -> None:
    files = envd.sdk().files
    assert files.make_dir(f"{work}/x/y") is True
    assert files.make_dir(f"{work}/x/y") is False
    files.write(f"{work}/file", "")
    with pytest.raises(InvalidArgumentException):
        files.make_dir(f"{work}/file")


def test_a_move_makes_parents_and_needs_a_source(envd: Daemon, work: str) -> None:
    files = envd.sdk().files
    files.write(f"{work}/old", "content")
    assert files.rename(f"{work}/old", f"{work}/new/place").path == f"{work}/new/place"
    assert files.read(f"{work}/new/place") == "content"
    with pytest.raises(FileNotFoundException):
        files.rename(f"{work}/old", f"{work}/other")


def test_a_move_between_mounts_copies(envd: Daemon, work: str) -> None:
    files = envd.sdk().files
    files.write(f"{work}/tree/leaf", "content")
    target = f"/dev/shm/{os.getpid()}-moved"
    entry = files.rename(f"{work}/tree", target)
    assert (entry.type, files.read(f"{target}/leaf"), files.exists(f"{work}/tree")) == (FileType.DIR, "content", False)
    files.remove(target)


def test_removing_takes_trees_links_and_nothing(envd: Daemon, work: str) -> None:
    sandbox = envd.sdk()
    sandbox.commands.run(
        f"mkdir -p {work}/t/a/b {work}/kept; touch {work}/kept/file {work}/t/a/f; ln -s ../kept {work}/t/l"
    )
    sandbox.files.remove(f"{work}/t")
    assert [each.name for each in sandbox.files.list(work, depth=2)] == ["kept", "file"]
    sandbox.files.remove(f"{work}/t")
    assert envd.call("filesystem.Filesystem/Remove", path="/").json["code"] == "invalid_argument"


def test_paths_start_at_home(envd: Daemon, work: str) -> None:
    files, name = envd.sdk().files, Path(work).name
    files.write(f"{name}/file", "content")
    assert files.read(f"~/{name}/file") == files.read(f"./{name}/../{name}/file") == "content"
    with pytest.raises(InvalidArgumentException, match="another user's home"):
        files.get_info("~root/file")


def test_what_is_not_there_is_not_found(envd: Daemon, work: str) -> None:
    files = envd.sdk().files
    for attempt in (files.read, files.get_info, files.list):
        with pytest.raises(FileNotFoundException):
            attempt(f"{work}/missing")
    assert files.exists(f"{work}/missing") is False


def test_what_is_no_file_is_refused(envd: Daemon, work: str) -> None:
    envd.sdk().commands.run(f"mkfifo {work}/pipe; touch {work}/file")
    for path in (work, f"{work}/pipe"):
        assert envd.request("GET", f"/files?path={path}").status == 400
        upload = envd.request("POST", f"/files?path={path}", b"x", Content_Type="application/octet-stream")
        assert upload.status == 400
    assert envd.call("filesystem.Filesystem/ListDir", path=f"{work}/file").json["code"] == "invalid_argument"
    under_file = envd.request("POST", f"/files?path={work}/file/x", b"x", Content_Type="application/octet-stream")
    assert under_file.status == 400


def test_files_that_do_not_know_their_size_are_read_to_the_end(envd: Daemon) -> None:
    assert envd.request("GET", "/files?path=/proc/self/status").body.startswith(b"Name:")


def test_a_range_of_a_file_can_be_asked_for(envd: Daemon, work: str) -> None:
    write(envd, f"{work}/file", b"0123456789")
    for wanted, status, body in (
        ("bytes=2-4", 206, b"234"),
        ("bytes=7-", 206, b"789"),
        ("bytes=-3", 206, b"789"),
        ("bytes=5-500", 206, b"56789"),
        ("bytes=1-2,4-5", 200, b"0123456789"),
        ("lines=1-2", 200, b"0123456789"),
    ):
        answer = envd.request("GET", f"/files?path={work}/file", Range=wanted)
        assert (answer.status, answer.body) == (status, body)
    assert envd.request("GET", f"/files?path={work}/file", Range="bytes=2-4").headers["Content-Range"] == "bytes 2-4/10"
    assert envd.request("GET", f"/files?path={work}/file", Range="bytes=20-").status == 416
    head = envd.request("HEAD", f"/files?path={work}/file")
    assert (head.headers["Content-Length"], head.body) == ("10", b"")


def test_a_file_is_compressed_for_those_who_ask(envd: Daemon, work: str) -> None:
    content = b"compressible " * 100_000
    write(envd, f"{work}/file", content)
    packed = envd.request("GET", f"/files?path={work}/file", Accept_Encoding="br, gzip;q=0.8")
    assert packed.headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(packed.body) == content
    assert envd.request("GET", f"/files?path={work}/file", Accept_Encoding="gzip;q=0").body == content
    assert envd.request("GET", f"/files?path={work}/file", Accept_Encoding="br, *;q=0").status == 406


def test_compressed_uploads_are_unpacked(envd: Daemon, work: str) -> None:
    content = os.urandom(3 * MIB) + bytes(30 * MIB)
    kind = {"Content_Type": "application/octet-stream", "Content_Encoding": "gzip"}
    packed = gzip.compress(content, 1)
    assert envd.request("POST", f"/files?path={work}/file", packed, **kind).status == 200
    assert envd.request("GET", f"/files?path={work}/file").body == content
    for broken in (b"no gzip", packed[:-20]):
        assert envd.request("POST", f"/files?path={work}/file", broken, **kind).status == 400


def test_a_large_file_goes_both_ways_in_bounded_memory(envd: Daemon, work: str) -> None:
    size = 100 * MIB
    most = 0

    def pieces():
        nonlocal most
        for _ in range(size // MIB):
            most = max(most, envd.memory())
            yield b"x" * MIB

    answer = envd.request("POST", f"/files?path={work}/large", pieces(), Content_Type="application/octet-stream")
    assert answer.json == [{"name": "large", "type": "file", "path": f"{work}/large"}]
    stream = envd.sdk().files.read(f"{work}/large", format="stream")
    received = 0
    for number, piece in enumerate(stream):
        received += len(piece)
        most = max(most, envd.memory() if number % 50 == 0 else 0)
    assert received == size
    assert most < BOUND


def test_a_form_in_any_cutting_is_understood(envd: Daemon, work: str) -> None:
    content = b"--edge\r\n" + b"\r\n--edg" * 50 + bytes(range(256))
    form = (
        b'preamble\r\n--edge\r\nContent-Disposition: form-data; name="note"\r\n\r\nignored\r\n'
        b'--edge\r\nContent-Disposition: form-data; name="file"; filename="%b/a"\r\nX-Other: 1\r\n\r\n%b\r\n'
        b"--edge \r\ncontent-disposition:form-data;name=file;filename*=UTF-8''%b/%%C3%%A9\r\n\r\n\r\n--edge--epilogue"
    ) % (work.encode(), content, work.encode())
    for step in (1, 7, 4096):
        pieces = (form[place : place + step] for place in range(0, len(form), step))
        answer = envd.request("POST", "/files", pieces, Content_Type='multipart/form-data; boundary="edge"')
        assert [each["path"] for each in answer.json] == [f"{work}/a", f"{work}/é"]
        assert envd.request("GET", f"/files?path={work}/a").body == content
        assert envd.request("GET", f"/files?path={work}/%C3%A9").body == b""


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("text/plain", b"x"),
        ("multipart/form-data", b"--x--"),
        ("multipart/form-data; boundary=x", b"no boundary at all"),
        ("multipart/form-data; boundary=x", b"--x\r\n\r\ncontent\r\n--x--"),
        ("multipart/form-data; boundary=x", b'--x\r\nContent-Disposition: form-data; name="file"\r\n\r\nc\r\n--x--'),
        ("multipart/form-data; boundary=x", b'--x\r\nContent-Disposition: form-data; name="other"\r\n\r\nc\r\n--x--'),
        (
            "multipart/form-data; boundary=x",
            b'--x\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\ncut',
        ),
        ("multipart/form-data; boundary=x", b"--x\r\nA: " + b"y" * 40_000),
        ("multipart/form-data; boundary=x", b"--xy\r\n\r\n\r\n--x--"),
        ("multipart/form-data; boundary=x", b'--x\r\nContent-Disposition: form-data; name="\xff"\r\n\r\nc\r\n--x--'),
    ],
)
def test_a_bad_upload_is_refused_with_a_reason(envd: Daemon, kind: str, body: bytes) -> None:
    answer = envd.request("POST", "/files", body, Content_Type=kind)
    assert answer.status == 400
    assert answer.json["message"]


def test_one_path_twice_in_one_form_is_refused(envd: Daemon, work: str) -> None:
    part = f'--x\r\nContent-Disposition: form-data; name="file"; filename="{work}/a"\r\n\r\nc\r\n'
    answer = envd.request(
        "POST", "/files", f"{part}{part}--x--".encode(), Content_Type="multipart/form-data; boundary=x"
    )
    assert answer.status == 400


def test_a_raw_upload_needs_a_path(envd: Daemon) -> None:
    assert envd.request("POST", "/files", b"x", Content_Type="application/octet-stream").status == 400
    assert envd.request("GET", "/files?path=%00").status == 400
    assert envd.request("GET", "/files?path=%ff").status == 400
    assert envd.request("GET", "/files?path=x&username=stranger").status == 401


def test_files_can_be_composed_into_one(envd: Daemon, work: str) -> None:
    for name in "abc":
        write(envd, f"{work}/{name}", name.encode() * MIB)
    sources = [f"{work}/{name}" for name in "abc"]
    body = json.dumps({"source_paths": sources, "destination": f"{work}/new/a"})
    assert envd.request("POST", "/files/compose", body).json["path"] == f"{work}/new/a"
    assert envd.request("GET", f"/files?path={work}/new/a").body == b"a" * MIB + b"b" * MIB + b"c" * MIB
    assert [each.name for each in envd.sdk().files.list(work)] == ["new"]
    assert envd.request("POST", "/files/compose", body).status == 404


@pytest.mark.parametrize(
    "body",
    [
        "",
        "[]",
        "{",
        '{"source_paths":[]}',
        '{"source_paths":["a","a"],"destination":"b"}',
        '{"source_paths":[1]}',
        "{}",
    ],
)
def test_a_bad_composition_is_refused(envd: Daemon, body: str) -> None:
    assert envd.request("POST", "/files/compose", body).status == 400


def test_metadata_stays_with_the_file_until_replaced(envd: Daemon, work: str) -> None:
    path = f"/dev/shm/{os.getpid()}-metadata"
    kind = "application/octet-stream"
    first = envd.request("POST", f"/files?path={path}", b"x", Content_Type=kind, X_Metadata_Author="me")
    assert first.json[0]["metadata"] == {"author": "me"}
    assert envd.call("filesystem.Filesystem/Stat", path=path).json["entry"].get("metadata", {}) in (
        {},
        {"author": "me"},
    )
    envd.request("POST", f"/files?path={path}", b"x", Content_Type=kind)
    assert "metadata" not in envd.call("filesystem.Filesystem/Stat", path=path).json["entry"]
    too_much = envd.request("POST", f"/files?path={path}", b"x", Content_Type=kind, X_Metadata_A="x" * 5000)
    assert too_much.status == 400
    envd.call("filesystem.Filesystem/Remove", path=path)


@pytest.mark.skipif("os.geteuid() != 0")
def test_a_full_disk_is_said_so(envd: Daemon) -> None:
    files = envd.sdk().files
    with pytest.raises(NotEnoughSpaceException):
        files.write("/home/small/file", "x" * (3 * MIB))
    with pytest.raises(NotEnoughSpaceException, match="no space left"):
        files.write("/home/small/file", io.BytesIO(b"x" * (3 * MIB)))
    files.remove("/home/small/file")
