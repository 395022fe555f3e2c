"""Single chunks read one after the other, by what is kept of the reads before."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import zarr

import zvcore
from tests.processes import PATIENCE
from zvcore.engine.selection import Selection
from zvcore.engine.work import Work
from zvcore.errors import CorruptDataError
from zvcore.stores.indexes import index_cache
from zvcore.stores.open_files import pool
from zvcore.transfer import reading

if TYPE_CHECKING:
    from pathlib import Path

    from zvcore.array import Array

SHAPE = (37, 30, 41)
DATA = np.random.default_rng(0).integers(0, 4000, SHAPE, np.uint16)
CHUNK = (slice(8, 16), slice(0, 8), slice(16, 24))


def make(path: Path, **options: Any) -> Array:
    codec = options.pop("codec", "raw")
    array = zvcore.create(
        path, format="zarr3", shape=SHAPE, dtype="u2", chunks=(8, 8, 8), shards=(16, 16, 24), codec=codec, **options
    )
    array[...] = DATA
    return array


def is_kept(array: Array, key: Any) -> bool:
    """Whether a read of this selection goes the short way."""
    selection = Selection.basic(key, array.shape)
    layout = array.layout
    assert layout.open_shards is not None
    out = np.zeros(selection.result_shape, array.dtype)
    if layout.open_shards.read(layout.prepared, selection, out, Work()) is None:
        return False
    assert np.array_equal(out, array[key])
    return True


def warm(array: Array, key: Any) -> None:
    """Read until the shard is kept: not before its file is a few milliseconds old."""
    until = time.monotonic() + PATIENCE
    while not is_kept(array, key):
        assert time.monotonic() < until
        array[key]
        time.sleep(0.002)


@pytest.mark.parametrize("codec", ["raw", "gzip", "zstd", "blosc", ("gzip", "zstd")])
@pytest.mark.parametrize("edge", ["start", "end"])
def test_every_part_of_a_chunk_reads_as_numpy_does(tmp_path: Path, codec: Any, edge: str) -> None:
    array = make(tmp_path / "a", codec=codec, index_location=edge)
    keys: list[Any] = [
        CHUNK,
        (9, 1, 17),
        (slice(9, 15), slice(None, 5), 20),
        (slice(15, 8, -3), 2, slice(16, 24, 2)),
        (slice(32, None), slice(24, 99), slice(40, None)),
        (..., slice(8, 16), slice(0, 8), slice(0, 8))[1:],
    ]
    for key in keys:
        warm(array, key)
        assert np.array_equal(array[key], DATA[key])
    out = np.zeros((16, 8, 16), np.uint16)[::2, :, ::2]
    array.read(CHUNK, out)
    assert np.array_equal(out, DATA[CHUNK])


def test_stored_in_another_byte_order_and_order_of_axes(tmp_path: Path) -> None:
    codecs = [zarr.codecs.TransposeCodec(order=(2, 0, 1)), zarr.codecs.BytesCodec(endian="big")]
    sharding = zarr.codecs.ShardingCodec(chunk_shape=(8, 8, 8), codecs=[*codecs, zarr.codecs.ZstdCodec()])
    other = zarr.create_array(
        tmp_path / "a", shape=SHAPE, dtype="u2", chunks=(16, 16, 24), serializer=sharding, compressors=None
    )
    other[...] = DATA
    array = zvcore.open(tmp_path / "a")
    warm(array, CHUNK)
    assert np.array_equal(array[CHUNK], DATA[CHUNK])


def test_the_short_way_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    array = make(tmp_path / "a")
    warm(array, CHUNK)

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("a batch was planned")

    monkeypatch.setattr(reading, "read_chunks", refuse)
    assert np.array_equal(array[CHUNK], DATA[CHUNK])
    with pytest.raises(AssertionError, match="planned"):
        array[:9]


def test_chunks_that_are_not_stored(tmp_path: Path) -> None:
    array = zvcore.create(
        tmp_path / "a", format="zarr3", shape=SHAPE, dtype="u2", chunks=(8, 8, 8), shards=(16, 16, 24), fill_value=7
    )
    array[0:8, 0:8, 0:8] = 1
    warm(array, CHUNK)
    assert (array[CHUNK] == 7).all()
    assert (array[32:, 24:, 24:] == 7).all()


@pytest.mark.parametrize("mode", ["rewrite", "append", "inplace"])
def test_what_others_write_is_seen_at_once(tmp_path: Path, mode: Any) -> None:
    make(tmp_path / "a")
    array = zvcore.open(tmp_path / "a")
    other = zvcore.open(tmp_path / "a", mode="r+", write_mode=mode)
    for value in range(30):
        if value % 3 == 0:
            warm(array, CHUNK)
        other[CHUNK] = value
        assert (array[CHUNK] == value).all()
    outside = DATA.copy()
    outside[CHUNK] = 29
    assert np.array_equal(array[...], outside)


def test_a_shard_that_goes_and_comes_back(tmp_path: Path) -> None:
    array = make(tmp_path / "a")
    warm(array, CHUNK)
    shard = tmp_path / "a" / "c" / "0" / "0" / "0"
    kept = shard.read_bytes()
    shard.unlink()
    assert (array[CHUNK] == 0).all()
    shard.write_bytes(kept)
    assert np.array_equal(array[CHUNK], DATA[CHUNK])


def test_damage_is_reported_as_in_the_ordinary_way(tmp_path: Path) -> None:
    array = make(tmp_path / "a", codec="zstd")
    warm(array, CHUNK)
    shard = tmp_path / "a" / "c" / "0" / "0" / "0"
    data = bytearray(shard.read_bytes())
    offset, length = (int(one) for one in (array.layout.locate(np.array([[1, 0, 2]])).offset[0], 4))
    data[offset : offset + length] = b"\xff" * length
    shard.write_bytes(data)
    with pytest.raises(CorruptDataError) as damage:
        array[CHUNK]
    assert damage.value.key == "c/0/0/0"
    assert damage.value.chunk == (1, 0, 2)
    assert damage.value.offset == offset
    warm(array, (slice(0, 8), slice(0, 8), slice(0, 8)))
    with pytest.raises(CorruptDataError, match="zstd") as again:
        array[CHUNK]
    assert str(again.value) == str(damage.value)
    os.truncate(shard, 100)
    with pytest.raises(CorruptDataError):
        array[CHUNK]


def test_neither_files_nor_indexes_are_held(tmp_path: Path) -> None:
    array = make(tmp_path / "a")
    warm(array, CHUNK)
    pool.clear()
    assert not is_kept(array, CHUNK)
    assert f"{tmp_path}" not in "".join(os.readlink(f"/proc/self/fd/{one}") for one in _descriptors())
    warm(array, CHUNK)
    index_cache().clear()
    assert not is_kept(array, CHUNK)
    assert np.array_equal(array[CHUNK], DATA[CHUNK])


def _descriptors() -> list[str]:
    found = []
    for name in os.listdir("/proc/self/fd"):
        try:
            os.readlink(f"/proc/self/fd/{name}")
        except FileNotFoundError:
            continue
        found.append(name)
    return found


def test_a_child_process_reads_on(tmp_path: Path) -> None:
    array = make(tmp_path / "a", codec="gzip")
    warm(array, CHUNK)
    child = os.fork()
    if child == 0:
        right = all(np.array_equal(array[CHUNK], DATA[CHUNK]) for _ in range(20))
        os._exit(0 if right else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_objects_read_under_a_lock_are_opened_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    array = make(tmp_path / "a")
    warm(array, CHUNK)
    planned = []
    plan = reading.read_chunks
    monkeypatch.setattr(reading, "read_chunks", lambda *args, **named: (planned.append(1), plan(*args, **named)))
    with array.layout.store.lock("c/0/0/0"):
        assert np.array_equal(array[CHUNK], DATA[CHUNK])
    assert planned


def test_a_grid_position_has_whole_numbers(tmp_path: Path) -> None:
    """Fractions were cut, so that another chunk was written."""
    array = zvcore.create(tmp_path / "a", format="zarr3", shape=(8, 8), dtype="u1", chunks=(4, 4))
    for call in (array.read_block, array.block_exists, array.read_encoded, array.delete_block):
        for wrong in ((0.5, 0), ("0", 0), "ab"):
            with pytest.raises(TypeError, match="a grid position has whole numbers"):
                call(wrong)
    with pytest.raises(TypeError, match="a grid position has whole numbers"):
        array.write_block((1.5, 0), np.ones((4, 4)))
    array.write_block(np.array([1, 0]), np.ones((4, 4)))
    assert array.block_exists((np.int64(1), np.uint8(0)))
