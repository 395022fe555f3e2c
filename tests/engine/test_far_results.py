"""Results too large for the caches are written past them, in whole lines: the values are the same as ever."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zvcore

if TYPE_CHECKING:
    from pathlib import Path

SHAPE = (40, 400, 512)  # 8 MiB of bytes: twice of what is written past the caches


def stored(path: Path, dtype: str, chunks: tuple[int, ...], codec: str, shape: tuple[int, ...] = SHAPE) -> Any:
    shards = tuple(4 * n for n in chunks)
    array = zvcore.create(path, format="zarr3", shape=shape, dtype=dtype, chunks=chunks, shards=shards, codec=codec)
    values = np.random.default_rng(5).integers(0, 250, shape).astype(dtype)
    values[3:9, 32:64, 64:192] = 0  # chunks that are not stored
    array[...] = values
    return array, values


def aligned(shape: tuple[int, ...], dtype: np.dtype[Any], offset: int, order: Any = "C") -> np.ndarray[Any, Any]:
    """An array that begins so many bytes after a line of the caches."""
    nbytes = int(np.prod(shape)) * dtype.itemsize
    memory = np.full(nbytes + 128, 0xEE, np.uint8)
    return np.ndarray(shape, dtype, memory, -memory.ctypes.data % 64 + offset, order=order)


@pytest.mark.parametrize("codec", ["raw", "zstd", "blosc"])
@pytest.mark.parametrize(
    ("dtype", "chunks"),
    [
        ("u1", (8, 32, 16)),
        ("u1", (8, 32, 32)),
        ("u1", (8, 16, 64)),
        ("u1", (8, 16, 48)),
        ("u2", (4, 16, 16)),
        ("<f4", (4, 16, 8)),
        (">u2", (4, 16, 32)),
        (">u2", (4, 16, 48)),
        (">i4", (4, 16, 32)),
        (">f8", (2, 16, 16)),
        (">c8", (2, 16, 16)),
        (">c16", (2, 16, 16)),
        ("u8", (2, 8, 32)),
    ],
)
def test_a_large_result_has_the_values_of_a_small_one(tmp_path: Path, codec: str, dtype: str, chunks: Any) -> None:
    array, values = stored(tmp_path / "a", dtype, chunks, codec)
    assert np.array_equal(array[...], values)
    for region in (
        np.s_[:, :, 64:448],
        np.s_[1:39, 5:390, 3:500],
        np.s_[:, ::2, :],
        np.s_[:, :, ::-1],
        np.s_[:, :, 32:],
    ):
        assert np.array_equal(array[region], values[region]), region


@pytest.mark.parametrize("offset", [0, 1, 16, 32, 48, 63])
def test_results_may_begin_anywhere(tmp_path: Path, offset: int) -> None:
    array, values = stored(tmp_path / "a", "u1", (8, 32, 32), "raw")
    out = aligned(SHAPE, np.dtype("u1"), offset)
    memory = out.base
    array.read(out=out)
    assert np.array_equal(out, values)
    begin = -memory.ctypes.data % 64 + offset
    assert (memory[:begin] == 0xEE).all()
    assert (memory[begin + values.size :] == 0xEE).all()


@pytest.mark.parametrize("width", [500, 520, 544, 576])
def test_lines_of_the_result_need_not_be_whole_lines_of_the_caches(tmp_path: Path, width: int) -> None:
    array, values = stored(tmp_path / "a", "u1", (8, 32, 32), "raw", (40, 400, width))
    out = aligned(values.shape, np.dtype("u1"), 0)
    assert np.array_equal(array.read(out=out), values)


def test_results_in_the_order_of_columns_and_with_gaps(tmp_path: Path) -> None:
    array, values = stored(tmp_path / "a", "u1", (8, 32, 32), "raw")
    assert np.array_equal(array.read(out=aligned(SHAPE, np.dtype("u1"), 0, "F")), values)
    wide = aligned((40, 400, 1024), np.dtype("u1"), 0)
    array.read(out=wide[:, :, 256:768])
    assert np.array_equal(wide[:, :, 256:768], values)
    assert (wide[:, :, :256] == 0xEE).all()
    assert (wide[:, :, 768:] == 0xEE).all()


def test_a_damaged_chunk_among_neighbours_is_the_one_that_is_named(tmp_path: Path) -> None:
    array, _ = stored(tmp_path / "a", "u1", (8, 32, 32), "gzip")
    shard = tmp_path / "a" / "c" / "1" / "0" / "0"
    content = bytearray(shard.read_bytes())
    content[2000:2010] = bytes(10)
    shard.write_bytes(content)
    with pytest.raises(zvcore.errors.CorruptDataError) as caught:
        array[...]
    assert "c/1/0/0" in str(caught.value)
    assert [problem.where for problem in zvcore.verify(tmp_path / "a").problems] == ["c/1/0/0"]


def test_the_memory_of_a_large_result_begins_with_a_line(tmp_path: Path) -> None:
    array, _ = stored(tmp_path / "a", "u1", (8, 32, 32), "raw")
    assert array[...].ctypes.data % 64 == 0
    assert array[...].flags.c_contiguous
    assert array[...].flags.writeable


@pytest.mark.parametrize("codec", ["raw", "zstd"])
@pytest.mark.parametrize("threads", [1, 2])
def test_chunks_as_wide_as_the_result_are_read_into_it(tmp_path: Path, codec: str, threads: int) -> None:
    """Some are not stored, the last ones are cut, and what lies around the result stays as it is."""
    array, values = stored(tmp_path / "a", "u2", (3, 400, 512), codec)
    out = aligned((50, 400, 512), np.dtype("u2"), 2)
    assert np.array_equal(array.read(out=out[5:45], threads=threads), values)
    assert np.array_equal(array.read(np.s_[2:31], out=out[5:34], threads=threads), values[2:31])
    assert (out[:5] == 0xEEEE).all()
    assert (out[45:] == 0xEEEE).all()


def test_a_raw_chunk_that_is_cut_off_is_an_error(tmp_path: Path) -> None:
    array, _ = stored(tmp_path / "a", "u2", (3, 400, 512), "raw")
    shard = tmp_path / "a" / "c" / "0" / "0" / "0"
    content = shard.read_bytes()
    index = np.frombuffer(content[-4 - 16 * 64 : -4], "<u8")  # 4^3 chunks, of which a few are there
    assert index.size == 128
    shard.write_bytes(content[: 400 * 512] + content[-4 - 16 * 64 :])
    with pytest.raises(zvcore.errors.CorruptDataError, match="c/0/0/0"):
        array[...]
