"""Block moves against what numpy does with the same views."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from zvcore.kernels import blocks, cpu

if TYPE_CHECKING:
    from collections.abc import Iterator

Array = npt.NDArray[Any]

# Every item size with every unit that is swapped as one, and sizes that no single machine word has.
SWAPPABLE = ["u1", "?", "S3", "u2", "f2", "f4", "U1", "u8", "c8", "M8[s]", "S12", "c16", "U4", "S17", "g", "G"]
DTYPES = [*SWAPPABLE, "V24", "V3", "V6", "V8"]


def random_items(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Array:
    """An array whose items are arbitrary bytes."""
    return np.frombuffer(rng.bytes(int(np.prod(shape)) * np.dtype(dtype).itemsize), dtype).reshape(shape).copy()


def one_item(rng: np.random.Generator, dtype: str) -> Array:
    """Arbitrary bytes where the dtype allows them."""
    if np.dtype(dtype).kind in "U?":
        return np.array("\u00e9" if np.dtype(dtype).kind == "U" else True, dtype)
    return random_items(rng, (), dtype)


def as_bytes(array: Array) -> Array:
    """The same view with its items' bytes as a last axis: comparing these sees padding and the payload of NaNs."""
    strides = (*array.strides, 1)
    interface = {
        "version": 3,
        "shape": (*array.shape, array.itemsize),
        "typestr": "|u1",
        "strides": strides,
        "data": array.__array_interface__["data"],
    }
    holder = type("Holder", (), {"__array_interface__": interface, "owner": array})()
    return np.asarray(holder)


def swapped(array: Array) -> Array:
    """The bytes of the items, reversed as the dtype asks for: the slow oracle."""
    items = np.ascontiguousarray(as_bytes(array))
    unit = {"c": array.itemsize // 2, "U": 4, "S": 1, "?": 1, "b": 1}.get(array.dtype.kind, array.itemsize)
    return items.reshape(*array.shape, array.itemsize // unit, unit)[..., ::-1].reshape(items.shape)


@st.composite
def views(draw: st.DrawFn, shape: tuple[int, ...], dtype: str, broadcast: bool) -> tuple[Array, Array]:
    """(a larger array, a view of it that has `shape`): axes permuted, reversed, stepped and, if asked, repeated."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    order = draw(st.permutations(range(len(shape))))
    base_shape = [0] * len(shape)
    parts: list[slice] = []
    size = int(np.prod(np.maximum(shape, 1)))
    for axis, n in enumerate(shape):
        step = draw(st.sampled_from([1, 1, 1, 1, 2, 3]))
        margin = draw(st.sampled_from([0, 0, 1, 2]))
        if broadcast and draw(st.integers(0, 5)) == 0:
            n, step = 1, 1
        if size * (n * step + margin) > 50_000 * max(n, 1):
            step, margin = 1, 0
        size = size * max(n * step + margin, 1) // max(n, 1)
        base_shape[order[axis]] = n * step + margin
        parts.append(slice(margin, margin + n * step, step))
    base = random_items(rng, tuple(base_shape), dtype)
    view = base.transpose(order)[tuple(parts)] if shape else base
    for axis in range(len(shape)):
        if draw(st.integers(0, 3)) == 0:
            view = np.flip(view, axis)
    return base, np.broadcast_to(view, shape)[...] if view.shape != shape else view


@st.composite
def shapes(draw: st.DrawFn) -> tuple[int, ...]:
    extent = st.one_of(st.integers(1, 4), st.integers(0, 20), st.sampled_from([16, 17, 31, 33, 64, 70, 129, 600]))
    shape = draw(st.lists(extent, max_size=5))
    # Axes of no items count as well: the larger arrays around such views are not empty.
    while np.prod(np.maximum(shape, 1), dtype=np.int64) > 10_000:
        shape[shape.index(max(shape))] //= 4
    return tuple(shape)


def positions_of(base: Array, view: Array) -> Array:
    """Which items of `base` belong to `view`."""
    mask = np.zeros(base.shape, bool)
    if view.size:
        place: Any = (view.__array_interface__["data"][0] - base.__array_interface__["data"][0]) // base.itemsize
        for n, stride in zip(view.shape, view.strides, strict=True):
            place = np.add.outer(place, np.arange(n) * (stride // base.itemsize))
        mask.reshape(-1)[place] = True
    return mask


def on_every_path() -> Iterator[str]:
    before = cpu.simd_path()
    for path in cpu.available_paths():
        cpu.force_path(path)
        yield path
    cpu.force_path(before)


@examples(200)
@given(st.data(), shapes(), st.booleans())
def test_copy_moves_every_item_and_nothing_else(data: st.DataObject, shape: tuple[int, ...], swap: bool) -> None:
    dtype = data.draw(st.sampled_from(SWAPPABLE if swap else DTYPES))
    base, dst = data.draw(views(shape, dtype, broadcast=False))
    _, src = data.draw(views(shape, dtype, broadcast=True))
    wanted = swapped(src) if swap else as_bytes(src).copy()
    outside = ~positions_of(base, dst)
    before = as_bytes(base).copy()
    for path in on_every_path():
        as_bytes(base)[...] = before
        blocks.copy(dst, src, swap)
        np.testing.assert_array_equal(as_bytes(dst), wanted, err_msg=path)
        np.testing.assert_array_equal(as_bytes(base)[outside], before[outside], err_msg=path)


@given(st.data(), shapes(), st.sampled_from(DTYPES))
def test_fill_sets_every_item_and_nothing_else(data: st.DataObject, shape: tuple[int, ...], dtype: str) -> None:
    base, dst = data.draw(views(shape, dtype, broadcast=False))
    value = one_item(np.random.default_rng(data.draw(st.integers(0, 99))), dtype)
    outside = ~positions_of(base, dst)
    before = as_bytes(base).copy()
    for path in on_every_path():
        as_bytes(base)[...] = before
        blocks.fill(dst, value)
        wanted = np.broadcast_to(as_bytes(value), as_bytes(dst).shape)
        np.testing.assert_array_equal(as_bytes(dst), wanted, err_msg=path)
        np.testing.assert_array_equal(as_bytes(base)[outside], before[outside], err_msg=path)


@pytest.mark.parametrize("dtype", SWAPPABLE)
@pytest.mark.parametrize("swap", [False, True])
def test_every_order_of_axes_in_and_out(simd_path: str, dtype: str, swap: bool) -> None:
    rng = np.random.default_rng(3)
    chunk = random_items(rng, (37, 5, 70), dtype)
    for order in itertools.permutations(range(3)):
        view = chunk.transpose(order)
        frame = random_items(rng, tuple(n + 3 for n in view.shape), dtype)
        part = frame[tuple(slice(2, 2 + n) for n in view.shape)]
        wanted = swapped(view) if swap else as_bytes(view).copy()
        blocks.copy(part, view, swap)
        np.testing.assert_array_equal(as_bytes(part), wanted, err_msg=f"into an array, {order}")
        blocks.fill(chunk, np.zeros((), dtype))
        blocks.copy(view, part, swap)
        np.testing.assert_array_equal(as_bytes(view), swapped(part) if swap else wanted, err_msg=f"out of it, {order}")


@pytest.mark.parametrize("dtype", ["u1", "u2", "u4", "f8", "c16", "V3", "V24", "S5"])
@pytest.mark.parametrize("shape", [(70, 3), (3, 70), (2000, 3), (4, 900), (33, 2, 3), (2, 65, 4), (200, 130)])
def test_channels_and_long_planes(simd_path: str, dtype: str, shape: tuple[int, ...]) -> None:
    src = random_items(np.random.default_rng(4), shape, dtype)
    for order in itertools.permutations(range(len(shape))):
        view = src.transpose(order)
        dst = np.zeros(view.shape, dtype)
        blocks.copy(dst, view)
        np.testing.assert_array_equal(as_bytes(dst), as_bytes(view))


@pytest.mark.parametrize("dtype", ["u1", "u2", "f4", "u8", "S3"])
@pytest.mark.parametrize("swap", [False, True])
@pytest.mark.parametrize("colours", [2, 3, 4, 5, 7])
def test_pixels_of_colours_and_planes_of_them(simd_path: str, dtype: str, swap: bool, colours: int) -> None:
    """In memory the colours of a pixel are neighbours, in a chunk those of a column: either may be cut."""
    rng = np.random.default_rng(6)
    for height, width, depth in [(16, 6, 1), (17, 90, 1), (40, 33, 2), (3, 300, 1), (70, 130, 1)]:
        pixels = random_items(rng, (depth, height + 2, width + 3, colours), dtype)
        planes = random_items(rng, (colours, width + 1, height + 4, depth), dtype).T
        cut, chunk = pixels[:, 1:-1, 2:-1], planes[:, 3:-1, :-1]
        before = as_bytes(planes).copy()
        blocks.copy(chunk, cut, swap)
        np.testing.assert_array_equal(as_bytes(chunk), swapped(cut) if swap else as_bytes(cut))
        around = np.ones(planes.shape, bool)
        around[:, 3:-1, :-1] = False
        np.testing.assert_array_equal(as_bytes(planes)[around], before[around])
        back = random_items(rng, pixels.shape, dtype)
        before = as_bytes(back).copy()
        blocks.copy(back[:, 1:-1, 2:-1], chunk, swap)
        np.testing.assert_array_equal(as_bytes(back[:, 1:-1, 2:-1]), as_bytes(cut))
        around = np.ones(back.shape, bool)
        around[:, 1:-1, 2:-1] = False
        np.testing.assert_array_equal(as_bytes(back)[around], before[around])


@pytest.mark.parametrize("dtype", ["u1", "u2", "u4", "c8", "f8", "c16", "G", "V3"])
def test_every_extent(simd_path: str, dtype: str) -> None:
    """Vectors, lines and tiles end at all places of rows and planes; around them nothing changes."""
    rng = np.random.default_rng(5)
    extents = [(3, n) for n in range(1, 140)] + [(m, n) for m in range(1, 38, 3) for n in range(1, 38)]
    source = random_items(rng, (140, 140), dtype)
    frame = as_bytes(random_items(rng, (42, 144), dtype))
    swap = dtype[0] != "V"
    stored = swapped(source) if swap else as_bytes(source)
    for m, n in extents:
        for view, wanted in [(source[:m, :n], stored[:m, :n]), (source[:n, :m].T, stored[:n, :m].transpose(1, 0, 2))]:
            found = frame.copy()
            blocks.copy(found.reshape(42, -1).view(dtype)[2 : 2 + m, 2 : 2 + n], view, swap)
            expected = frame.copy()
            expected[2 : 2 + m, 2 : 2 + n] = wanted
            assert np.array_equal(found, expected), (m, n)
        found = frame.copy()
        blocks.fill(found.reshape(42, -1).view(dtype)[2 : 2 + m, 2 : 2 + n], source[0, 0, ...])
        expected[2 : 2 + m, 2 : 2 + n] = as_bytes(source)[0, 0]
        assert np.array_equal(found, expected), (m, n)


@pytest.mark.parametrize("dtype", ["V4", "i2,u2"])
def test_no_swap_without_byte_order(dtype: str) -> None:
    with pytest.raises(TypeError, match="byte order"):
        blocks.copy(np.zeros(2, dtype), np.zeros(2, dtype), True)


def test_copy_of_overlapping_views() -> None:
    array = np.arange(40, dtype="u2")
    wanted = array[::-1].copy()
    blocks.copy(array, array[::-1])
    np.testing.assert_array_equal(array, wanted)
    shifted = array[:-3].copy()
    blocks.copy(array[3:], array[:-3], swap=True)
    np.testing.assert_array_equal(array[3:], shifted.byteswap())


def test_byte_orders_in_dtypes_play_no_part() -> None:
    src = np.arange(9, dtype=">i4")
    dst = np.empty(9, "<i4")
    blocks.copy(dst, src)
    assert dst.tobytes() == src.tobytes()
    blocks.copy(dst, src, swap=True)
    np.testing.assert_array_equal(dst, src)


def test_many_axes() -> None:
    shape = (2,) + (1,) * 29 + (3, 5)
    src = np.arange(30, dtype="f8").reshape(shape)
    dst = np.zeros(shape, "f8")
    blocks.copy(dst, src)
    np.testing.assert_array_equal(dst, src)
    blocks.fill(dst, -1)
    assert (dst == -1).all()


def test_refusals() -> None:
    array = np.zeros((2, 3), "u2")
    locked = array.copy()
    locked.flags.writeable = False
    deep = np.zeros((1,) * 33, "u2")
    for call, error, text in [
        (lambda: blocks.copy(array, array[:1]), ValueError, "shape"),
        (lambda: blocks.copy(array, array[0]), ValueError, "shape"),
        (lambda: blocks.copy(array, array.astype("i2")), TypeError, "items of"),
        (lambda: blocks.copy(array, array.astype("u4")), TypeError, "items of"),
        (lambda: blocks.copy(locked, array), ValueError, "read-only"),
        (lambda: blocks.fill(locked, 1), ValueError, "read-only"),
        (lambda: blocks.copy(deep, deep), ValueError, "33 axes"),
        (lambda: blocks.fill(deep, 1), ValueError, "33 axes"),
        (lambda: blocks.copy(array.astype(object), array.astype(object)), TypeError, "Python objects"),
        (lambda: blocks.fill(array.astype(object), 0), TypeError, "Python objects"),
        (lambda: blocks.copy([1, 2], array), TypeError, "dst"),
        (lambda: blocks.copy(array, None), TypeError, "src"),
        (lambda: blocks.fill(array, "x"), ValueError, "invalid literal"),
        (lambda: blocks.fill(array, [1, 2]), ValueError, "sequence|broadcast"),
        (lambda: blocks.holds_only(np.zeros((4, 4))[::2, ::2], 0), ValueError, "not contiguous"),
    ]:
        with pytest.raises(error, match=text):
            call()
    assert (array == 0).all()
    assert (locked == 0).all()


@given(st.sampled_from(DTYPES), st.integers(0, 70), st.integers(0, 10_000))
def test_holds_only(dtype: str, count: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    value = one_item(rng, dtype)
    array = np.empty(count, dtype)
    as_bytes(array)[...] = as_bytes(value)
    assert blocks.holds_only(array, value)
    if count:
        odd = as_bytes(array).reshape(-1)
        odd[rng.integers(odd.size)] ^= 1 << rng.integers(8)
        assert not blocks.holds_only(array, value)


def test_holds_only_compares_bytes() -> None:
    assert not blocks.holds_only(np.zeros(3), -0.0)
    assert blocks.holds_only(np.full((2, 3), np.nan, order="F"), np.nan)


@pytest.mark.parametrize(
    ("dtype", "unit"),
    [("u1", 0), ("?", 0), ("S5", 0), (">u2", 2), ("f4", 4), ("m8[s]", 8), ("c8", 4), ("c16", 8), ("G", 16), ("U7", 4)],
)
def test_swap_unit(dtype: str, unit: int) -> None:
    assert blocks.swap_unit(np.dtype(dtype)) == unit


@pytest.mark.parametrize("dtype", ["V4", "i2,u2", "O"])
def test_no_swap_unit(dtype: str) -> None:
    with pytest.raises(TypeError, match="no byte order"):
        blocks.swap_unit(np.dtype(dtype))
