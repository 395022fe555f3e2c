"""Zip archives as stores: what we write others read, what others write we read, and what lies is noticed."""

from __future__ import annotations

import json
import os
import pickle
import struct
import subprocess
import sys
import threading
import zipfile
from contextlib import ExitStack, closing
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

import zvcore
from tests.faults.powercut.recording import record_run
from zvcore.errors import ConflictError, CorruptDataError, NotFoundError, ReadOnlyError, UnsupportedError, ZvcoreError
from zvcore.stores import MemoryStore, open_store, zip_archive, zip_writing
from zvcore.stores.zip_directory import Entry, directory_bytes, local_header, read_directory
from zvcore.stores.zip_store import ZipStore
from zvcore.testing import check_store

VALUES = np.arange(60 * 50, dtype="<u2").reshape(60, 50)


def archive(path: Path, objects: dict[str, bytes], method: int = zipfile.ZIP_STORED) -> Path:
    """As Python writes it."""
    with zipfile.ZipFile(path, "w", method) as file:
        for name, data in objects.items():
            file.writestr(name, data)
    return path


def written(path: Path, **options: Any) -> Path:
    """An array in an archive."""
    options = {"shape": VALUES.shape, "dtype": "u2", "chunks": (10, 10), **options}
    array = zvcore.create(path, format="zarr3", **options)
    array[...] = VALUES
    array.store.close()
    return path


def test_it_is_a_store_like_any_other(tmp_path: Path) -> None:
    with ExitStack() as opened:
        # What is written when it is collected may find its folder gone.
        check_store(lambda mode: opened.enter_context(closing(open_store(tmp_path / "a.zip", mode))))


@pytest.mark.parametrize("format", ["zarr3", "zarr2", "n5", "precomputed"])
def test_every_format_lives_in_an_archive(tmp_path: Path, format: str) -> None:
    source = zvcore.create(tmp_path / "a.zarr", format="zarr3", shape=(9, 8, 7), dtype="u2", chunks=(4, 4, 4))
    source[...] = np.arange(504).reshape(9, 8, 7)
    zvcore.convert(tmp_path / "a.zarr", tmp_path / "b.zip", format=format, levels=1, verify=True)
    assert zipfile.is_zipfile(tmp_path / "b.zip")
    assert zvcore.verify(tmp_path / "b.zip").ok
    zvcore.convert(tmp_path / "b.zip", tmp_path / "c.zarr", format="zarr3")
    (level, *_) = zvcore.open(tmp_path / "c.zarr")
    assert (np.squeeze(zvcore.open(tmp_path / "c.zarr")[level][...]) == source[...]).all()


@pytest.mark.parametrize("shards", [None, (30, 20)])
def test_zarr_python_reads_ours_and_we_read_theirs(tmp_path: Path, shards: Any) -> None:
    with zarr.storage.ZipStore(written(tmp_path / "ours.zip", shards=shards), mode="r") as store:
        assert (zarr.open_array(store, mode="r")[...] == VALUES).all()
    for compression in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        path = tmp_path / f"theirs{compression}.zip"
        with zarr.storage.ZipStore(path, mode="w", compression=compression) as store:
            theirs = zarr.create_array(store, shape=VALUES.shape, chunks=(10, 10), shards=shards, dtype="u2")
            theirs[...] = VALUES
        ours = zvcore.open(path)
        assert (ours[...] == VALUES).all()
        assert (ours[13:40, 7] == VALUES[13:40, 7]).all()
        assert zvcore.verify(path).ok


@pytest.mark.parametrize("names", [[], ["a/", "a/b/"]])
def test_an_archive_of_nothing_but_folders_holds_nothing(tmp_path: Path, names: list[str]) -> None:
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        for name in names:
            archive.writestr(name, b"")
    assert list(open_store(tmp_path / "x.zip", "r").list()) == []
    zvcore.create(tmp_path / "x.zip", format="zarr3", shape=(3,), dtype="u1", chunks=(2,))[...] = 7
    assert zvcore.open(tmp_path / "x.zip")[...].tolist() == [7, 7, 7]


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_of_two_entries_of_one_name_the_later_holds(tmp_path: Path) -> None:
    with zarr.storage.ZipStore(tmp_path / "a.zip", mode="w") as store:
        theirs = zarr.create_array(store, shape=(4,), chunks=(2,), dtype="u2")
        theirs[...] = 1
        theirs[...] = 2
    assert zvcore.open(tmp_path / "a.zip")[...].tolist() == [2, 2, 2, 2]


def test_no_reader_sees_an_archive_before_it_is_finished(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    array = zvcore.create(path, format="zarr3", shape=(4,), dtype="u2", chunks=(2,))
    array[...] = [1, 2, 3, 4]
    assert not path.exists()
    assert zvcore.open(path)[...].tolist() == [1, 2, 3, 4]  # this process knows
    array.store.finish()
    assert zipfile.ZipFile(path).testzip() is None
    before = path.read_bytes()
    array[:2] = 9
    assert path.read_bytes() == before
    del array
    assert zvcore.open(path)[...].tolist() == [9, 9, 3, 4]
    assert os.listdir(tmp_path) == ["a.zip"]


def test_what_is_written_is_finished_when_the_program_ends(tmp_path: Path) -> None:
    program = (
        "import sys, zvcore; keep = zvcore.create(sys.argv[1], format='zarr3', shape=(4,), dtype='u2', chunks=(2,)); "
        "keep[...] = 7"
    )
    subprocess.run([sys.executable, "-c", program, tmp_path / "a.zip"], check=True)
    assert zvcore.open(tmp_path / "a.zip")[...].tolist() == [7] * 4


def test_of_two_writers_the_later_gets_an_error(tmp_path: Path) -> None:
    path = written(tmp_path / "a.zip")
    array = zvcore.open(path, "r+")
    array[0, 0] = 5
    archive(path, {"other": b"1"})
    with pytest.raises(ConflictError, match=r"a\.zip.*(another writer|someone else)"):
        array.store.close()
    assert zipfile.ZipFile(path).namelist() == ["other"]
    assert os.listdir(tmp_path) == ["a.zip"]


def test_changes_keep_what_they_do_not_touch(tmp_path: Path) -> None:
    path = archive(tmp_path / "a.zip", {"x/packed": b"1" * 5000, "gone": b"2", "b.json": b"{}"}, zipfile.ZIP_DEFLATED)
    opened: Any = open_store(path, "r+")
    with opened as store:
        store.put("new", [b"ab", b"cd"])
        store.delete("gone")
        store.put("b.json", b"[]")
    found = zipfile.ZipFile(path)
    assert found.testzip() is None
    assert sorted(found.namelist()) == ["b.json", "new", "x/packed"]
    assert found.getinfo("x/packed").compress_type == zipfile.ZIP_DEFLATED
    assert [found.read(name) for name in found.namelist()] == [b"[]", b"abcd", b"1" * 5000]


def test_the_documents_stand_in_front_as_rfc_9_has_it(tmp_path: Path) -> None:
    written(tmp_path / "a.zip")
    zvcore.convert(
        tmp_path / "a.zip", tmp_path / "b.ozx", format="zarr3", ome=True, levels=1, axes="yx", voxel_size="2,2um"
    )
    with zipfile.ZipFile(tmp_path / "b.ozx") as file:
        listed = file.infolist()
        assert [one.filename for one in listed[:3]] == ["zarr.json", "0/zarr.json", "1/zarr.json"]
        assert listed[0].header_offset == 0
        assert all(one.compress_type == zipfile.ZIP_STORED for one in listed)
        said = json.loads(file.comment)
        assert said == {"ome": {"version": "0.5", "zipFile": {"centralDirectory": {"jsonFirst": True}}}}


def test_a_root_document_that_nobody_can_read_is_stored_and_says_nothing(tmp_path: Path) -> None:
    opened: Any = open_store(tmp_path / "a.ozx", "w")
    with opened as store:
        store.put("zarr.json", b"[" * 100_000)
    with zipfile.ZipFile(tmp_path / "a.ozx") as file:
        assert file.read("zarr.json") == b"[" * 100_000 and file.comment == b""


def test_a_document_that_is_too_long_for_the_front_leaves_no_hole(tmp_path: Path) -> None:
    opened: Any = open_store(tmp_path / "a.zip", "w")
    with opened as store:
        store.put("c/0", b"x" * 100_000)
        store.put("zarr.json", b" " * 9000)
    assert (tmp_path / "a.zip").read_bytes()[:4] == b"PK\x03\x04"
    assert zipfile.ZipFile(tmp_path / "a.zip").testzip() is None
    assert open_store(tmp_path / "a.zip").get("c/0") == b"x" * 100_000


@pytest.mark.parametrize("spelled", ["a.zip/in/here", "a.zip|zip:in/here", "a.zip|zip:/in/here"])
def test_addresses_lead_into_archives(tmp_path: Path, spelled: str) -> None:
    zvcore.open(tmp_path / "a.zip", "w", format="zarr3").create_group("in").create_array(
        "here", shape=(2,), dtype="u1", chunks=(2,)
    )[...] = 3
    assert zvcore.open(f"{tmp_path}/{spelled}")[...].tolist() == [3, 3]
    assert zvcore.verify(f"{tmp_path}/{spelled}").ok


def test_a_folder_that_is_called_like_an_archive_is_a_folder(tmp_path: Path) -> None:
    (tmp_path / "a.zip").mkdir()
    zvcore.create(tmp_path / "a.zip" / "in", format="zarr3", shape=(2,), dtype="u1", chunks=(2,))
    assert (tmp_path / "a.zip/in/zarr.json").exists()
    assert zvcore.open(tmp_path / "a.zip/in").shape == (2,)


def test_what_is_not_there_or_may_not_be_written_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match=r"a\.zip"):
        zvcore.open(tmp_path / "a.zip")
    with pytest.raises(NotFoundError, match=r"a\.zip"):
        zvcore.open(tmp_path / "a.zip", "r+")
    path = written(tmp_path / "a.zip")
    with pytest.raises(ReadOnlyError):
        open_store(path).put("a", b"")
    store = open_store(path, "r+")
    store.put("a", b"1")
    with pytest.raises(TypeError, match="close it first"):
        pickle.dumps(store)
    store.close()
    assert pickle.loads(pickle.dumps(store.child("c"))).get("0/0") is not None
    with pytest.raises(ValueError, match="storage_options"):
        zvcore.open(path, storage_options={"region": "x"})


class Ranges(SimpleHTTPRequestHandler):
    """Python's server, with ranges."""

    def log_message(self, *_: Any) -> None:
        pass

    def do_HEAD(self) -> None:
        if not Path(self.translate_path(self.path)).is_file():
            self.send_error(404)
            return
        size = Path(self.translate_path(self.path)).stat().st_size
        self.send_response(200)
        self.send_header("Content-Length", str(size))
        self.send_header("ETag", '"1"')
        self.end_headers()

    def do_GET(self) -> None:
        if not Path(self.translate_path(self.path)).is_file():
            self.send_error(404)
            return
        data = Path(self.translate_path(self.path)).read_bytes()
        wanted = self.headers.get("Range")
        first, last = 0, len(data) - 1
        if wanted:
            begin, _, end = wanted.removeprefix("bytes=").partition("-")
            first = int(begin) if begin else len(data) - int(end)
            last = min(last, int(end)) if begin and end else last
        self.send_response(206 if wanted else 200)
        self.send_header("Content-Length", str(last + 1 - first))
        self.send_header("Content-Range", f"bytes {first}-{last}/{len(data)}")
        self.send_header("ETag", '"1"')
        self.end_headers()
        self.wfile.write(data[first : last + 1])


def test_an_archive_behind_a_web_server_is_read_by_ranges(tmp_path: Path) -> None:
    written(tmp_path / "a.zip", shards=(30, 50))
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Ranges, directory=tmp_path))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        url = f"http://127.0.0.1:{server.server_port}/a.zip"
        assert (zvcore.open(url)[25:35, 3] == VALUES[25:35, 3]).all()
        with pytest.raises(UnsupportedError, match="only read"):
            zvcore.open(url, "r+")
    finally:
        server.shutdown()
        server.server_close()


def test_all_chunks_in_an_archive_behind_a_web_server_take_few_requests(tmp_path: Path) -> None:
    written(tmp_path / "a.zip", shards=None)
    asked = []

    class Counting(Ranges):
        def do_GET(self) -> None:
            asked.append(self.path)
            super().do_GET()

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Counting, directory=tmp_path))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        url = f"http://127.0.0.1:{server.server_port}/a.zip"
        with zipfile.ZipFile(tmp_path / "a.zip") as made:
            count = len(made.namelist())
        assert (zvcore.open(url)[...] == VALUES).all()
        read = len(asked)
        assert zvcore.verify(url).ok
        assert max(read, len(asked) - read) < count / 2
    finally:
        server.shutdown()
        server.server_close()


# --- archives that lie


def test_every_byte_that_is_changed_is_noticed_or_harmless(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    array = zvcore.create(path, format="zarr3", shape=(6,), dtype="u2", chunks=(3,), codec=None)
    array[...] = range(1, 7)
    array.store.close()
    del array
    good = path.read_bytes()
    for at in [*range(100), *range(8192, len(good))][::2]:
        for flip in (0x01, 0xFF):
            path.write_bytes(good[:at] + bytes([good[at] ^ flip]) + good[at + 1 :])
            try:
                values = zvcore.open(path)[...].tolist()
            except ZvcoreError:
                continue
            assert values == [1, 2, 3, 4, 5, 6] or not zvcore.verify(path).ok, at


@pytest.mark.parametrize("length", [0, 1, 21, 22, 100, 5000])
def test_an_archive_that_was_cut_is_damaged(tmp_path: Path, length: int) -> None:
    path = written(tmp_path / "a.zip")
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(CorruptDataError, match=r"a\.zip.*no zip archive"):
        zvcore.open(path)


def test_verify_finds_a_byte_that_changed_where_no_codec_would(tmp_path: Path) -> None:
    path = written(tmp_path / "a.zip", codec=None)
    data = bytearray(path.read_bytes())
    data[data.rindex(VALUES[-10:, -10:].tobytes()) + 7] ^= 1
    path.write_bytes(data)
    report = zvcore.verify(path)
    assert report.status == "damaged"
    assert "c/5/4" in str(report) and "checksum" in str(report)
    with pytest.raises(CorruptDataError, match="c/5/4"):
        open_store(path).get("c/5/4")


@pytest.mark.parametrize("name", ["../up", "/etc/passwd", "a/../../b", "a\\b", "a//b", "./a", ""])
def test_names_that_lead_elsewhere_are_refused(tmp_path: Path, name: str) -> None:
    data = bytearray(archive(tmp_path / "a.zip", {"X" * (len(name) or 1): b"1"}).read_bytes())
    if name:
        data = data.replace(b"X" * len(name), name.encode())
    else:
        data[-22 - 47 + 28 : -22 - 47 + 30] = b"\0\0"
    (tmp_path / "a.zip").write_bytes(data)
    with pytest.raises(CorruptDataError, match=r"a\.zip"):
        list(open_store(tmp_path / "a.zip").list())


def directory(entries: list[tuple[str, Entry]], size: int = 1000) -> Any:
    raw = bytes(size) + directory_bytes(entries, size)
    return read_directory(lambda at, length: raw[at : at + length], len(raw), "a.zip")


def test_entries_that_share_bytes_are_refused() -> None:
    fine = [("a", Entry(0, 10, 10, 0, 0)), ("b", Entry(100, 10, 10, 0, 0))]
    assert [*directory(fine)[0]] == ["a", "b"]
    for second in (Entry(0, 10, 10, 0, 0), Entry(20, 10, 10, 0, 0), Entry(980, 10, 10, 0, 0), Entry(2000, 1, 1, 0, 0)):
        with pytest.raises(CorruptDataError, match=r"a\.zip/[ab].*reaches into"):
            directory([fine[0], ("b", second)])
    with pytest.raises(CorruptDataError, match="reaches into"):
        directory([("a", Entry(0, 900, 900, 0, 0)), ("b", Entry(100, 10, 10, 0, 0))])


def test_sizes_beyond_what_can_be_are_refused_before_memory_is_taken(tmp_path: Path) -> None:
    with pytest.raises(CorruptDataError, match="claims more"):
        directory([("a", Entry(0, 10, 1 << 40, 0, 8))])
    with pytest.raises(CorruptDataError, match="two sizes"):
        directory([("a", Entry(0, 10, 11, 0, 0))])
    data = archive(tmp_path / "a.zip", {"a": bytes(1 << 20)}, zipfile.ZIP_DEFLATED).read_bytes()
    for size in (1, (1 << 20) - 1, (1 << 20) + 1):
        at = data.rindex(struct.pack("<I", 1 << 20))
        (tmp_path / "a.zip").write_bytes(data[:at] + struct.pack("<I", size) + data[at + 4 :])
        with pytest.raises(CorruptDataError, match=r"a\.zip/a"):
            open_store(tmp_path / "a.zip").get("a")


def test_more_entries_than_there_is_room_for_are_refused() -> None:
    raw = bytearray(bytes(100) + directory_bytes([("a", Entry(0, 10, 10, 0, 0))], 100))
    raw[-14:-10] = b"\xf0\xff\xf0\xff"
    with pytest.raises(CorruptDataError, match="no directory"):
        read_directory(lambda at, length: bytes(raw[at : at + length]), len(raw), "a.zip")


@pytest.mark.parametrize("flag", [1])
def test_encrypted_entries_are_refused_by_name(tmp_path: Path, flag: int) -> None:
    data = bytearray(archive(tmp_path / "a.zip", {"secret": b"1"}).read_bytes())
    data[data.index(b"PK\x01\x02") + 8] |= flag
    (tmp_path / "a.zip").write_bytes(data)
    with pytest.raises(UnsupportedError, match="secret"):
        open_store(tmp_path / "a.zip").get("secret")


def test_methods_that_do_not_exist_are_refused_by_name(tmp_path: Path) -> None:
    archive(tmp_path / "a.zip", {"a": b"1" * 100}, zipfile.ZIP_BZIP2)
    with pytest.raises(UnsupportedError, match=r"a\.zip/a.*method 12"):
        open_store(tmp_path / "a.zip").get("a")


def test_64_bit_offsets_sizes_and_counts() -> None:
    """What needs them would be large: only the directory is made here."""
    entries = [(f"e{i}", Entry(i * 100, 20, 20, i, 0)) for i in range(70_000)]
    found, _ = directory(entries, 7_000_000)
    assert len(found) == 70_000 and found["e69999"][:4] == (6_999_900, 20, 20, 69_999)
    wide = [("a", Entry(5, 1 << 33, 1 << 33, 1, 0)), ("b", Entry((1 << 33) + 500, 7, 7, 2, 0))]
    end = (1 << 33) + 1000
    raw = directory_bytes(wide, end)

    def read(at: int, length: int) -> bytes:
        return bytes(max(0, min(end, at + length) - at)) + raw[max(0, at - end) : max(0, at + length - end)]

    found, _ = read_directory(read, end + len(raw), "a.zip")
    assert [entry[:4] for entry in found.values()] == [entry[:4] for _, entry in wide]
    extra = local_header("a", wide[0][1])[31:]
    assert struct.unpack("<HHQQ", extra) == (1, 16, 1 << 33, 1 << 33)


def test_an_archive_behind_other_data_is_read(tmp_path: Path) -> None:
    data = archive(tmp_path / "a.zip", {"a": b"1", "b/c": b"23"}).read_bytes()
    (tmp_path / "a.zip").write_bytes(b"#!/bin/sh\n" * 9 + data)
    store = open_store(tmp_path / "a.zip")
    assert [bytes(store.get(key) or b"") for key in store.list()] == [b"1", b"23"]


def test_an_archive_that_is_replaced_while_it_is_read_is_read_as_it_is_now(tmp_path: Path) -> None:
    path = archive(tmp_path / "a.zip", {"a": b"1", "b": b"22"})
    store = open_store(path)
    assert store.get("a") == b"1"
    archive(tmp_path / "new", {"b": b"333", "a": b"444"})
    os.replace(tmp_path / "new", path)
    assert bytes(store.get("a") or b"") == b"444"


@pytest.mark.parametrize("sizes", [(10, 3), (3, 10)])
def test_ranges_are_of_the_object_as_it_is_now(tmp_path: Path, sizes: tuple[int, int]) -> None:
    """What lies behind a shorter object belongs to another one."""
    before, now = (bytes(range(size)) for size in sizes)
    path = archive(tmp_path / "a.zip", {"a": before, "b": b"secret"})
    store = open_store(path)
    assert store.get("a") == before
    archive(tmp_path / "new", {"a": now, "b": b"secret"})
    os.replace(tmp_path / "new", path)
    if len(now) < 10:
        with pytest.raises(CorruptDataError, match="does not lie within"):
            store.get_ranges("a", [(0, 10)])
    else:
        assert [bytes(part) for part in store.get_ranges("a", [(0, 10)]) or ()] == [now]
    assert bytes(store.get("a", 0, 10) or b"") == now
    assert bytes(store.get("a", -10) or b"") == now


def test_objects_that_wait_to_be_in_an_archive_are_read_by_ranges(tmp_path: Path) -> None:
    opened: Any = open_store(tmp_path / "a.zip", "w")
    with opened as store:
        store.put("c/0", b"0123456789")
        store.put("a.json", b"{}")
        for key, data in (("c/0", b"0123456789"), ("a.json", b"{}")):
            assert bytes(store.get(key)) == data
            assert bytes(store.get(key, 1)) == bytes(store.get(key, 1 - len(data))) == data[1:]
            assert [bytes(part) for part in store.get_ranges(key, [(1, 1), (0, 2), (2, 0)])] == [
                data[1:2],
                data[:2],
                b"",
            ]
            with pytest.raises(CorruptDataError):
                store.get_ranges(key, [(0, len(data) + 1)])


def test_what_is_kept_of_unpacked_objects_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zip_archive, "_KEPT", 2500)
    objects = {f"c/{i}": bytes([i]) * 1000 for i in range(6)}
    store = open_store(archive(tmp_path / "a.zip", objects, zipfile.ZIP_DEFLATED))
    kept = store._archive  # type: ignore[attr-defined]
    for _ in range(2):
        for key, data in objects.items():
            assert bytes(store.get(key) or b"") == data
            assert kept._whole_bytes == sum(map(len, kept._whole.values())) <= 2500


def test_a_child_does_not_write_into_the_archive_of_its_parent(tmp_path: Path) -> None:
    program = """
import os, sys, zvcore
from zvcore.errors import UnsupportedError
from zvcore.stores import open_store
store = open_store(sys.argv[1], "w")
store.put("a", b"parent")
child = os.fork()
if child == 0:
    assert bytes(store.get("a")) == b"parent"
    try:
        store.put("b", b"child")
    except UnsupportedError:
        os._exit(0)
    os._exit(1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
store.put("c", b"parent")
store.close()
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", program, tmp_path / "a.zip"], check=True)
    with zipfile.ZipFile(tmp_path / "a.zip") as file:
        assert file.testzip() is None
        assert {name: file.read(name) for name in file.namelist()} == {"a": b"parent", "c": b"parent"}


@pytest.mark.parametrize("fsync", [True, False])
def test_a_finished_archive_is_as_durable_as_was_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fsync: bool
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    program = (
        "import sys, zvcore; zvcore.create(sys.argv[1], format='zarr3', shape=(4,), dtype='u1', chunks=(2,))[...] = 7"
    )
    monkeypatch.setenv("ZVCORE_FSYNC", "1" if fsync else "0")
    calls = record_run(folder, ["-c", program, str(folder / "a.zip")])
    synced = [call.inode for call in calls if call.kind == "s"]
    # The file, and then the folder that has its name.
    wanted = [os.stat(folder / "a.zip").st_ino, os.stat(folder).st_ino]
    assert [inode for inode in synced if inode in wanted] == (wanted if fsync else [])


def test_archives_in_memory_are_read(tmp_path: Path) -> None:
    memory = MemoryStore()
    memory.put("a.zip", archive(tmp_path / "a.zip", {"x": b"1"}).read_bytes())
    assert bytes(ZipStore(memory, "a.zip").get("x") or b"") == b"1"


def test_what_a_killed_process_has_left_of_an_archive_goes_with_the_next_one(tmp_path):
    code = (
        "import os, sys, zvcore; a = zvcore.create(sys.argv[1], format='zarr3', shape=(4,), dtype='u1'); a[...] = 1;"
        "os._exit(1)"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "a.zip")], check=False, cwd=os.getcwd())
    assert [name.endswith(".zvtmp") for name in os.listdir(tmp_path)] == [True]
    (left,) = os.listdir(tmp_path)
    with open_store(tmp_path / "b.zip", "w") as other:
        other.put("k", b"1")
        assert left in os.listdir(tmp_path), "that of another archive stays"
        with open_store(tmp_path / "a.zip", "w") as store:
            store.put("k", b"1")
            names = [name for name in os.listdir(tmp_path) if name.endswith(".zvtmp")]
            assert left not in names and len(names) == 2, "those that are being written stay"
    assert sorted(os.listdir(tmp_path)) == ["a.zip", "b.zip"]


def test_an_archive_for_which_there_is_no_room_is_told_and_leaves_nothing(tmp_path: Path) -> None:
    code = (
        "import resource, sys; from zvcore.stores import open_store; store = open_store(sys.argv[1], 'w');"
        "store.put('k', bytes(50_000)); resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100));"
    )
    path = str(tmp_path / "a.zip")
    for end, told in (("", f"what was written to {path} is lost"), ("store.put('l', b'1')", "File too large")):
        done = subprocess.run([sys.executable, "-c", code + end, path], check=False, capture_output=True, text=True)
        assert told in done.stderr and f"File too large: '{path}'" in done.stderr
        assert ("Traceback" in done.stderr) == bool(end), "of the error that nobody caught, not of the end"
        assert done.stderr.count("Traceback") <= 1 and os.listdir(tmp_path) == []


def test_an_archive_in_folders_that_are_not_there_yet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Folders and files of other formats make those above them, too."""
    synced = []
    monkeypatch.setattr("zvcore.stores.zip_writing.sync", synced.append)
    place = tmp_path / "new/deep/a.zip"
    zvcore.create(place, format="zarr3", shape=(4,), dtype="u1", chunks=(2,))[...] = 7
    assert (zvcore.open(place)[...] == 7).all() and synced == []
    zvcore.create(tmp_path / "b", format="n5", shape=(4,), dtype="u1", chunks=(2,))[...] = 7
    assert zvcore.copy(tmp_path / "b", tmp_path / "other/b.zip").ok
    assert zvcore.convert(tmp_path / "b", tmp_path / "third/b.zip", format="zarr3").ok
    safe = tmp_path / "safe/deep/c.zip"
    zvcore.create(safe, format="zarr3", shape=(4,), dtype="u1", chunks=(2,), fsync=True)[...] = 7
    assert [os.fsdecode(one) for one in synced] == [str(tmp_path / "safe"), str(tmp_path)]


@pytest.mark.parametrize("begun", [False, True])
def test_an_archive_that_is_asked_to_be_durable_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, begun: bool
) -> None:
    """`fsync` was taken without a word, and ignored."""
    seen = []
    real = zip_writing.single_object_code
    monkeypatch.setattr(zip_writing, "single_object_code", lambda given: seen.append(given) or real(given))
    store = open_store(tmp_path / "a.zip", "w")
    if begun:
        store.put("first", b"1")
    zvcore.create(tmp_path / "a.zip/a", format="zarr3", shape=(4,), dtype="u1", chunks=(2,), fsync=True)[...] = 7
    store.close()
    zvcore.create(tmp_path / "b.zip", format="zarr3", shape=(4,), dtype="u1", chunks=(2,))[...] = 7
    assert seen[0] == "fsync" and set(seen[1:]) == {"late"}
