"""Neighbouring chunks that are objects of their own, read together into a large result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zvcore
from zvcore.engine.selection import Selection

if TYPE_CHECKING:
    from pathlib import Path

# 5 MiB and more of bytes; the last chunks along each axis are cut, and the first axis has an odd number of chunks.
SHAPE = (210, 170, 150)
FORMATS: list[tuple[str, dict[str, Any]]] = [
    ("n5", {}),
    ("n5", {"pad_edges": True}),
    ("precomputed", {}),
    ("zarr3", {}),
    ("zarr2", {}),
    ("zarr2", {"order": "F"}),
]
REGIONS = (
    np.s_[...],
    np.s_[32:, :, :],
    np.s_[:192, 3:, 1:],
    np.s_[5:205, ::-1, :],
    np.s_[::-1],
    np.s_[::2, :, :],
)


def made(path: Path, format: str, options: dict[str, Any], codec: str, dtype: str = "u1") -> tuple[Any, Any]:
    chunk = 32 // np.dtype(dtype).itemsize
    array = zvcore.create(
        path, format=format, shape=SHAPE, dtype=dtype, chunks=(chunk, 32, chunk), codec=codec, **options
    )
    values = np.random.default_rng(8).integers(1, 250, array.shape).astype(dtype)
    values[64:128, 32:64, 64:96] = 0  # not stored, some of it beside chunks that are
    array[...] = values
    return array, values


@pytest.mark.parametrize("codec", ["raw", "gzip"])
@pytest.mark.parametrize(("format", "options"), FORMATS)
def test_a_large_result_has_the_values_of_each_chunk(
    tmp_path: Path, format: str, options: dict[str, Any], codec: str
) -> None:
    array, values = made(tmp_path / "a", format, options, codec)
    for region in REGIONS:
        assert np.array_equal(array[region], values[region]), region


@pytest.mark.parametrize("dtype", ["u1", "u2", "f4", "u8"])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("shift", [0, 32])
def test_the_result_may_lie_in_either_order(tmp_path: Path, dtype: str, order: Any, shift: int) -> None:
    array, values = made(tmp_path / "a", "precomputed", {}, "raw", dtype)
    memory = np.full(values.nbytes + 128, 0xEE, np.uint8)
    begin = -memory.ctypes.data % 64 + shift
    out = np.ndarray(values.shape, dtype, memory, begin, order=order)
    array.read(out=out)
    assert np.array_equal(out, values)
    assert (memory[:begin] == 0xEE).all()
    assert (memory[begin + values.nbytes :] == 0xEE).all()


@pytest.mark.parametrize("extent", [(7, 32, 32), (32, 32, 48), (80, 32, 32), (0, 32, 32)])
def test_a_block_of_another_size_than_its_neighbours_keeps_its_place(tmp_path: Path, extent: tuple[int, ...]) -> None:
    """An N5 block says itself how large it is."""
    array, values = made(tmp_path / "a", "n5", {}, "raw")
    block = np.arange(1, np.prod(extent) + 1).astype(np.uint8).reshape(extent, order="F")
    header = np.array([0, 3], ">u2").tobytes() + np.array(extent, ">u4").tobytes()
    (tmp_path / "a" / "3" / "1" / "1").write_bytes(header + block.tobytes(order="F"))
    expected = values.copy()
    there = expected[96:128, 32:64, 32:64]
    there[...] = 0
    seen = tuple(slice(min(n, 32)) for n in extent)
    there[seen] = block[seen]
    assert np.array_equal(array[...], expected)


@pytest.mark.parametrize("missing", [2, 3])
def test_the_block_that_is_damaged_is_the_one_that_is_named(tmp_path: Path, missing: int) -> None:
    array, _ = made(tmp_path / "a", "n5", {}, "gzip")
    path = tmp_path / "a" / str(missing) / "0" / "0"
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(zvcore.errors.CorruptDataError, match=f"{missing}/0/0"):
        array[...]


def test_positions_can_follow_either_order() -> None:
    selection = Selection.basic(np.s_[10:90, 5:25, :], (100, 30, 20))
    forward = selection.positions((30, 10, 20))
    backward = selection.positions((30, 10, 20), reversed=True)
    assert forward.tolist() == sorted(forward.tolist())
    assert backward.tolist() == sorted(forward.tolist(), key=lambda position: position[::-1])
