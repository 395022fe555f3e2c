"""Coarser values that are made chunk by chunk: as those that are made of all values, whatever lies in the chunks."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zvcore
from zvcore.converting.coarse import CoarseView, downsampled
from zvcore.converting.view import View, make_view, parse_region, whole
from zvcore.engine.chunks import Chunks
from zvcore.engine.coarse import read_coarser
from zvcore.engine.work import Work
from zvcore.errors import CorruptDataError
from zvcore.format import get_format
from zvcore.kernels.downsample import downsample_mean
from zvcore.stores import MemoryStore

if TYPE_CHECKING:
    from pathlib import Path

ZARR3: dict[str, Any] = {"format": "zarr3", "codec": "zstd"}
# Ways in which chunks lie in memory and in objects, by what creates an array of them.
WAYS: dict[str, dict[str, Any]] = {
    "raw": {**ZARR3, "codec": "raw"},
    "zstd": ZARR3,
    "gzip": {**ZARR3, "codec": "gzip"},
    "sharded": {**ZARR3, "shards": 2},
    "big-endian": {**ZARR3, "endian": "big"},
    "N5": {"format": "n5", "codec": "gzip"},
    "Zarr v2": {"format": "zarr2", "codec": "zstd"},
    "Zarr v2 in F order": {"format": "zarr2", "codec": "zstd", "order": "F"},
}


def made(tmp_path: Path, way: str, values: Any, chunks: tuple[int, ...], fill: Any = 0) -> zvcore.Array:
    options = dict(WAYS[way])
    if "shards" in options:
        options["shards"] = tuple(options["shards"] * chunk for chunk in chunks)
    array = zvcore.create(
        tmp_path / "a", shape=values.shape, dtype=values.dtype, chunks=chunks, fill_value=fill, **options
    )
    array[...] = values
    return array


def checked(view: View, factors: tuple[int, ...], method: str, box: Any = None) -> None:
    box = box or tuple((0, extent) for extent in view.shape)
    expected = downsampled(view.read(box)[0], factors, method)
    for threads in (1, 3):
        found = view.read_coarser(box, factors, method == "mode", threads)
        assert found is not None
        assert found[0].dtype == expected.dtype
        np.testing.assert_array_equal(found[0], expected)
        assert found[1] == view.read(box)[1]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("dtype", ["u1", "i2", "u4", "i8", "f4", "f8"])
def test_as_made_of_all_values(tmp_path: Path, way: str, dtype: str) -> None:
    rng = np.random.default_rng(len(way))
    values = rng.integers(0, 5, (21, 10, 13)).astype(dtype) * 20
    fill = 0 if way == "N5" else 7
    values[:8] = fill
    array = made(tmp_path, way, values, (4, 8, 6), fill)
    assert array.read_block((0, 0, 0)) is None
    assert not array.block_exists((0, 0, 0))
    for factors in ((2, 2, 2), (1, 1, 1), (4, 1, 3), (1, 8, 2)):
        checked(whole(array), factors, "mean")
        if array.dtype.kind != "f":
            checked(whole(array), factors, "mode")


def test_one_to_five_axes(tmp_path: Path) -> None:
    values = np.random.default_rng(0).integers(0, 1000, (3, 2, 9, 10, 11)).astype("u2")
    for ndim in range(1, 6):
        part = values[(0,) * (5 - ndim)]
        array = made(tmp_path / str(ndim), "zstd", part, (2, 1, 4, 4, 4)[5 - ndim :])
        for factors in ((1, 1, 2, 2, 2), (1, 1, 1, 2, 4), (1, 1, 4, 1, 1)):
            checked(whole(array), factors[5 - ndim :], "mean")
    # Axes that are not the fastest three.
    box = tuple((0, extent) for extent in values.shape)
    assert whole(array).read_coarser(box, (1, 2, 2, 2, 2), False) is None


def test_boxes_and_regions_of_whole_chunks(tmp_path: Path) -> None:
    values = np.random.default_rng(0).integers(0, 1000, (20, 20, 20)).astype("u2")
    array = made(tmp_path, "sharded", values, (4, 4, 4))
    checked(whole(array), (2, 2, 2), "mean", ((4, 12), (0, 20), (16, 20)))
    region = make_view(array, get_format("n5"), parse_region(np.s_[8:16, 4:20, 12:20], array.shape))
    checked(region, (2, 2, 2), "mean")
    checked(region, (2, 4, 1), "mode", ((4, 8), (0, 16), (0, 4)))
    plane = make_view(array, get_format("zarr3"), parse_region(np.s_[4], array.shape))
    for view, box, factors in (
        (whole(array), ((2, 12), (0, 20), (0, 20)), (2, 2, 2)),  # cuts chunks
        (whole(array), ((0, 10), (0, 20), (0, 20)), (2, 2, 2)),
        (whole(array), ((0, 20),) * 3, (3, 2, 2)),  # boxes that lie in two chunks
        (plane, ((0, 20),) * 2, (2, 2)),  # one plane of a chunk
    ):
        assert view.read_coarser(box, factors, False) is None
        expected = downsampled(view.read(box)[0], factors, "mean")
        got, _ = CoarseView(view, factors, "mean", 1 << 20).read(
            tuple((a // f, -(-b // f)) for (a, b), f in zip(box, factors, strict=True))
        )
        np.testing.assert_array_equal(got, expected)


def test_types_that_have_none(tmp_path: Path) -> None:
    for dtype in ("f2", "?", "c8"):
        array = made(tmp_path / dtype.replace("?", "b"), "zstd", np.zeros((8, 8), dtype), (4, 4))
        assert whole(array).read_coarser(((0, 8), (0, 8)), (2, 2), False) is None
    array = made(tmp_path / "f4", "zstd", np.zeros((8, 8), "f4"), (4, 4))
    assert whole(array).read_coarser(((0, 8), (0, 8)), (2, 2), True) is None


def test_two_labels_and_more_in_one_box() -> None:
    rng = np.random.default_rng(3)
    for dtype in ("i1", "u2", "i4", "u8"):
        few = np.array([-3 if dtype[0] == "i" else 250, 0, 5, 1], dtype)
        for count in (2, 3, 4):
            values = few[rng.integers(0, count, (16, 16, 16))]
            boxes = values.reshape(8, 2, 8, 2, 8, 2).transpose(0, 2, 4, 1, 3, 5).reshape(-1, 8)
            times = [[(-(row == one).sum(), one) for one in row] for row in boxes]
            expected = np.array([min(row)[1] for row in times], dtype).reshape(8, 8, 8)
            np.testing.assert_array_equal(downsampled(values, (2, 2, 2), "mode"), expected)


def test_a_damaged_chunk_is_told_of(tmp_path: Path) -> None:
    array = made(tmp_path, "gzip", np.arange(64, dtype="u2").reshape(8, 8), (4, 4))
    path = tmp_path / "a" / "c" / "1" / "0"
    path.write_bytes(path.read_bytes()[:-5] + b"12345")
    with pytest.raises(CorruptDataError, match="c/1/0"):
        whole(array).read_coarser(((0, 8), (0, 8)), (2, 2), False)


def test_arrays_in_memory() -> None:
    store = MemoryStore()
    values = np.random.default_rng(0).integers(0, 1000, (40, 40)).astype("u2")
    array = zvcore.create(store, format="zarr3", shape=(40, 40), dtype="u2", chunks=(8, 8))
    array[...] = values
    checked(whole(array), (2, 2), "mean")


def test_what_would_leave_the_values_is_refused(tmp_path: Path) -> None:
    array = made(tmp_path, "raw", np.zeros((8, 9), "u2"), (4, 4))
    layout = array.layout

    def read(out: Any, first: Any = (0, 0), factors: Any = (2, 2), positions: Any = ((0, 0), (1, 2))) -> None:
        places = np.array(positions, np.int64)
        read_coarser(
            Chunks(layout.prepared, places, layout.locate(places)), out, first, factors, False, Work()
        )  # fmt: skip

    read(np.zeros((4, 5), "u2"))
    for wrong in (
        {"out": np.zeros((4, 4), "u2")},
        {"out": np.zeros((3, 5), "u2")},
        {"out": np.zeros((4, 5), "u2"), "first": (1, 0)},
        {"out": np.zeros((4, 5), "u2"), "factors": (2, 3)},
        {"out": np.zeros((4, 5), "u2"), "factors": (0, 2)},
        {"out": np.zeros((4, 5), "u2"), "factors": (2,)},
        {"out": np.zeros((5, 4), "u2").T},
        {"out": np.zeros((4, 5), "u2"), "positions": ((0, 0), (2, 0))},
        {"out": np.zeros((4, 5), "u2"), "positions": ((-1, 0),)},
        {"out": np.zeros((4, 5), "u4")},
    ):
        with pytest.raises(ValueError, match=r"chunks|factors|values|coarser"):
            read(**wrong)
    for dtype in (">u2", "c8", "?"):
        with pytest.raises(TypeError, match="nothing coarser"):
            read(np.zeros((4, 5), dtype))


def slow_mean(values: Any, factors: tuple[int, ...]) -> Any:
    found = np.empty([-(-n // factor) for n, factor in zip(values.shape, factors, strict=True)], values.dtype)
    for place in np.ndindex(*found.shape):
        box = values[tuple(slice(i * factor, (i + 1) * factor) for i, factor in zip(place, factors, strict=True))]
        if values.dtype.kind == "f":
            found[place] = box.astype("f8").mean()
        else:
            found[place] = round(Fraction(sum(map(int, box.ravel())), box.size))
    return found


def slow_mode(values: Any, factors: tuple[int, ...]) -> Any:
    found = np.empty([-(-n // factor) for n, factor in zip(values.shape, factors, strict=True)], values.dtype)
    for place in np.ndindex(*found.shape):
        box = values[tuple(slice(i * factor, (i + 1) * factor) for i, factor in zip(place, factors, strict=True))]
        items, counts = np.unique(box, return_counts=True)
        found[place] = items[counts == counts.max()].min()
    return found


@pytest.mark.parametrize("dtype", ["u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f2", "f4", "f8"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_any_axes_by_any_factors(dtype: str, order: Any) -> None:
    """Axes that stay as they are in front, between and behind those that do not; boxes that are cut; large values."""
    rng = np.random.default_rng(12)
    for _ in range(40):
        shape = tuple(rng.integers(1, 8, rng.integers(1, 6)))
        factors = np.ones(len(shape), int)
        for axis in rng.choice(len(shape), min(len(shape), rng.integers(1, 4)), replace=False):
            factors[axis] = rng.integers(2, 5)
        steps = tuple(factors.tolist())
        if dtype[0] == "f":
            values = rng.integers(-120, 120, shape).astype(dtype, order=order)
            found = downsampled(values, steps, "mean", 2)
            assert np.allclose(found, slow_mean(values, steps), rtol=1e-3 if dtype == "f2" else 1e-6), (shape, steps)
            continue
        ends = np.iinfo(dtype)
        values = rng.integers(ends.min, ends.max, shape, dtype, endpoint=True).astype(dtype, order=order)
        assert np.array_equal(downsampled(values, steps, "mean", 2), slow_mean(values, steps)), (shape, steps)
        few = np.array([ends.min, 0, ends.max], dtype)[rng.integers(0, 3, shape)].astype(dtype, order=order)
        assert np.array_equal(downsampled(few, steps, "mode", 2), slow_mode(few, steps)), (shape, steps)


def test_long_lines_of_many_values_at_a_place() -> None:
    """More than are added at a time."""
    rng = np.random.default_rng(3)
    for shape, factors in (((4, 3, 900, 7), (2, 2, 2, 1)), ((2, 5, 3000), (1, 2, 1)), ((5, 1700, 9), (2, 3, 1))):
        for dtype in ("u1", "u2", "u4", "f4"):
            values = rng.integers(0, 250, shape).astype(dtype)
            assert np.allclose(downsampled(values, factors, "mean"), slow_mean(values, factors)), (shape, dtype)


def test_more_values_at_a_place_than_are_added_at_once() -> None:
    values = np.random.default_rng(4).integers(0, 250, (3, 4, 40_000)).astype("u1")
    expected = np.rint(values.reshape(3, 2, 2, 40_000).mean(axis=2, dtype="f8"))
    assert np.array_equal(downsampled(values, (1, 2, 1), "mean"), expected)
    found = np.zeros((1, 3, 2, 40_000), "u1")
    downsample_mean(values[np.newaxis], found, (1, 2, 1))
    assert np.array_equal(found[0], expected)
    with pytest.raises(ValueError, match="more than 65536"):
        downsample_mean(values.reshape(1, 3, 1, 160_000), found.reshape(1, 3, 1, 80_000), (1, 1, 2), 40_000)
