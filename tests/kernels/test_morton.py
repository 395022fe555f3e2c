"""Compressed Morton codes: published positions, a slow oracle, cloud-volume, every vector path, everything refused."""

from __future__ import annotations

import math
import threading
from typing import Any

import numpy as np
import pytest
from cloudvolume.datasource.precomputed.common import compressed_morton_code as code_of_cloud_volume
from hypothesis import given
from hypothesis import strategies as st

from zvcore.kernels import compressed_morton, compressed_morton_inverse, compressed_morton_valid, cpu

# Worked out with tensorstore, cloud-volume and Neuroglancer.
PUBLISHED = [
    ((3, 3, 3), (1, 0, 0), 1),
    ((3, 3, 3), (2, 0, 0), 8),
    ((3, 3, 3), (2, 2, 0), 24),
    ((3, 3, 3), (2, 2, 1), 28),
    ((3, 3, 3), (2, 2, 2), 56),
    ((2, 3, 1), (1, 2, 0), 5),
    ((4, 4, 1), (3, 3, 0), 15),
    ((8, 8, 2), (5, 5, 0), 99),
    ((8, 8, 2), (5, 5, 1), 103),
    ((16, 4, 2), (2, 0, 1), 12),
    ((16, 4, 2), (2, 3, 0), 26),
    ((16, 4, 2), (9, 2, 1), 85),
    ((2, 4, 8), (1, 3, 7), 63),
    ((2, 4, 8), (0, 2, 4), 40),
    ((2, 4, 8), (1, 0, 5), 37),
    ((2, 3, 7), (1, 2, 6), 57),
    ((1, 1, 5), (0, 0, 4), 4),
    ((538, 618, 805), (537, 617, 804), 1007359747),
    ((1944, 1048, 442), (1131, 411, 177), 0x22C6E61F),
    ((42943, 16384, 2**24), (42942, 16383, 2**24 - 1), 18009923153297406),
    ((2, 2, 2, 2), (1, 0, 1, 1), 13),
    ((1, 1, 1), (0, 0, 0), 0),
    ((2**64,), (2**64 - 1,), 2**64 - 1),
    ((2**63, 2), (2**63 - 1, 1), 2**64 - 1),
    ((), (), 0),
]


def code_of(position: tuple[int, ...], grid_shape: tuple[int, ...]) -> int:
    """The rule, bit by bit."""
    code = place = 0
    for bit in range(64):
        for coordinate, length in zip(position, grid_shape):
            if 2**bit < length:
                code |= (coordinate >> bit & 1) << place
                place += 1
    return code


@st.composite
def grids(draw: st.DrawFn) -> tuple[int, ...]:
    """Shapes of up to 8 axes whose codes fit in 64 bits."""
    shape: list[int] = []
    left = 64
    for _ in range(draw(st.integers(1, 8))):
        bits = draw(st.integers(0, min(left, draw(st.sampled_from([3, 22, 64])))))
        shape.append(draw(st.integers(2 ** (bits - 1) + 1, 2**bits)) if bits else 1)
        left -= bits
    return tuple(shape)


@st.composite
def grids_and_positions(draw: st.DrawFn) -> tuple[tuple[int, ...], list[tuple[int, ...]]]:
    shape = draw(grids())
    return shape, draw(st.lists(st.tuples(*(st.integers(0, length - 1) for length in shape)), min_size=1, max_size=30))


def on_every_path(function: Any, *arguments: Any) -> list[Any]:
    before = cpu.simd_path()
    results = []
    for path in cpu.available_paths():
        cpu.force_path(path)
        results.append(function(*arguments))
    cpu.force_path(before)
    return results


@pytest.mark.parametrize(("grid_shape", "position", "code"), PUBLISHED)
def test_published_codes(simd_path: str, grid_shape: tuple[int, ...], position: tuple[int, ...], code: int) -> None:
    assert code_of(position, grid_shape) == code
    positions = np.array([position], np.uint64)
    codes = compressed_morton(positions, grid_shape)
    assert codes.dtype == np.uint64
    assert codes.tolist() == [code]
    assert compressed_morton_inverse(codes, grid_shape).tolist() == [list(position)]


@pytest.mark.parametrize(
    ("grid_shape", "last"), [((3, 2, 2), 14), ((4, 4, 4), 63), ((5, 1, 3), 24), ((2, 2, 2, 3), 23)]
)
def test_the_codes_of_a_whole_grid(simd_path: str, grid_shape: tuple[int, ...], last: int) -> None:
    positions = np.argwhere(np.ones(grid_shape))
    codes = compressed_morton(positions, grid_shape)
    assert len(np.unique(codes)) == math.prod(grid_shape)
    assert codes.max() == last
    everything = np.arange(4 * last)
    assert everything[compressed_morton_valid(everything, grid_shape)].tolist() == sorted(codes.tolist())


@given(grids_and_positions())
def test_agrees_with_the_rule_and_goes_back(case: tuple[tuple[int, ...], list[tuple[int, ...]]]) -> None:
    grid_shape, positions = case
    expected = [code_of(position, grid_shape) for position in positions]
    table = np.array(positions, np.uint64)
    for codes in on_every_path(compressed_morton, table, grid_shape):
        assert codes.tolist() == expected
    for back in on_every_path(compressed_morton_inverse, np.array(expected, np.uint64), grid_shape):
        assert back.tolist() == table.tolist()
        assert back.dtype == (np.uint64 if max(grid_shape) > 2**63 else np.int64)


@given(grid_shape=grids(), codes=st.lists(st.integers(0, 2**64 - 1) | st.integers(0, 200), min_size=1, max_size=20))
def test_a_code_is_valid_if_some_position_has_it(grid_shape: tuple[int, ...], codes: list[int]) -> None:
    column = np.array(codes, np.uint64)
    for valid in on_every_path(compressed_morton_valid, column, grid_shape):
        assert valid.dtype == np.bool_
        for code, answer in zip(codes, valid.tolist()):
            if answer:
                position = compressed_morton_inverse([code], grid_shape)
                assert compressed_morton(position, grid_shape).tolist() == [code]
            else:
                with pytest.raises(ValueError, match=rf"codes\[0\] is {code}, which names no position of the grid"):
                    compressed_morton_inverse([code], grid_shape)


def test_valid_is_exact_where_codes_are_many(simd_path: str) -> None:
    grid_shape = (5, 9, 6)
    known = {code_of((x, y, z), grid_shape) for x in range(5) for y in range(9) for z in range(6)}
    codes = np.arange(5000)
    assert compressed_morton_valid(codes, grid_shape).tolist() == [code in known for code in range(5000)]


def test_a_large_table_agrees_with_cloud_volume(simd_path: str) -> None:
    grid_shape = (538, 618, 805)
    positions = np.random.default_rng(1).integers(0, grid_shape, (10_001, 3))
    codes = compressed_morton(positions, grid_shape)
    assert np.array_equal(codes, code_of_cloud_volume(positions, grid_shape))
    assert np.array_equal(compressed_morton_inverse(codes, grid_shape), positions)


@pytest.mark.parametrize("dtype", ["i1", "u1", "<i2", ">u2", "<i4", ">i4", "<u4", "<i8", ">i8", "<u8", ">u8"])
def test_any_integer_type_and_memory_layout(simd_path: str, dtype: str) -> None:
    grid_shape = (100, 7, 120)
    table = np.random.default_rng(2).integers(0, grid_shape, (701, 3)).astype(dtype)
    expected = [code_of(tuple(position), grid_shape) for position in table.tolist()]
    wide = np.zeros((701 * 2, 5), dtype)
    wide[1::2, 3:0:-1] = table
    unaligned = np.frombuffer(b"x" + table.tobytes(), np.uint8)[1:].view(dtype).reshape(table.shape)
    frozen = table.copy()
    frozen.flags.writeable = False
    for positions in (table, np.asfortranarray(table), wide[1::2, 3:0:-1], table[::-1].copy()[::-1], unaligned, frozen):
        assert compressed_morton(positions, grid_shape).tolist() == expected
    codes = np.array(expected, np.uint64)
    for column in (codes.astype(">u8"), np.repeat(codes, 2)[::2], codes[::-1].copy()[::-1], codes.astype(np.int64)):
        assert np.array_equal(compressed_morton_inverse(column, grid_shape), table)
        assert compressed_morton_valid(column, grid_shape).all()


def test_lists_and_repeated_rows() -> None:
    assert compressed_morton([[1, 2], [3, 0]], [4, 4]).tolist() == [9, 5]
    assert compressed_morton(np.broadcast_to(np.array([1, 2]), (1000, 2)), (4, 4)).tolist() == [9] * 1000
    assert compressed_morton([[2**64 - 1], [1]], (2**64,)).tolist() == [2**64 - 1, 1]


def test_a_grid_shape_of_any_kind() -> None:
    for grid_shape in ([3, 4], np.array([3, 4]), iter([3, 4]), (np.uint8(3), 4)):
        assert compressed_morton([[2, 3]], grid_shape).tolist() == [14]
    assert compressed_morton_inverse([14], iter([3, 4])).tolist() == [[2, 3]]
    assert compressed_morton_valid([14, 15], iter([3, 4])).tolist() == [True, False]
    with pytest.raises(ValueError, match=r"the grid \(3, 4\)"):
        compressed_morton_inverse([15], iter([3, 4]))
    with pytest.raises(ValueError, match=r"the grid \(3, 4\)"):
        compressed_morton([[3, 0]], iter([3, 4]))


def test_no_positions() -> None:
    assert compressed_morton(np.zeros((0, 3), int), (5, 5, 5)).shape == (0,)
    assert compressed_morton_inverse([], (5, 5, 5)).shape == (0, 3)
    assert compressed_morton_valid([], (5, 5, 5)).shape == (0,)


@pytest.mark.parametrize("count", [1, 255, 256, 257, 1000])
@pytest.mark.parametrize(
    ("dtype", "coordinate"), [("i8", -1), ("i4", -1), ("i8", 7), ("u4", 7), ("u8", 2**64 - 1), ("i4", 2**31 - 1)]
)
def test_a_position_outside_the_grid_is_named(simd_path: str, count: int, dtype: str, coordinate: int) -> None:
    positions = np.ones((count, 3), dtype)
    positions[count - 1, 1] = coordinate
    message = (
        rf"row {count - 1} of coords is \(1, {coordinate}, 1\): its coordinate {coordinate} on axis 1 lies outside"
    )
    with pytest.raises(ValueError, match=message):
        compressed_morton(positions, (8, 7, 8))


def test_a_negative_coordinate_is_outside_even_the_largest_grid(simd_path: str) -> None:
    for dtype in ("i4", "i8"):
        with pytest.raises(ValueError, match="its coordinate -1 on axis 0 lies outside"):
            compressed_morton(np.array([[-1]], dtype), (2**64,))


@pytest.mark.parametrize("row", [0, 255, 256, 511, 999])
def test_a_code_outside_the_grid_is_named(simd_path: str, row: int) -> None:
    codes = np.arange(1000) % 8
    codes[row] = 27
    codes[row + 1 :] = 64
    with pytest.raises(ValueError, match=rf"codes\[{row}\] is 27, which names no position of the grid \(3, 3, 3\)"):
        compressed_morton_inverse(codes, (3, 3, 3))


@pytest.mark.parametrize(
    ("grid_shape", "error", "message"),
    [
        ((2**32, 2**32, 2), ValueError, "need 65 bits, but a code has 64"),
        ((2**65,), ValueError, "need 65 bits"),
        ((10**30,), ValueError, "need 100 bits"),
        ((4, 0), ValueError, r"grid_shape\[1\] is 0, but must be at least 1"),
        ((4, -3), ValueError, r"grid_shape\[1\] is -3"),
        ((1,) * 65, ValueError, "65 axes, but at most 64"),
        ((4.0, 4), TypeError, "sequence of integers"),
        ("44", TypeError, "sequence of integers"),
        (4, TypeError, "sequence of integers"),
        ((4, 4, 4), ValueError, "coords has 2 columns, but the grid has 3 axes"),
    ],
)
def test_a_wrong_grid_is_refused(grid_shape: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        compressed_morton([[1, 2]], grid_shape)


@pytest.mark.parametrize(
    ("coords", "error", "message"),
    [
        ([[0.5, 1]], TypeError, "coords must be integers"),
        (np.zeros((3, 2)), TypeError, "coords must be integers, not float64"),
        (np.zeros((3, 2), bool), TypeError, "coords must be integers, not bool"),
        ([["a", "b"]], TypeError, "coords must be integers"),
        ([1, 2], ValueError, "coords must have 2 axes, not 1"),
        (5, ValueError, "coords must have 2 axes, not 0"),
        ([[2**64, 0]], ValueError, r"coords must be between 0 and 2\*\*64 - 1"),
        ([[2**63, -1]], ValueError, r"coords must be between 0 and 2\*\*64 - 1"),
    ],
)
def test_wrong_coordinates_are_refused(coords: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        compressed_morton(coords, (4, 4))


@pytest.mark.parametrize(
    ("codes", "error", "message"),
    [
        ([-1], ValueError, r"codes\[0\] is -1, but must be between 0 and 2\*\*64 - 1"),
        ([1.5], TypeError, "codes must be integers"),
        ([[1]], ValueError, "codes must have 1 axis, not 2"),
        ([2**64], ValueError, r"codes must be between 0 and 2\*\*64 - 1"),
    ],
)
@pytest.mark.parametrize("function", [compressed_morton_inverse, compressed_morton_valid])
def test_wrong_codes_are_refused(function: Any, codes: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        function(codes, (4, 4))


def test_many_threads_at_once() -> None:
    grid_shape = (1000, 1000, 1000)
    tables = [np.random.default_rng(seed).integers(0, 1000, (20_000, 3)) for seed in range(8)]
    expected = [compressed_morton(table, grid_shape) for table in tables]
    barrier = threading.Barrier(len(tables))
    right: list[int] = []

    def work(index: int) -> None:
        barrier.wait()
        for _ in range(10):
            codes = compressed_morton(tables[index], grid_shape)
            if not np.array_equal(codes, expected[index]):
                return
            if not np.array_equal(compressed_morton_inverse(codes, grid_shape), tables[index]):
                return
        right.append(index)

    threads = [threading.Thread(target=work, args=(index,)) for index in range(len(tables))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(right) == list(range(len(tables)))
