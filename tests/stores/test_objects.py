"""Places that other libraries have opened are places for zvcore: their stores, sessions, file systems and mappers."""

from __future__ import annotations

import gc
import pickle
import threading
import uuid
from typing import TYPE_CHECKING, Any

import fsspec
import numpy as np
import obstore.store
import pytest
import zarr
from zarr.storage import FsspecStore, ObjectStore, StorePath

import zvcore
from zvcore.converting import note
from zvcore.errors import ConflictError, ReadOnlyError, StoreError, UnsupportedError
from zvcore.stores import LocalStore, Store, open_store
from zvcore.zarr3 import AsyncStore

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.stores.servers import S3

VALUES = np.arange(24 * 20, dtype="uint16").reshape(24, 20)


def fsspec_memory(_: Any) -> Any:
    return fsspec.filesystem("memory").get_mapper(f"/{uuid.uuid4()}")


def file_system(_: Any) -> Any:
    from fsspec.implementations.dirfs import DirFileSystem

    return DirFileSystem(f"/{uuid.uuid4()}", fsspec.filesystem("memory"))


def bucket(request: Any) -> Any:
    server: S3 = request.getfixturevalue("s3_process")
    options: Any = {name: value for name, value in server.options.items() if name != "allow_http"}
    return obstore.store.S3Store(
        server.bucket, prefix=str(uuid.uuid4()), config=options, client_options={"allow_http": True}
    )


MAKERS: dict[str, Callable[[Any], Any]] = {
    "zarr memory": lambda _: zarr.storage.MemoryStore(),
    "zarr folder": lambda request: zarr.storage.LocalStore(request.getfixturevalue("tmp_path") / "zarr"),
    "zarr path": lambda _: StorePath(zarr.storage.MemoryStore(), "in/side"),
    "zarr fsspec": lambda _: FsspecStore.from_url(f"memory://{uuid.uuid4()}"),
    "zarr obstore": lambda _: ObjectStore(obstore.store.MemoryStore()),
    "zarr zvcore": lambda _: AsyncStore(f"memory://{uuid.uuid4()}"),
    "obstore memory": lambda _: obstore.store.MemoryStore(),
    "obstore folder": lambda request: obstore.store.LocalStore(request.getfixturevalue("tmp_path") / "o", mkdir=True),
    "obstore s3": bucket,
    "fsspec mapper": fsspec_memory,
    "fsspec mapper of a folder": lambda request: fsspec.get_mapper(f"file://{request.getfixturevalue('tmp_path')}/m"),
    "fsspec file system": file_system,
}


@pytest.fixture(params=MAKERS)
def place(request: pytest.FixtureRequest) -> Any:
    return MAKERS[request.param](request)


@pytest.mark.parametrize(("format", "options"), [
    ("zarr3", {"shards": (12, 20)}), ("zarr2", {}), ("n5", {}), ("precomputed", {"resolution": (1, 1, 1)}),
])  # fmt: skip
def test_arrays_are_created_and_opened_there(place: Any, format: str, options: dict[str, Any]) -> None:
    values = VALUES.reshape(24, 20, 1, 1) if format == "precomputed" else VALUES
    chunks = (6, 10, 1) if format == "precomputed" else (6, 10)
    shape = values.shape
    made = zvcore.create(place, format=format, shape=shape, dtype="uint16", chunks=chunks, **options)
    made[...] = values
    made[3:7, 2:5] = 7
    expected = values.copy()
    expected[3:7, 2:5] = 7
    again = zvcore.open(place)
    again = again if hasattr(again, "shape") else again[0]
    np.testing.assert_array_equal(again[...], expected)
    np.testing.assert_array_equal(again[5, 1:9], expected[5, 1:9])
    assert zvcore.verify(place).ok


def test_conversions_go_there_and_come_back(place: Any, tmp_path: Path) -> None:
    zvcore.create(tmp_path / "a.n5", format="n5", data=VALUES, chunks=(6, 10))
    report = zvcore.convert(tmp_path / "a.n5", place, format="zarr3", shards=True, levels=1, verify=True)
    assert report.ok
    assert sorted(zvcore.verify(place).problems, key=str) == []
    back = zvcore.convert(place, tmp_path / "back.n5", format="n5", verify=True)
    assert back.ok
    np.testing.assert_array_equal(zvcore.open(tmp_path / "back.n5")["s0"][...], VALUES)
    store = open_store(place)
    assert note.KEY not in store.list()
    assert zvcore.inspect(place)["kind"] == zvcore.inspect(tmp_path / "back.n5")["kind"]


def test_what_zarr_python_has_written_is_read() -> None:
    theirs = zarr.storage.MemoryStore()
    group = zarr.create_group(theirs)
    array = group.create_array("a/b", shape=VALUES.shape, dtype="uint16", chunks=(6, 10), shards=(12, 20))
    array[...] = VALUES
    np.testing.assert_array_equal(zvcore.open(theirs)["a/b"][...], VALUES)
    np.testing.assert_array_equal(zvcore.open(group)["a/b"][2:5], VALUES[2:5])
    np.testing.assert_array_equal(zvcore.open(group["a"])["b"][...], VALUES)


def test_what_is_written_there_zarr_python_reads() -> None:
    theirs = zarr.storage.MemoryStore()
    zvcore.create(theirs, format="zarr3", data=VALUES, chunks=(6, 10), shards=(12, 20))
    np.testing.assert_array_equal(zarr.open_array(theirs, mode="r")[...], VALUES)


def test_folders_are_taken_for_what_they_are(tmp_path: Path) -> None:
    for given in (
        zarr.storage.LocalStore(tmp_path),
        obstore.store.LocalStore(tmp_path),
        fsspec.get_mapper(str(tmp_path)),
    ):
        store = open_store(given, "w")
        assert isinstance(store, LocalStore)
        assert store.root == str(tmp_path)


def test_read_only_places_are_not_written() -> None:
    theirs = zarr.storage.MemoryStore()
    zvcore.create(theirs, format="zarr3", data=VALUES)
    for store in (open_store(theirs.with_read_only(True), "r+"), open_store(theirs, "r")):
        with pytest.raises(ReadOnlyError):
            store.put("a", b"")
    with pytest.raises(ReadOnlyError):
        zvcore.open(theirs.with_read_only(True), "r+")[0, 0] = 1


def test_what_is_no_place_is_refused_by_its_type() -> None:
    with pytest.raises(TypeError, match=r"not builtins\.dict"):
        zvcore.open({})
    with pytest.raises(TypeError, match="numpy"):
        open_store(np.zeros(3))
    with pytest.raises(ValueError, match="is already open"):
        zvcore.open(zarr.storage.MemoryStore(), storage_options={"region": "x"})
    with pytest.raises(UnsupportedError, match="only read"):
        open_store(obstore.store.HTTPStore.from_url("https://example.org"), "w")


# --- the rules of stores, for stores of zarr-python


@pytest.fixture
def store() -> Store:
    return open_store(zarr.storage.MemoryStore(), "w")


def test_reads_of_parts(store: Store) -> None:
    store.put("a/b", b"0123456789")
    assert bytes(store.get("a/b") or b"") == b"0123456789"
    assert bytes(store.get("a/b", 3, 4) or b"") == b"3456"
    assert bytes(store.get("a/b", -3) or b"") == b"789"
    assert bytes(store.get("a/b", -30) or b"") == b"0123456789"
    assert bytes(store.get("a/b", 8, 9) or b"") == b"89"
    assert store.get("a/b", 20, 3) == b""
    assert store.get("a/b", 2, 0) == b""
    assert store.get("c") is None
    assert store.get("c", 3) is None
    assert [bytes(one) for one in store.get_ranges("a/b", [(8, 2), (0, 1), (4, 0)]) or ()] == [b"89", b"0", b""]
    assert store.get_ranges("c", [(0, 1)]) is None
    with pytest.raises(zvcore.errors.CorruptDataError):
        store.get_ranges("a/b", [(8, 3)])


def test_lists(store: Store) -> None:
    for key in ("a/b", "a/c/d", "ab", "z"):
        store.put(key, b"x")
    assert list(store.list()) == ["a/b", "a/c/d", "ab", "z"]
    assert list(store.list("a")) == ["a/b", "a/c/d"]
    assert store.list_dir() == (["a"], ["ab", "z"])
    assert store.list_dir("a") == (["c"], ["b"])
    assert store.list_dir("no") == ([], [])
    assert store.child("a").list_dir() == (["c"], ["b"])
    assert [one.list_dir() for one in store.child("a/c").above()] == [store.list_dir("a"), store.list_dir()]
    assert store.delete_prefix("a") == 2
    assert list(store.list()) == ["ab", "z"]
    assert store.delete("z")
    assert not store.delete("z")


def test_an_object_that_was_replaced_is_noticed(store: Store) -> None:
    store.put("a", b"old")
    stamp = store.stamp("a")
    store.put("a", b"new")
    for read in (lambda: store.get("a", stamp=stamp), lambda: store.get_ranges("a", [(0, 1)], stamp=stamp),
                 lambda: store.put_if_unchanged("a", b"third", stamp)):  # fmt: skip
        with pytest.raises(ConflictError):
            read()
    with pytest.raises(ConflictError):
        store.put_if_unchanged("a", b"third", None)
    store.put_if_unchanged("a", b"third", store.stamp("a"))
    assert store.get("a") == b"third"
    assert not store.settled(store.stamp("a"))


def test_two_who_open_the_same_store_lose_nothing() -> None:
    theirs = zarr.storage.MemoryStore()
    open_store(theirs, "w").put("n", b"0")

    def count() -> None:
        mine = open_store(theirs, "r+")
        for _ in range(50):
            mine.change("n", lambda old: str(int(bytes(old or b"0")) + 1).encode())

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert open_store(theirs).get("n") == b"200"


def test_keys_that_lead_elsewhere_are_refused(store: Store) -> None:
    for key in ("../a", "/a", "a//b", "a\\b", ""):
        with pytest.raises(zvcore.errors.InvalidKeyError):
            store.get(key)


def test_what_the_other_library_raises_is_a_store_error(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(*_: Any) -> None:
        raise RuntimeError("out of order")

    monkeypatch.setattr(zarr.storage.MemoryStore, "get", fail)
    with pytest.raises(StoreError, match="a: RuntimeError: out of order"):
        store.get("a")


class RefusedByServer(Exception):
    """An error of a library's own kind, as those of Icechunk, gcsfs, adlfs and aiohttp are."""


@pytest.mark.parametrize(
    ("method", "act"),
    [
        ("info", lambda store: store.get("a")),
        ("cat_file", lambda store: store.get("a")),
        ("pipe_file", lambda store: store.put("a", b"y")),
        ("rm_file", lambda store: store.delete("a")),
        ("find", lambda store: list(store.list())),
        ("ls", lambda store: store.list_dir()),
    ],
)
def test_errors_of_a_file_system_s_own_kind_are_store_errors_too(
    method: str, act: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(fsspec_memory(None), "w")
    store.put("a", b"x")

    def fail(*_: Any, **__: Any) -> None:
        raise RefusedByServer("quota exceeded\nand more that only its authors can read")

    monkeypatch.setattr(fsspec.implementations.memory.MemoryFileSystem, method, fail)
    with pytest.raises(StoreError, match=r"RefusedByServer: quota exceeded$"):
        act(store)


def test_stores_over_obstore_can_be_sent_to_other_processes(request: pytest.FixtureRequest) -> None:
    store = open_store(bucket(request), "w")
    store.put("a", b"x")
    assert pickle.loads(pickle.dumps(store)).get("a") == b"x"


def test_an_object_that_no_key_names_is_left_out_of_no_copy_in_silence(tmp_path: Path) -> None:
    files = fsspec.filesystem("memory").get_mapper(f"/{uuid.uuid4()}")
    zvcore.create(files, format="zarr3", shape=(4,), chunks=(2,), dtype="u1")[...] = 1
    files.fs.pipe(f"{files.root}/c/a\\b", b"what nobody can ask for")
    with pytest.raises(zvcore.errors.InvalidKeyError, match=r"c/a\\b: an object has a name"):
        list(open_store(files).list())
    report = zvcore.copy(files, tmp_path / "a")
    assert not report.ok
    assert [(problem.where, "it is not copied" in problem.what) for problem in report.problems] == [("c/a\\b", True)]
    assert zvcore.open(tmp_path / "a")[...].sum() == 4
    assert zvcore.open(files)[...].sum() == 4, "values are read all the same"


def sharded(given: Any, first: bool) -> Any:
    """An array of which one of two chunks is stored, in a shard that has the same size whichever that is."""
    array = zarr.create_array(
        given, name="a", shape=(8,), shards=(8,), chunks=(4,), dtype="u1", compressors=None, fill_value=0
    )
    array[slice(0, 4) if first else slice(4, 8)] = 5
    return array


def test_what_is_known_of_a_store_that_has_gone_is_not_taken_for_the_next_one() -> None:
    """Python gives the place in memory of what has gone, and with it its `id`, to what comes next."""
    given = [zarr.storage.MemoryStore() for _ in range(40)]
    for number, one in enumerate(given):
        sharded(one, first=number % 2 == 0)
    for number, one in enumerate(given):
        array = zvcore.open(one)["a"]
        assert array[...].tolist() == ([5] * 4 + [0] * 4 if number % 2 == 0 else [0] * 4 + [5] * 4)
        del array
        gc.collect(0)


def test_what_zarr_python_writes_into_its_store_is_seen_though_the_shard_has_the_same_size() -> None:
    given = zarr.storage.MemoryStore()
    theirs = sharded(given, first=True)
    ours = zvcore.open(given)["a"]
    assert ours[...].tolist() == [5] * 4 + [0] * 4
    theirs[...] = [0] * 4 + [6] * 4
    assert ours[...].tolist() == [0] * 4 + [6] * 4
    assert ours[5] == 6 and ours[1] == 0
