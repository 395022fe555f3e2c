"""File systems that a loop of events asks, as those of S3, Google and Azure are: many objects at once, and what they
answer is not taken for more than it is.
"""

from __future__ import annotations

import asyncio
import pickle
import threading
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from fsspec.asyn import AsyncFileSystem

import zvcore
from zvcore.errors import ConflictError, StoreError
from zvcore.stores import open_store
from zvcore.stores.fsspec_together import AsyncFsspecClient
from zvcore.stores.writing import ANYTHING

if TYPE_CHECKING:
    from collections.abc import Callable

    from zvcore.stores import Store

VALUES = np.arange(64 * 64, dtype="uint16").reshape(64, 64)


class Bucket(AsyncFileSystem):
    """Objects in memory, each answer after a moment. As in that of S3, the third parameter is another than usual."""

    protocol = "zvcore-bucket"
    cachable = False
    kept: dict[str, dict[str, bytes]] = {}

    def __init__(self, name: str, **options: Any) -> None:
        super().__init__(**options)
        self.name = name
        self.objects = self.kept.setdefault(name, {})
        self.asked: Counter[str] = Counter()
        self.now: set[str] = set()
        self.beside: dict[str, int] = {}
        self.before: Callable[[str, str], None] = lambda what, path: None

    async def _wait(self, what: str, path: str) -> None:
        self.asked[what] += 1
        self.now.add(path)
        await asyncio.sleep(0.01)
        self.beside[path] = len(self.now)
        self.now.discard(path)
        self.before(what, path)

    async def _info(self, path: str, **kwargs: Any) -> dict[str, Any]:
        await self._wait("info", path)
        if path not in self.objects:
            raise FileNotFoundError(path)
        data = self.objects[path]
        return {"name": path, "type": "file", "size": len(data), "ETag": str(hash(data))}

    async def _cat_file(
        self, path: str, version_id: str | None = None, start: int | None = None, end: int | None = None, **kwargs: Any
    ) -> bytes:
        assert version_id is None
        await self._wait("cat", path)
        if path not in self.objects:
            raise FileNotFoundError(path)
        return self.objects[path][start:end]

    async def _pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **kwargs: Any) -> None:
        await self._wait("pipe", path)
        self.objects[path] = bytes(value)

    async def _rm_file(self, path: str, **kwargs: Any) -> None:
        del self.objects[path]

    async def _ls(self, path: str, detail: bool = True, **kwargs: Any) -> Any:
        below = path.rstrip("/") + "/" if path else ""
        names = {below + name[len(below) :].partition("/")[0] for name in self.objects if name.startswith(below)}
        return [
            {"name": name, "type": "file" if name in self.objects else "directory", "size": 0} for name in sorted(names)
        ]

    def forget(self) -> None:
        self.asked.clear()
        self.beside.clear()


@pytest.fixture
def bucket(request: pytest.FixtureRequest) -> Any:
    yield Bucket(request.node.name)
    Bucket.kept.clear()


@pytest.fixture
def store(bucket: Bucket) -> Store:
    found = open_store(bucket, "w").child("in/side")
    assert isinstance(found._client, AsyncFsspecClient)
    return found


@pytest.fixture
def array(bucket: Bucket) -> zvcore.Array:
    """16 chunks."""
    return zvcore.create(bucket, format="zarr3", data=VALUES, chunks=(16, 16))


def test_chunks_are_asked_for_at_once_and_each_once(bucket: Bucket, array: zvcore.Array) -> None:
    bucket.forget()
    np.testing.assert_array_equal(array[...], VALUES)
    assert bucket.asked == {"cat": 16}
    assert max(bucket.beside.values()) == 16


def test_one_chunk_is_one_request(bucket: Bucket, array: zvcore.Array) -> None:
    bucket.forget()
    assert array[3, 4] == VALUES[3, 4]
    assert bucket.asked == {"cat": 1}


def test_chunks_are_put_at_once(bucket: Bucket, array: zvcore.Array) -> None:
    bucket.forget()
    array[...] = VALUES + 1
    assert bucket.asked["pipe"] == 16 and bucket.asked["cat"] == 0
    assert max(bucket.beside.values()) == 16
    np.testing.assert_array_equal(zvcore.open(bucket)[...], VALUES + 1)


def test_chunks_that_change_in_part_are_replaced_if_they_are_still_the_same(
    bucket: Bucket, array: zvcore.Array
) -> None:
    bucket.forget()
    array[:, 5] = 9
    assert bucket.asked["pipe"] == bucket.asked["cat"] == 4
    assert bucket.asked["info"] >= 8  # of which version the old bytes are, and whether it is still there
    expected = VALUES.copy()
    expected[:, 5] = 9
    np.testing.assert_array_equal(zvcore.open(bucket)[...], expected)


def test_shards_are_read_in_parts_and_changed(bucket: Bucket) -> None:
    array = zvcore.create(bucket, format="zarr3", data=VALUES, chunks=(8, 8), shards=(32, 32))
    np.testing.assert_array_equal(array[5:20, 30:40], VALUES[5:20, 30:40])
    array[:, 5] = 9
    expected = VALUES.copy()
    expected[:, 5] = 9
    np.testing.assert_array_equal(zvcore.open(bucket)[...], expected)
    assert zvcore.verify(bucket).ok


def test_no_writer_s_change_is_lost(bucket: Bucket, array: zvcore.Array) -> None:
    """Each thread has a number in every chunk."""

    def write(row: int) -> None:
        zvcore.open(bucket, "r+")[row::16] = row

    threads = [threading.Thread(target=write, args=(row,)) for row in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = zvcore.open(bucket)[...]
    for row in range(6):
        assert (found[row::16] == row).all()


def test_an_error_says_of_which_object_it_is(bucket: Bucket, array: zvcore.Array) -> None:
    def fail(what: str, path: str) -> None:
        if path.endswith("c/2/1"):
            raise OSError("connection lost")

    bucket.before = fail
    for use in (lambda: array[...], lambda: array.__setitem__(..., 7), lambda: array.store.stamps(["c/0/0", "c/2/1"])):
        with pytest.raises(StoreError, match="c/2/1: OSError: connection lost"):
            use()


def test_what_fails_once_is_asked_for_again(bucket: Bucket, array: zvcore.Array) -> None:
    failed = []

    def fail_once(what: str, path: str) -> None:
        if path.endswith("c/2/1") and not failed:
            failed.append(path)
            raise OSError("connection lost")

    bucket.before = fail_once
    np.testing.assert_array_equal(array[...], VALUES)
    assert failed


def test_an_object_that_grows_behind_the_look_at_it_is_not_cut(bucket: Bucket, store: Store) -> None:
    store.put("a", b"old")
    store.put("b", b"old")

    def grow(what: str, path: str) -> None:
        if what == "info":
            bucket.before = lambda what, path: None
            bucket.objects["in/side/a"] = b"new and longer"

    bucket.before = grow
    one, other = store.snapshots(["a", "b"])
    assert one is not None and bytes(one.data) == b"new and longer" and one.stamp == store.stamp("a")
    assert other is not None and bytes(other.data) == b"old"


def test_a_part_of_an_object_that_is_replaced_meanwhile_is_of_one_version(bucket: Bucket, store: Store) -> None:
    store.put("a", b"0123456789")
    stamp = store.stamp("a")

    def replace(what: str, path: str) -> None:
        if what == "cat":
            bucket.before = lambda what, path: None
            bucket.objects[path] = b"ABCDEFGHIJ"

    bucket.before = replace
    with pytest.raises(ConflictError):
        store.get_ranges("a", [(2, 3)], stamp=stamp)
    store.put("a", b"0123456789")
    bucket.before = replace
    (found,) = store.snapshots(["a"], [(2, 3)])
    assert found is not None and bytes(found.data) == b"CDE"


def test_only_what_is_still_the_same_is_replaced(store: Store) -> None:
    store.put("a", b"one")
    store.put("b", b"one")
    old = store.stamps(["a", "b", "c"])
    assert old[2] is None
    store.put("a", b"two")
    wanted = [(key, b"new", stamp) for key, stamp in zip("abc", old, strict=True)]
    assert store.put_each([*wanted, ("d", b"new", ANYTHING)]) == [False, True, True, True]
    assert [bytes(data or b"") for data in store.get_many("abcd")] == [b"two", b"new", b"new", b"new"]
    assert store.put_each([("e", b"one", None), ("e", b"two", None)]) == [True, False]


def test_parts_and_ends_and_what_is_not_there(store: Store) -> None:
    store.put("a", b"0123456789")
    store.put("empty", b"")
    assert store.get("a", 2, 3) == b"234" and store.get("a", -3) == b"789" and store.get("a", 8, 10) == b"89"
    assert store.get("b") is None and store.size("b") is None
    assert [None if one is None else bytes(one) for one in store.get_many(["a", "b", "empty"])] == [
        b"0123456789",
        None,
        b"",
    ]
    found = store.snapshots(["a", "b", "a", "empty"], [(-3, None), (0, None), (8, 10), (0, None)])
    assert [None if one is None else bytes(one.data) for one in found] == [b"789", None, b"89", b""]


def test_it_is_sent_by_pickle(store: Store) -> None:
    store.put("a", b"0123456789")
    assert pickle.loads(pickle.dumps(store)).get("a") == b"0123456789"


def test_documents_are_looked_at_once_and_not_for_their_versions(bucket: Bucket, array: zvcore.Array) -> None:
    bucket.forget()
    found = zvcore.open(bucket)
    assert found.shape == VALUES.shape
    assert bucket.asked["info"] == 0
    assert max(bucket.beside.values()) >= 6  # what tells the format, and the notes of unfinished conversions
    bucket.forget()
    zvcore.open(bucket, "r+", format="zarr3")[0, 0] = 5
    assert zvcore.open(bucket)[0, 0] == 5


def test_a_look_tells_versions_where_they_are_asked_for(bucket: Bucket, store: Store) -> None:
    store.put("a", b"one")
    store.put("b", b"one")
    outside = store.stamp("a")
    with store.looking_at(["a", "b", "c"]):
        bucket.forget()
        assert (store.get("a"), store.get("c"), store.size("a"), store.exists("c")) == (b"one", None, 3, False)
        assert not bucket.asked
        assert store.stamp("a") == outside and store.stamp("c") is None
        assert store.stamp("a") == outside
        assert bucket.asked == {"info": 1}
        found = store.snapshot("b")
        assert found is not None and (bytes(found.data), found.stamp) == (b"one", store.stamp("b"))
    store.put_if_unchanged("b", b"two", found.stamp)
    assert store.get("b") == b"two"


def test_a_change_after_a_look_is_not_lost(bucket: Bucket, store: Store) -> None:
    store.put("a", b"one")
    with store.looking_at(["a"]):
        bucket.objects["in/side/a"] = b"two"  # by somebody else
        found = store.snapshot("a")
        assert found is not None and bytes(found.data) == b"two"
        bucket.objects["in/side/a"] = b"six"
        with pytest.raises(ConflictError):
            store.put_if_unchanged("a", b"mine", found.stamp)
    assert store.get("a") == b"six"
