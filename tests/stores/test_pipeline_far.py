"""zarr-python's arrays in a bucket, by zvcore's pipeline: over its own connections, and nothing is lost."""

from __future__ import annotations

import itertools
import threading
import uuid
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import zarr
import zarr.storage
from obstore.store import AzureStore, GCSStore, S3Store

import zvcore
import zvcore.zarr3
from zvcore.stores import Store, open_store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.stores.servers import S3, Proxy, Request, Together

LAYOUTS: dict[str, dict[str, Any]] = {
    "chunks": {"chunks": (8, 8, 8)},
    "shards": {"chunks": (8, 8, 8), "shards": (16, 32, 32)},
    "v2": {"chunks": (8, 8, 8), "zarr_format": 2},
}
SHAPE = (32, 64, 70)
BOXES = (np.s_[...], np.s_[3:30, 5, ::3], np.s_[8:16, 8:16, 8:16], np.s_[31])


@pytest.fixture(autouse=True)
def _pipeline() -> Iterator[None]:
    with zarr.config.set({"codec_pipeline.path": "zvcore.zarr3.CodecPipeline"}):
        yield


def store_of(s3: S3, place: str, *, read_only: bool = False) -> Any:
    """As zarr-python is given one."""
    kinds = {"s3": S3Store, "gs": GCSStore, "az": AzureStore}
    options = {name: value for name, value in s3.options.items() if name != "allow_http"}
    given = kinds[s3.scheme](s3.bucket, prefix=place, client_options={"allow_http": True}, **options)
    return zarr.storage.ObjectStore(given, read_only=read_only)


@pytest.fixture
def place() -> str:
    return f"pipeline-{uuid.uuid4()}"


def made(s3: S3, place: str, kind: str, **more: Any) -> tuple[zarr.Array, np.ndarray]:
    array = zarr.create_array(store_of(s3, place), shape=SHAPE, dtype="u2", **LAYOUTS[kind], **more)
    explained = zvcore.zarr3.explain(array)
    assert explained["native"] and explained["store"] == "remote"
    return array, np.random.default_rng(0).integers(1, 60000, SHAPE, np.uint16)


def as_zarr_has_it(s3: S3, place: str) -> np.ndarray:
    with zarr.config.set({"codec_pipeline.path": "zarr.core.codec_pipeline.BatchedCodecPipeline"}):
        return np.asarray(zarr.open_array(store_of(s3, place), mode="r")[...])


@pytest.mark.parametrize("kind", LAYOUTS)
def test_both_pipelines_read_and_write_the_same(s3: S3, place: str, kind: str) -> None:
    array, data = made(s3, place, kind)
    array[...] = data
    np.testing.assert_array_equal(as_zarr_has_it(s3, place), data)
    for key in (np.s_[...], np.s_[3:30, 5, ::3], np.s_[31, 63, 69], np.s_[8:16, 8:16, 8:16]):
        np.testing.assert_array_equal(array[key], data[key])
    np.testing.assert_array_equal(array.oindex[[1, 30], :, [0, 69]], data[[1, 30]][:, :, [0, 69]])
    np.testing.assert_array_equal(array.vindex[[1, 30], [2, 3], [4, 69]], data[[1, 30], [2, 3], [4, 69]])
    array[5:20, 7:9] = data[5:20, 7:9] = 7
    array[0:16, 0:32, 0:32] = data[0:16, 0:32, 0:32] = 0  # what the fill value is is not stored
    array[31] = data[31] = 9
    np.testing.assert_array_equal(as_zarr_has_it(s3, place), data)
    np.testing.assert_array_equal(zvcore.open(s3.url(place), storage_options=s3.options)[...], data)


def test_chunks_are_asked_for_at_once_and_no_more_than_is_needed(
    s3: S3, place: str, proxy: Proxy, together: type[Together]
) -> None:
    array, data = made(s3, place, "shards")
    counting = together()
    array[...] = data
    assert counting.enough
    array = zarr.open_array(store_of(s3, place), mode="r")
    np.testing.assert_array_equal(array[0:8, 0:8, 0:8], data[0:8, 0:8, 0:8])
    proxy.forget()
    np.testing.assert_array_equal(array[8:16, 8:16, 8:16], data[8:16, 8:16, 8:16])
    # The index of the shard is known by now.
    assert [(one.method, "range" in one.headers) for one in proxy.requests] == [("GET", True)]


@pytest.mark.parametrize("kind", LAYOUTS)
def test_writers_of_one_object_lose_nothing(s3: S3, place: str, kind: str) -> None:
    """Each has an array of its own, as processes have; zarr-python's own pipeline writes back what it found."""
    made(s3, place, kind)
    turns = itertools.count()
    wrong: list[BaseException] = []

    def write() -> None:
        try:
            array = zarr.open_array(store_of(s3, place), mode="r+")
            while (row := next(turns)) < 16:
                array[row, :16, :16] = row + 1
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=write) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    found = as_zarr_has_it(s3, place)[:16, :16, :16]
    assert found.tolist() == [[[row + 1] * 16] * 16 for row in range(16)]


def test_refusals_and_damage_are_told(s3: S3, place: str, proxy: Proxy) -> None:
    array, data = made(s3, place, "chunks")
    array[...] = data
    store: Store = open_store(s3.url(place), "r+", s3.options)
    store.put("c/1/1/1", b"damaged")
    with pytest.raises(zvcore.errors.CorruptDataError, match="c/1/1/1"):
        array[...]

    def refuse(request: Request) -> int | None:
        return 403 if request.key.endswith("c/0/0/0") else None

    proxy.spoil = refuse
    with pytest.raises(zvcore.errors.StoreError, match="c/0/0/0"):
        array[:8, :8, :8]
    with pytest.raises(zvcore.errors.StoreError, match="c/0/0/0"):
        array[:8, :8, :8] = 1
    proxy.spoil = None
    np.testing.assert_array_equal(array[:8], data[:8])


def test_what_is_read_only_is_refused_in_zarrs_words(s3: S3, place: str) -> None:
    array, data = made(s3, place, "chunks")
    array[...] = data
    read_only = zarr.open_array(store_of(s3, place, read_only=True), mode="r")
    np.testing.assert_array_equal(read_only[...], data)
    with pytest.raises(ValueError, match="read-only"):
        read_only[0] = 1


@pytest.mark.parametrize("kind", LAYOUTS)
def test_boxes_are_read_in_the_thread_that_asks(s3: S3, place: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    array, data = made(s3, place, kind)
    array[...] = data
    with zvcore.zarr3.accelerate():
        ours = zarr.open_array(store_of(s3, place), mode="r+")
        with monkeypatch.context() as patch:
            patch.setattr("zarr.core.array.sync", None)  # zarr-python's loop is not asked
            found = [ours[key] for key in BOXES]
        for key, values in zip(BOXES, found, strict=True):
            np.testing.assert_array_equal(values, data[key])
        ours[5:20, 7:9] = data[5:20, 7:9] = 7
        np.testing.assert_array_equal(ours[4:21], data[4:21])
        assert ours[5, 7, 0] == 7
        array[5:20, 7:9] = data[5:20, 7:9] = 8  # by another, which is seen
        np.testing.assert_array_equal(ours[4:21], data[4:21])
