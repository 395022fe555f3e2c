"""Of chunks that are stored as they are, no more comes over a network than a selection needs."""

from __future__ import annotations

import os
import re
from http.server import SimpleHTTPRequestHandler
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zvcore
from tests.stores.servers import web_server
from zvcore.errors import CorruptDataError
from zvcore.stores import open_store

if TYPE_CHECKING:
    from pathlib import Path

    from tests.stores.servers import S3, Proxy

SHAPE, CHUNK = (80, 72, 100), (32, 32, 32)
NBYTES = 2 * 32 * 32 * 32
VALUES = np.random.default_rng(5).integers(1, 60000, SHAPE).astype(np.uint16)

KINDS: dict[str, dict[str, Any]] = {
    "zarr3": {"format": "zarr3", "dtype": ">u2"},
    "zarr3 shards": {"format": "zarr3", "dtype": "<u2", "shards": (64, 64, 64)},
    "zarr2": {"format": "zarr2", "dtype": "<u2", "order": "F"},
    "precomputed": {"format": "precomputed", "dtype": "<u2"},
}


@pytest.fixture(params=KINDS)
def array(request: pytest.FixtureRequest, s3: S3) -> zvcore.Array:
    """The chunks behind the 64th item of its first axis are not stored."""
    url = s3.url(f"parts-{os.urandom(8).hex()}/a")
    kind = KINDS[request.param]
    made = zvcore.create(url, shape=SHAPE, chunks=CHUNK, codec=None, fill_value=0, storage_options=s3.options, **kind)
    made[:64] = values_of(made)[:64]
    found = zvcore.open(url, storage_options=s3.options)
    return found[0] if made.format == "precomputed" else found


def values_of(array: zvcore.Array) -> np.ndarray[Any, Any]:
    values = VALUES.copy()
    values[64:] = 0
    return values.reshape(array.shape)


def asked_for(proxy: Proxy) -> int:
    """How many bytes were asked for by ranges; what has none counts as a chunk."""
    total = 0
    for one in proxy.requests:
        found = re.fullmatch(r"(\d+)-(\d+)", one.range)
        if one.method == "GET" and not one.key.endswith(("json", "info")):
            total += int(found[2]) - int(found[1]) + 1 if found else NBYTES
    return total


SELECTIONS: list[Any] = [
    np.s_[3], np.s_[:, 5], np.s_[:, :, 7], np.s_[2:9, 3:30, 40:], np.s_[::5, 1::7, 2::3], np.s_[7, 8, 9],
    np.s_[60:80, 71, 99], np.s_[79], np.s_[::-3, ::-1], np.s_[0:32, 0:32, 0:32], np.s_[1:80, 0:72], np.s_[...],
]  # fmt: skip


def test_any_selection_gives_the_same_values(array: zvcore.Array) -> None:
    values = values_of(array)
    for selection in SELECTIONS:
        assert np.array_equal(array[selection], values[selection]), selection
    rng = np.random.default_rng(6)
    points = tuple(rng.integers(0, length, 9) for length in array.shape)
    assert np.array_equal(array.vindex[points], values[points])
    lists = tuple(np.unique(some) for some in points)
    assert np.array_equal(array.oindex[lists], values[np.ix_(*lists)])
    for _ in range(60):
        ends = [sorted(rng.integers(0, length + 1, 2)) for length in array.shape]
        box = tuple(slice(begin, end, rng.integers(1, 4)) for begin, end in ends)
        assert np.array_equal(array[box], values[box]), box


def test_no_more_comes_than_is_looked_at(array: zvcore.Array, proxy: Proxy) -> None:
    assert array[0, 0, 0].size == 1  # what a store finds out once
    first, last = (2, 0) if array.format in ("zarr2", "precomputed") else (0, 2)
    proxy.forget()
    plane = tuple([3 if axis == first else slice(None) for axis in range(array.ndim)])
    assert np.array_equal(array[plane], values_of(array)[plane])
    # Between the chunks of a shard, what is near to each other is asked for at once.
    share = 1 if array.shards else 8
    assert asked_for(proxy) * share < 3 * 4 * NBYTES, "a slice of each chunk"
    proxy.forget()
    line = tuple([slice(None) if axis == last else min(3, length - 1) for axis, length in enumerate(array.shape)])
    assert np.array_equal(array[line], values_of(array)[line])
    assert asked_for(proxy) * share < 4 * NBYTES, "a line of each chunk"


@pytest.mark.parametrize("size", [0, 5000, NBYTES - 1, NBYTES + 1])
def test_chunks_of_another_size_are_told_of(size: int, s3: S3) -> None:
    url = s3.url(f"parts-{os.urandom(8).hex()}")
    made = zvcore.create(
        f"{url}/a", format="zarr3", shape=SHAPE, dtype="u2", chunks=CHUNK, codec=None, storage_options=s3.options
    )
    made[...] = VALUES
    store = open_store(url, "w", s3.options)
    data = bytes(store.get("a/c/1/0/0") or b"")
    store.put("a/c/1/0/0", (data + b"!")[:size])
    array = zvcore.open(f"{url}/a", storage_options=s3.options)
    assert np.array_equal(array[3], VALUES[3])
    for plane in (32, 63):
        with pytest.raises(CorruptDataError) as caught:
            array[plane]
        assert caught.value.key == "c/1/0/0"
        assert caught.value.found == str(size)


def test_servers_that_know_no_ranges_send_all(tmp_path: Path) -> None:
    zvcore.create(tmp_path / "a", format="zarr3", data=VALUES, chunks=CHUNK, codec=None)
    with web_server(tmp_path, SimpleHTTPRequestHandler) as url:
        array = zvcore.open(f"{url}/a")
        for selection in SELECTIONS:
            assert np.array_equal(array[selection], VALUES[selection]), selection
