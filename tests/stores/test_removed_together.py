"""Objects of a bucket are removed many by one request, and read once to be changed: requests are counted."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zvcore
from zvcore.stores import open_store

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.stores.servers import S3, Proxy

KINDS: dict[str, dict[str, Any]] = {
    "zarr3": {"chunks": (4, 4, 4)},
    "zarr2": {"chunks": (4, 4, 4)},
    "n5": {"chunks": (4, 4, 4)},
    "precomputed": {"chunks": (4, 4, 4)},
}


@pytest.fixture
def url(s3: S3) -> str:
    return s3.url(f"removed-{uuid.uuid4()}")


def made(url: str, s3: S3, **options: Any) -> tuple[Any, np.ndarray[Any, Any]]:
    """An array of 64 objects and its values, none of which is the fill value."""
    shape = (16, 16, 16, 1) if options["format"] == "precomputed" else (16, 16, 16)
    array = zvcore.create(url, shape=shape, dtype="u2", storage_options=s3.options, **options)
    values = np.random.default_rng(1).integers(1, 999, shape).astype("u2")
    array[...] = values
    return array, values


def chunks(url: str, s3: S3) -> int:
    documents = ("zarr.json", ".zarray", ".zattrs", "attributes.json", "info")
    return sum(key not in documents for key in open_store(url, "r", s3.options).list())


@pytest.mark.parametrize("kind", KINDS)
def test_chunks_that_become_empty(s3: S3, url: str, proxy: Proxy, kind: str) -> None:
    array, values = made(url, s3, format=kind, **KINDS[kind])
    proxy.forget()
    array[:8] = 0
    values[:8] = 0
    assert len(proxy.seen()) < 10
    assert chunks(url, s3) == 32
    assert np.array_equal(
        zvcore.open(url, storage_options=s3.options)[...] if kind != "precomputed" else array[...], values
    )


def resized(array: Any) -> None:
    array.resize((4, 16, 16))


def overwritten(array: Any) -> None:
    array[4:] = 0


@pytest.mark.parametrize("removed", [resized, overwritten])
@pytest.mark.parametrize("options", [{"shards": (4, 4, 4), "chunks": (2, 2, 2)}, {"chunks": (4, 4, 4)}])
def test_objects_outside_of_an_array_that_shrinks(
    s3: S3, url: str, proxy: Proxy, options: dict[str, Any], removed: Callable[[Any], None]
) -> None:
    array, values = made(url, s3, format="zarr3", **options)
    proxy.forget()
    removed(array)
    if removed is resized:
        assert len(proxy.seen()) < 10
    assert chunks(url, s3) == 16
    assert np.array_equal(zvcore.open(url, storage_options=s3.options)[:4], values[:4])


def test_what_sync_removes(s3: S3, url: str, proxy: Proxy, tmp_path: Path) -> None:
    made(url, s3, format="n5", **KINDS["n5"])
    zvcore.create(tmp_path / "here", format="n5", shape=(16, 16, 16), dtype="u2", chunks=(4, 4, 4))
    proxy.forget()
    report = zvcore.sync(tmp_path / "here", url, delete=True, storage_options=s3.options)
    assert report.ok and report.counts["objects removed"] == 64
    assert len(proxy.seen()) < 16
    assert chunks(url, s3) == 0


@pytest.mark.parametrize("kind", KINDS)
def test_chunks_of_which_a_part_is_written_are_asked_for_once(s3: S3, url: str, proxy: Proxy, kind: str) -> None:
    array, values = made(url, s3, format=kind, **KINDS[kind])
    proxy.forget()
    array[1:15, 1:15, 1:15] = 7
    values[1:15, 1:15, 1:15] = 7
    partial = 64 - 8
    assert len(proxy.seen("PUT")) == 64
    assert len(proxy.seen()) < 64 + partial + 10
    assert np.array_equal(array[...], values)


def test_a_chunk_that_another_changes_meanwhile_keeps_both(s3: S3, url: str, proxy: Proxy) -> None:
    array, values = made(url, s3, format="zarr3", **KINDS["zarr3"])
    other = zvcore.open(url, mode="r+", storage_options=s3.options)
    pending = [(0, 0, 0), (3, 3, 3)]

    def meanwhile(request: Any) -> None:
        if request.method == "PUT" and pending:
            place = pending.pop()
            other[place] = values[place] = 1000

    proxy.spoil = meanwhile
    array[1:3, 1:3, 1:3] = 7
    proxy.spoil = None
    values[1:3, 1:3, 1:3] = 7
    assert not pending and np.array_equal(array[...], values)
