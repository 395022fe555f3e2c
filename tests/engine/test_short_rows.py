"""Chunks that share each cache line of the values with their neighbours: volumes of a series, channels, columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import tensorstore

import zvcore

if TYPE_CHECKING:
    from pathlib import Path

# Each of 4 MiB and more, and the last chunks along the other axes are cut.
SERIES = ((50, 45, 40, 19), (16, 16, 16, 1), "<f4")
SHAPES: dict[str, tuple[tuple[int, ...], tuple[int, ...], str]] = {
    "a series": SERIES,
    "a long series": ((40, 30, 20, 90), (16, 16, 16, 1), "u2"),
    "two at a time": ((40, 30, 32, 37), (16, 16, 16, 2), "<f4"),
    "colours": ((1200, 1300, 3), (256, 256, 1), "u1"),
    "components": ((90, 80, 70, 3), (32, 32, 32, 1), ">f4"),
    "columns": ((90_000, 7), (8192, 1), "<f8"),
    "odd items": ((90_000, 9), (8192, 1), "S5"),
    "complex numbers": ((40_000, 9), (8192, 1), ">c16"),
}
FORMATS: list[tuple[str, dict[str, Any]]] = [
    ("zarr3", {}),
    ("zarr2", {}),
    ("zarr2", {"order": "F"}),
    ("n5", {}),
]


def values_of(shape: tuple[int, ...], dtype: str) -> np.ndarray[Any, Any]:
    items = np.random.default_rng(8).integers(1, 250, int(np.prod(shape)), dtype="u1").astype(dtype)
    return items.reshape(shape)


def made(path: Path, name: str, format: str, options: dict[str, Any], codec: str) -> tuple[Any, Any]:
    shape, chunks, dtype = SHAPES[name]
    if format == "n5":
        dtype = dtype.lstrip("<>")
    array = zvcore.create(path, format=format, shape=shape, chunks=chunks, dtype=dtype, codec=codec, **options)
    values = values_of(shape, dtype)
    blank = tuple(slice(n, 2 * n) for n in chunks[:-1])
    values[blank] = np.zeros((), dtype)  # not stored
    values[(slice(0, chunks[0]), ..., 2)] = np.zeros((), dtype)  # and some of one column alone
    array[...] = values
    return array, values


@pytest.mark.parametrize("codec", ["raw", "zstd", "blosc"])
@pytest.mark.parametrize(
    ("name", "format", "options"),
    [
        (name, format, options)
        for name in SHAPES
        for format, options in FORMATS
        if format != "n5" or SHAPES[name][2] not in ("S5", ">c16")
    ],
)
def test_what_is_written_is_read(tmp_path: Path, name: str, format: str, options: Any, codec: str) -> None:
    array, values = made(tmp_path / "a", name, format, options, codec)
    regions = [np.s_[...], np.s_[3:], np.s_[:, 1:], np.s_[::-1], np.s_[..., 1:], np.s_[..., ::-1], np.s_[2::2]]
    for region in regions:
        assert np.array_equal(array[region], values[region]), region
    assert np.array_equal(array.read(threads=1), values)


@pytest.mark.parametrize("name", ["a series", "colours", "columns"])
def test_others_read_it(tmp_path: Path, name: str) -> None:
    _, values = made(tmp_path / "a", name, "zarr3", {}, "zstd")
    spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": str(tmp_path / "a")}}
    assert np.array_equal(tensorstore.open(spec).result().read().result(), values)


@pytest.mark.parametrize("order", ["C", "F"])
def test_a_result_with_gaps(tmp_path: Path, order: Any) -> None:
    array, values = made(tmp_path / "a", "a series", "zarr3", {}, "zstd")
    wide = np.full((*values.shape[:-1], 32), 7, "<f4", order=order)
    array.read(out=wide[..., 5:24])
    assert np.array_equal(wide[..., 5:24], values)
    assert (wide[..., :5] == 7).all()
    assert (wide[..., 24:] == 7).all()


@pytest.mark.parametrize("format", ["zarr3", "n5"])
@pytest.mark.parametrize("codec", ["raw", "zstd"])
def test_regions_keep_what_is_beside_them(tmp_path: Path, format: str, codec: str) -> None:
    """Some of the chunks are covered, some only in part."""
    array, values = made(tmp_path / "a", "a series", format, {}, codec)
    for region in (np.s_[1:], np.s_[:, 16:44], np.s_[..., 1:18], np.s_[16:32, ::-1], np.s_[:, :, 5:39, 3:17]):
        new = values_of(values[region].shape, values.dtype.str)[::-1]
        array[region] = new
        values[region] = new
        assert np.array_equal(zvcore.open(tmp_path / "a")[...], values), region


def test_a_value_for_all_and_what_need_not_be_stored(tmp_path: Path) -> None:
    array, values = made(tmp_path / "a", "a series", "zarr3", {}, "zstd")
    array[...] = 3
    assert (array[...] == 3).all()
    values[..., ::2] = 0
    array[...] = values
    assert np.array_equal(array[...], values)
    assert not (tmp_path / "a" / "c" / "0" / "0" / "0" / "0").exists()
    assert (tmp_path / "a" / "c" / "0" / "0" / "0" / "1").exists()


def test_a_damaged_chunk_is_the_one_that_is_named(tmp_path: Path) -> None:
    array, _ = made(tmp_path / "a", "a series", "zarr3", {}, "zstd")
    path = tmp_path / "a" / "c" / "0" / "2" / "1" / "7"
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(zvcore.errors.CorruptDataError, match="c/0/2/1/7"):
        array[...]


@pytest.mark.parametrize("extent", [(7, 16, 16, 1), (16, 20, 16, 1), (16, 16, 16, 3), (0, 16, 16, 1)])
def test_a_block_of_another_size_than_its_neighbours(tmp_path: Path, extent: tuple[int, ...]) -> None:
    """An N5 block says itself how large it is."""
    array, values = made(tmp_path / "a", "a series", "n5", {}, "raw")
    block = np.arange(1, np.prod(extent) + 1).astype(">f4").reshape(extent, order="F")
    header = np.array([0, 4], ">u2").tobytes() + np.array(extent, ">u4").tobytes()
    (tmp_path / "a" / "0" / "2" / "0" / "5").write_bytes(header + block.tobytes(order="F"))
    there = values[0:16, 32:45, 0:16, 5:6]
    there[...] = 0
    seen = tuple(slice(min(n, m)) for n, m in zip(extent, there.shape, strict=True))
    there[seen] = block[seen]
    assert np.array_equal(array[...], values)


def test_a_read_keeps_to_its_memory(tmp_path: Path) -> None:
    array, values = made(tmp_path / "a", "a series", "zarr3", {}, "zstd")
    assert np.array_equal(array.read(memory=1 << 16), values)
