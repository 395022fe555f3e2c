"""`zvcore cp` and `zvcore sync`, and the functions behind them: between folders, archives and object stores."""

from __future__ import annotations

import json
import os
import uuid
from http.server import SimpleHTTPRequestHandler
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zvcore
from tests.stores.servers import best_server, s3_server, web_server
from zvcore.care import mirroring
from zvcore.commands import cli
from zvcore.errors import NotFoundError, UnsupportedError
from zvcore.stores import LocalStore, MemoryStore, between_folders, open_store
from zvcore.stores.base import UnlistedError
from zvcore.stores.copying import copy_object
from zvcore.stores.file_copies import FileCopies, next_data
from zvcore.stores.late_writes import settle

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.stores.servers import S3

DATA = np.random.default_rng(0).integers(1, 200, (20, 18, 16), np.uint8)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    group = zvcore.open(tmp_path / "source", "w", format="zarr3")
    for name in ("a", "b"):
        zvcore.create(tmp_path / "source" / name, format="zarr3", data=DATA, chunks=(8, 8, 8), codec="zstd")
    assert group is not None
    return tmp_path / "source"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3]:
    with s3_server(best_server(), tmp_path_factory.mktemp("s3")) as server:
        yield server


def content(path: Path) -> dict[str, bytes]:
    settle()
    return {str(one.relative_to(path)): one.read_bytes() for one in path.rglob("*") if one.is_file()}


def test_a_copy_is_the_same_and_is_not_made_twice(source: Path, tmp_path: Path, capsys) -> None:
    assert cli.main(["cp", str(source), str(tmp_path / "copy"), "--verify", "--json"]) == 0
    first = json.loads(capsys.readouterr().out)["counts"]
    assert first["objects copied"] == len(content(source))
    assert content(tmp_path / "copy") == content(source)
    assert cli.main(["cp", str(source), str(tmp_path / "copy"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["counts"] == {"objects the same": len(content(source))}


def test_there_and_back_over_an_object_store(source: Path, tmp_path: Path, server: S3, capsys) -> None:
    options = [f"--storage-option={name}={str(value).lower() if value is True else value}"
               for name, value in server.options.items()]  # fmt: skip
    url = server.url(f"copies-{uuid.uuid4()}")
    assert cli.main(["cp", "-q", str(source), url, *options]) == 0
    assert np.array_equal(zvcore.open(f"{url}/a", storage_options=server.options)[...], DATA)
    # A second time, the store tells what is the same.
    assert cli.main(["sync", "--json", str(source), url, *options]) == 0
    assert json.loads(capsys.readouterr().out)["counts"] == {"objects the same": len(content(source))}
    assert cli.main(["cp", "-q", f"{url}/b", str(tmp_path / "b"), *options]) == 0
    assert content(tmp_path / "b") == content(source / "b")
    zvcore.open(source / "a", "r+")[...] = 7
    settle()
    assert cli.main(["sync", "--json", str(source), url, *options]) == 0
    counts = json.loads(capsys.readouterr().out)["counts"]
    assert counts["objects copied"] == len(content(source / "a")) - 1
    assert (zvcore.open(f"{url}/a", storage_options=server.options)[...] == 7).all()


def test_folders_are_packed_and_unpacked(source: Path, tmp_path: Path) -> None:
    assert cli.main(["cp", "-q", str(source), str(tmp_path / "packed.zip")]) == 0
    assert np.array_equal(zvcore.open(tmp_path / "packed.zip")["a"][...], DATA)
    assert cli.main(["cp", "-q", str(tmp_path / "packed.zip"), str(tmp_path / "unpacked")]) == 0
    assert content(tmp_path / "unpacked") == content(source)


def test_an_archive_goes_to_an_object_store_as_the_file_that_it_is(
    source: Path, tmp_path: Path, server: S3, capsys
) -> None:
    packed = tmp_path / "packed.ozx"
    zvcore.copy(source, packed)
    url = server.url(f"archives-{uuid.uuid4()}/fly.ozx")
    for kind in ("copied", "the same"):
        report = zvcore.copy(packed, url, storage_options=server.options)
        assert report.counts[f"objects {kind}"] == 1
    assert np.array_equal(zvcore.open(f"{url}/a", storage_options=server.options)[...], DATA)
    other = url.replace("fly", "other")
    assert zvcore.sync(url, other, storage_options=server.options).ok
    assert open_store(other.rpartition("/")[0], "r", server.options).get("other.ozx") == packed.read_bytes()
    # A folder is none, and what is there and differs stays.
    with pytest.raises(UnsupportedError, match="disks of this machine"):
        zvcore.copy(source, url, storage_options=server.options)
    zvcore.open(packed, "r+")["a"][0] = 7
    assert not zvcore.copy(packed, url, storage_options=server.options).ok
    assert np.array_equal(zvcore.open(f"{url}/a", storage_options=server.options)[...], DATA)
    # Back, it is unpacked like any other archive.
    zvcore.copy(url, tmp_path / "unpacked", storage_options=server.options)
    assert content(tmp_path / "unpacked") == content(source)


def test_one_file(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", DATA)
    assert zvcore.copy(tmp_path / "a.npy", tmp_path / "b.npy").counts["objects copied"] == 1
    assert np.array_equal(np.load(tmp_path / "b.npy"), DATA)
    with pytest.raises(ValueError, match="must name"):
        zvcore.copy(tmp_path / "a.npy", tmp_path)


def test_what_is_there_and_differs_is_told_and_left_alone(source: Path, tmp_path: Path, capsys) -> None:
    target = tmp_path / "copy"
    (target / "a").mkdir(parents=True)
    (target / "a" / "zarr.json").write_text("mine")
    assert cli.main(["cp", "-q", str(source), str(target)]) == 1
    assert "a/zarr.json" in capsys.readouterr().out
    assert (target / "a" / "zarr.json").read_text() == "mine"
    assert cli.main(["cp", "-q", str(source), str(target), "--overwrite"]) == 0
    assert content(target) == content(source)


def test_the_same_size_is_not_the_same(source: Path, tmp_path: Path) -> None:
    zvcore.copy(source, tmp_path / "copy")
    name = next(key for key in content(source) if key.startswith("a/c/"))
    data = bytearray((source / name).read_bytes())
    data[-1] ^= 1
    (tmp_path / "copy" / name).write_bytes(data)
    assert zvcore.sync(source, tmp_path / "copy", size_only=True).counts.get("objects copied") is None
    assert zvcore.sync(source, tmp_path / "copy").counts["objects copied"] == 1
    assert content(tmp_path / "copy") == content(source)


def test_nothing_is_removed_unless_asked(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "copy"
    zvcore.copy(source, target)
    for name in ("extra", "a/zz", "zz/last"):
        (target / name).parent.mkdir(exist_ok=True)
        (target / name).write_bytes(b"x")
    zvcore.sync(source, target)
    assert (target / "extra").exists()
    assert zvcore.sync(source, target, delete=True, dry_run=True).counts["objects removed"] == 3
    assert (target / "extra").exists()
    assert zvcore.sync(source, target, delete=True).counts["objects removed"] == 3
    assert content(target) == content(source)


def test_a_dry_run_writes_nothing(source: Path, tmp_path: Path, capsys) -> None:
    assert cli.main(["cp", "--dry-run", "--json", str(source), str(tmp_path / "copy")]) == 0
    assert json.loads(capsys.readouterr().out)["counts"]["objects copied"] == len(content(source))
    assert not (tmp_path / "copy").exists()


def test_links_are_not_followed_out_of_the_source(source: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "key").write_text("secret")
    (source / "link").symlink_to(tmp_path / "secret" / "key")
    (source / "folder").symlink_to(tmp_path / "secret")
    (source / "inside").symlink_to(source / "a")
    report = zvcore.copy(source, tmp_path / "copy")
    assert not any(b"secret" in data for data in content(tmp_path / "copy").values())
    assert not report.ok
    assert [problem.where for problem in report.problems if problem.fatal] == ["folder", "link"]
    assert not (tmp_path / "copy" / "zarr.json").exists(), "documents come last"
    assert any(key.startswith("inside/c/") for key in content(tmp_path / "copy"))


def test_links_at_the_destination_lead_nowhere_else(source: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "precious").write_text("x")
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy" / "a").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "copy" / "kept").mkdir()
    (tmp_path / "copy" / "kept" / "one").write_text("x")
    (tmp_path / "copy" / "inner").symlink_to(tmp_path / "copy" / "kept")
    assert not zvcore.sync(source, tmp_path / "copy").ok
    assert os.listdir(tmp_path / "elsewhere") == ["precious"]
    (tmp_path / "copy" / "a").unlink()
    (source / "kept").mkdir()
    (source / "kept" / "one").write_text("x")
    report = zvcore.sync(source, tmp_path / "copy", delete=True)
    assert report.ok and "link" in str(report)
    assert (tmp_path / "copy" / "kept" / "one").exists()


def test_an_interrupted_copy_resumes(source: Path, tmp_path: Path, monkeypatch) -> None:
    batches = iter(range(1000))

    def some(*asked: Any, **how: Any) -> FileCopies:
        if next(batches) == 5:
            raise KeyboardInterrupt
        return FileCopies(*asked, **how)

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(mirroring, "_BATCH", 1)
        patched.setattr(between_folders, "FileCopies", some)
        zvcore.copy(source, tmp_path / "copy", threads=1)
    with pytest.raises(zvcore.errors.ZvcoreError):
        zvcore.open(tmp_path / "copy")
    counts = zvcore.copy(source, tmp_path / "copy").counts
    assert counts["objects the same"] == 5
    assert content(tmp_path / "copy") == content(source)


@pytest.mark.parametrize("command", ["cp", "sync"])
def test_an_interrupted_copy_says_that_it_is_not_finished(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("zvcore.care.mirroring.side_by_side", interrupted)
        assert cli.main([command, str(source), str(tmp_path / "copy")]) == 130
        assert "the copy is not finished: the same, run again, goes on with it" in capsys.readouterr().err
    assert cli.main([command, str(source), str(tmp_path / "copy")]) == 0
    assert zvcore.verify(tmp_path / "copy").ok


@pytest.mark.parametrize("format", ["zarr3", "zarr2", "n5"])
def test_a_group_is_found_in_a_copy_when_all_of_its_members_are(format: str, monkeypatch) -> None:
    """However the names of the members compare with that of the document."""
    source = MemoryStore()
    zvcore.open(source, "w", format=format).attrs["of"] = "the group"
    for name in ("a", "b/c", "zz"):
        made = zvcore.open(source, "r+").create_dataset(name, shape=(4, 4), dtype="u1", chunks=(2, 2))
        made[...] = 7
        made.attrs["of"] = name
    if format == "zarr2":
        source.put(".zmetadata", b'{"metadata": {}, "zarr_consolidated_format": 1}')
    whole = {key: source.get(key) for key in source.list()}
    put = MemoryStore.put

    class Killed(BaseException):
        pass

    for writes in range(len(whole)):
        target, count = MemoryStore(), iter(range(len(whole)))

        def some(self: MemoryStore, key: str, data: Any, count=count, writes=writes) -> None:
            if next(count) >= writes:
                raise Killed
            put(self, key, data)

        with monkeypatch.context() as patched, pytest.raises(Killed):
            patched.setattr(MemoryStore, "put", some)
            zvcore.copy(source, target, threads=1)
        with pytest.raises(zvcore.errors.ZvcoreError):
            zvcore.open(target)
        for name in ("a", "zz"):
            if any(target.exists(f"{name}/{mark}") for mark in ("zarr.json", ".zarray", "attributes.json")):
                assert zvcore.open(target.child(name)).attrs["of"] == name
        assert not target.exists(".zmetadata") or target.exists("zz/.zarray")
        assert zvcore.copy(source, target).ok
        assert {key: target.get(key) for key in target.list()} == whole


def test_a_copy_that_is_damaged_on_the_way_is_told(source: Path, monkeypatch) -> None:
    put = MemoryStore.put

    def damaging(self: MemoryStore, key: str, data: bytes) -> None:
        put(self, key, bytes(data[:-1]) + b"!" if key.endswith("0/0/0") else data)

    monkeypatch.setattr(MemoryStore, "put", damaging)
    target = MemoryStore()
    report = zvcore.copy(source, target, verify=True)
    assert {problem.where for problem in report.problems if problem.fatal} == {"a/c/0/0/0", "b/c/0/0/0"}
    assert not target.exists("zarr.json")


def test_large_objects_are_copied_in_blocks(tmp_path: Path) -> None:
    (tmp_path / "s").mkdir()
    data = os.urandom(1 << 20) * 17 + b"end"
    (tmp_path / "s" / "large").write_bytes(data)
    assert zvcore.copy(tmp_path / "s", tmp_path / "d", verify=True).ok
    assert (tmp_path / "d" / "large").read_bytes() == data


@pytest.mark.parametrize("function", [zvcore.copy, zvcore.sync])
def test_a_file_on_a_web_server_that_lists_nothing(function: Any, tmp_path: Path) -> None:
    (tmp_path / "s" / "folder").mkdir(parents=True)
    data = os.urandom(10_000)
    (tmp_path / "s" / "a file.bin").write_bytes(data)
    (tmp_path / "s" / "page.html").write_bytes(b"<!DOCTYPE html>")
    with web_server(tmp_path / "s", SimpleHTTPRequestHandler) as url:
        for name in ("a%20file.bin", "page.html"):
            assert function(f"{url}/{name}", tmp_path / name, verify=True).counts["objects copied"] == 1
        assert (tmp_path / "a%20file.bin").read_bytes() == data
        with pytest.raises(UnlistedError, match=r"no file of this name: .* zvcore convert"):
            function(f"{url}/nothing", tmp_path / "nothing")
        # This server gives a page for a folder, which nobody wants to have under the folder's name.
        with pytest.raises(UnlistedError, match="answers with a page"):
            function(f"{url}/folder", tmp_path / "folder")
    assert not (tmp_path / "folder").exists()


def test_places_that_make_no_sense(source: Path, tmp_path: Path, capsys) -> None:
    for destination in (source, source / "a", source.parent):
        with pytest.raises(ValueError, match=r"same place|lies in the other"):
            zvcore.copy(source, destination)
    with pytest.raises(NotFoundError):
        zvcore.copy(tmp_path / "nothing", tmp_path / "copy")
    assert cli.main(["cp", str(tmp_path / "nothing"), str(tmp_path / "copy")]) in (1, 2)
    assert not (tmp_path / "copy").exists()


def test_md5s_that_are_none_do_not_count(source: Path, monkeypatch) -> None:
    """Where a service encrypts, its tags look like MD5s."""
    monkeypatch.setattr(MemoryStore, "md5", lambda self, key: "0" * 32)
    target = MemoryStore()
    assert zvcore.copy(source, target).ok
    assert sorted(target.list()) == sorted(content(source))
    again = zvcore.copy(source, target)
    assert again.ok and again.counts == {"objects the same": len(content(source))}
    target.put("zarr.json", b"?" * len((source / "zarr.json").read_bytes()))
    assert zvcore.sync(source, target).counts["objects copied"] == 1


def test_nothing_is_removed_that_a_store_lists_out_of_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = MemoryStore(), MemoryStore()
    for key in ("a", "b", "c"):
        source.put(key, key.encode())
    target.put("d", b"extra")
    monkeypatch.setattr(source, "list", lambda prefix="": iter(["c", "a", "b"]))
    assert zvcore.sync(source, target, delete=True).counts["objects removed"] == 1
    assert [*target.list()] == ["a", "b", "c"]


def test_of_members_that_are_removed_no_folder_stays(tmp_path: Path) -> None:
    """N5 takes a folder in a container for a group."""
    group = zvcore.open(tmp_path / "a.n5", "w", format="n5")
    for name in ("a", "b/c/d", "b/e"):
        group.create_dataset(name, shape=(4,), dtype="u1", chunks=(2,))[...] = 1
    zvcore.sync(tmp_path / "a.n5", tmp_path / "b.n5")
    (tmp_path / "b.n5" / "b" / "c" / "of others").mkdir()
    del group["a"], group["b/c"]
    assert zvcore.sync(tmp_path / "a.n5", tmp_path / "b.n5", delete=True, dry_run=True).counts["objects removed"] == 6
    assert [*zvcore.open(tmp_path / "b.n5")] == ["a", "b"]
    assert zvcore.sync(tmp_path / "a.n5", tmp_path / "b.n5", delete=True).counts["objects removed"] == 6
    assert [*zvcore.open(tmp_path / "b.n5")] == ["b"]
    assert not (tmp_path / "b.n5" / "a").exists() and not (tmp_path / "b.n5" / "b" / "c" / "d").exists()
    assert (tmp_path / "b.n5" / "b" / "c" / "of others").exists()


def test_folders_without_objects_are_copied_where_there_are_folders(tmp_path: Path) -> None:
    group = zvcore.open(tmp_path / "a.n5", "w", format="n5")
    group.create_dataset("g/a", shape=(4,), dtype="u1", chunks=(2,))[...] = 1
    (tmp_path / "a.n5" / "empty" / "inner").mkdir(parents=True)
    assert zvcore.copy(tmp_path / "a.n5", tmp_path / "dry.n5", dry_run=True).ok
    assert not (tmp_path / "dry.n5").exists()
    assert zvcore.copy(tmp_path / "a.n5", tmp_path / "b.n5").ok
    copied = zvcore.open(tmp_path / "b.n5")
    assert [*copied] == ["empty", "g"] and [*copied["empty"]] == ["inner"]
    zvcore.sync(tmp_path / "a.n5", tmp_path / "c.n5", delete=True)
    assert [*zvcore.open(tmp_path / "c.n5")] == ["empty", "g"]
    report = zvcore.copy(tmp_path / "a.n5", MemoryStore())
    assert report.ok
    told = [(one.where, one.what) for one in report.problems]
    what = "a folder without objects, which the destination cannot have"
    assert told == [("empty", what), ("empty/inner", what)]


def test_no_folder_is_made_through_a_link_at_the_destination(tmp_path: Path) -> None:
    (tmp_path / "a" / "x" / "y").mkdir(parents=True)
    (tmp_path / "a" / "one").write_bytes(b"1")
    (tmp_path / "b").mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "b" / "x").symlink_to(tmp_path / "outside")
    report = zvcore.copy(tmp_path / "a", tmp_path / "b")
    assert not report.ok and not [*(tmp_path / "outside").iterdir()]


def test_holes_of_files_stay_holes(tmp_path: Path) -> None:
    size, piece = 1 << 40, bytes(range(1, 200))
    for name, places in {"middle": (3, size // 2 + 5, size - len(piece)), "end": (0,), "none": ()}.items():
        (tmp_path / "a").mkdir(exist_ok=True)
        with open(tmp_path / "a" / name, "wb") as file:
            file.truncate(size)
            for place in places:
                file.seek(place)
                file.write(piece)
    file = LocalStore(tmp_path / "a").opened_file("none")
    assert file is not None
    if next_data(file, 0, size) != (size, size):
        pytest.skip("the file system does not tell of holes")
    assert zvcore.copy(tmp_path / "a", tmp_path / "b").ok
    copy_object(LocalStore(tmp_path / "a"), "middle", LocalStore(tmp_path / "c"), "middle")
    assert zvcore.copy(tmp_path / "a" / "middle", tmp_path / "one").ok
    for path in (*(tmp_path / "b").iterdir(), tmp_path / "c" / "middle", tmp_path / "one"):
        assert path.stat().st_size == size and path.stat().st_blocks * 512 < 1 << 20
    for path in (tmp_path / "b" / "middle", tmp_path / "c" / "middle", tmp_path / "one"):
        with open(path, "rb") as file:
            for place in (3, size // 2 + 5, size - len(piece)):
                file.seek(place)
                assert file.read(len(piece)) == piece


def test_zeros_between_values_are_the_same_in_a_copy(tmp_path: Path) -> None:
    values = bytearray(20_000_003)
    for place in (0, 65_535, 70_000, 9_000_000, 19_999_000):
        values[place : place + 3] = b"abc"
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x").write_bytes(values)
    assert zvcore.copy(tmp_path / "a", tmp_path / "b", verify=True).ok
    assert (tmp_path / "b" / "x").read_bytes() == values
    for source, target in (
        (LocalStore(tmp_path / "a"), LocalStore(tmp_path / "c")),
        (LocalStore(tmp_path / "a"), MemoryStore()),
    ):
        assert copy_object(source, "x", target, "x") == len(values)
        assert bytes(target.get("x") or b"") == values
