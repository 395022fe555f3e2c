"""Zarr Vectors in a bucket: what a read looks at first is asked for at once, and is always as it is now."""

from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zvcore
from tests.zvf.test_old_cells import check, old_cells
from zvcore.errors import ConflictError
from zvcore.stores import open_store
from zvcore.zvf import shard_store, write_points, write_polylines

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.stores.servers import S3, Proxy, Together

DOCUMENTS = ["object_index/zarr.json", "vertex_fragments/zarr.json", "vertices/zarr.json"]
OF_OBJECTS = ["object_index/manifests/zarr.json", "object_index/object_ids/zarr.json"]


def lines(seed: int, count: int = 40) -> list[np.ndarray]:
    generator = np.random.default_rng(seed)
    return [
        np.cumsum(generator.normal(0, 2, (20, 3)), 0, np.float32) + generator.uniform(20, 80, 3).astype("f4")
        for _ in range(count)
    ]


class Bucket:
    """A folder of the test, as often as it is asked for in a bucket."""

    def __init__(self, folder: Path, s3: S3) -> None:
        self.folder = folder
        self.options = s3.options
        self.url = s3.url(f"vectors-{uuid.uuid4()}")

    def put(self) -> None:
        store = open_store(self.url, "w", self.options)
        store.delete_prefix("")
        for file in self.folder.rglob("*"):
            if file.is_file():
                store.put(str(file.relative_to(self.folder)), file.read_bytes())

    def level(self) -> Any:
        return zvcore.open(self.url, storage_options=self.options).level(0)


@pytest.fixture
def bucket(tmp_path: Path, s3: S3) -> Bucket:
    return Bucket(tmp_path / "vectors", s3)


def asked(proxy: Proxy, action: Callable[[], object]) -> list[tuple[str, str]]:
    """(method, what lies in the level) of each request that an action makes."""
    proxy.forget()
    action()
    return sorted((one.method, one.key.partition("/0/")[2]) for one in proxy.requests)


@pytest.mark.parametrize("sharded", [False, True])
def test_what_reads_ask_for(bucket: Bucket, proxy: Proxy, sharded: bool) -> None:
    write_polylines(bucket.folder, lines(0), chunk_shape=(50, 50, 50))
    if sharded:
        shard_store(bucket.folder)
    bucket.put()
    level, there = bucket.level(), zvcore.open(bucket.folder).level(0)
    first = asked(proxy, lambda: level.read_object(3))
    documents = [("GET", name) for name in sorted([*DOCUMENTS, *OF_OBJECTS])]
    assert [one for one in first if one[1].endswith("zarr.json")] == documents
    assert first.count(("GET", "object_index/manifests/c/0")) == 1 or sharded
    # Another is read after four questions, asked together; nothing else is asked for but its cells.
    later = asked(proxy, lambda: level.read_object(7))
    questions = {one for one in later if one[0] == "HEAD"}
    assert questions == {("HEAD", name) for name in [*DOCUMENTS, "object_index/manifests/c/0"]}
    assert {name.partition("/")[0] for method, name in later if method == "GET"} <= {"vertices", "vertex_fragments"}
    assert len(later) == len(questions) + sum(method == "GET" for method, _ in later)
    for id in (3, 7):
        np.testing.assert_array_equal(level.read_object(id), there.read_object(id))
    some, expected = level.read_objects([5, 3]), there.read_objects([5, 3])
    np.testing.assert_array_equal(some.positions, expected.positions)
    box = ((20, 20, 20), (60, 60, 60))
    np.testing.assert_array_equal(level.read_bbox(*box).positions, there.read_bbox(*box).positions)
    np.testing.assert_array_equal(level.read().positions, there.read().positions)


def test_what_somebody_else_has_written_meanwhile_is_seen(bucket: Bucket) -> None:
    write_polylines(bucket.folder, lines(0), chunk_shape=(50, 50, 50))
    bucket.put()
    level = bucket.level()
    assert len(level.read()) == 40
    for seed, count in ((1, 40), (2, 60), (3, 10)):
        given = lines(seed, count)
        write_polylines(bucket.folder, given, chunk_shape=(50, 50, 50), overwrite=True)
        bucket.put()
        found = level.read()
        assert len(found) == count
        there = zvcore.open(bucket.folder).level(0)
        np.testing.assert_array_equal(found.positions, there.read().positions)
        np.testing.assert_array_equal(level.read_object(5), there.read_object(5))


def test_points_have_no_objects(bucket: Bucket, proxy: Proxy) -> None:
    points = np.random.default_rng(0).uniform(0, 100, (500, 3)).astype("f4")
    write_points(bucket.folder, points, chunk_shape=(50, 50, 50))
    bucket.put()
    level, there = bucket.level(), zvcore.open(bucket.folder).level(0)
    for _ in range(2):
        np.testing.assert_array_equal(level.read().positions, there.read().positions)
        chunk = tuple(level.chunks()[0].tolist())
        np.testing.assert_array_equal(level.read_chunk(chunk)[0], there.read_chunk(chunk)[0])
    questions = [one for one in asked(proxy, lambda: level.read_chunk(chunk)) if one[0] == "HEAD"]
    assert [name for _, name in questions] == DOCUMENTS


def test_stamps_that_are_told_are_not_asked_for(s3: S3, proxy: Proxy) -> None:
    store = open_store(s3.url(f"told-{uuid.uuid4()}"), "w", s3.options)
    store.put("a", b"1")
    store.put("b", b"1")
    stamps = dict(zip("abc", store.stamps(["a", "b", "c"]), strict=True))
    assert stamps == {key: store.stamp(key) for key in "abc"}
    assert stamps["c"] is None
    with store.telling(stamps):
        with store.telling({"d": None}):
            assert asked(proxy, lambda: [store.stamp(key) for key in "abcd"]) == []
        assert len(asked(proxy, lambda: store.stamp("d"))) == 1
        with ThreadPoolExecutor(1) as pool:  # another thread has been told nothing
            assert len(asked(proxy, lambda: pool.submit(store.stamp, "a").result())) == 1
        open_store(store.address, "r+", s3.options).put("a", b"22")
        with pytest.raises(ConflictError):
            store.get("a", stamp=stamps["a"])
        assert store.stamp("a") != stamps["a"]
        assert asked(proxy, lambda: store.stamp("b")) == []
    assert len(asked(proxy, lambda: store.stamp("b"))) == 1


def test_cells_before_0_9_are_asked_for_together(bucket: Bucket, together: type[Together]) -> None:
    old_cells(bucket.folder / "vertices")
    bucket.put()
    counting = together()
    check(open_store(bucket.url, "r", bucket.options))
    assert counting.enough
