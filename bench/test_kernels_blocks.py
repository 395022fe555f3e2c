"""Chunks moved into and out of a larger array, beside numpy, with a plain copy of as many bytes as the limit.

pytest bench/test_kernels_blocks.py --benchmark-enable
python -m bench.test_kernels_blocks

Each call moves sixteen chunks, at places spread over an array too large for the caches, as a read of many chunks does.
`same`: chunk and array in one order; `reversed`: the chunk in Fortran order; `last two`: its last two axes exchanged;
`swapped`: bytes in the other order. numpy gets what suits it better: assignment from an array of the other byte order,
or of its `byteswap()`.
"""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pytest

from bench.contest import Contest, entrants, run_alone
from bench.data import volume
from zvcore.kernels import blocks

if TYPE_CHECKING:
    from collections.abc import Callable

Array = npt.NDArray[Any]

SIDES = {1: 448, 2: 448, 4: 320, 8: 256, 16: 192}
ORDERS = {"same": (0, 1, 2), "reversed": (2, 1, 0), "last two": (0, 2, 1)}
PLACES = 16


@cache
def chunk(dtype: str, side: int) -> Array:
    kind = {"u1": "em", "u2": "microscopy", "u4": "labels32"}.get(dtype, "labels64")
    values = volume(kind, (side, side, side))
    return values + values[::-1] * 1j if dtype == "c16" else values.astype(dtype)


@cache
def whole(dtype: str) -> Array:
    return np.ones((SIDES[np.dtype(dtype).itemsize],) * 3, dtype)


def places(array: Array, side: int) -> list[Array]:
    """Views of the array where chunks of its grid lie."""
    counts = [n // side for n in array.shape]
    numbers = np.random.default_rng(0).choice(np.prod(counts), PLACES, replace=False)
    corners = np.stack(np.unravel_index(numbers, counts), 1) * side
    return [array[tuple(slice(begin, begin + side) for begin in corner)] for corner in corners]


def on_each(move: Callable[[Array], Any], parts: list[Array]) -> None:
    for part in parts:
        move(part)


def moves(dtype: str, side: int, order: str, swap: bool, out: bool) -> dict[str, Callable[[], Any]]:
    parts = places(whole(dtype), side)
    stored = chunk(dtype, side)
    inside = np.array(stored).transpose(ORDERS[order])
    other = inside.dtype.newbyteorder() if swap else inside.dtype
    plain = [whole(dtype).reshape(-1)[i * stored.size :][: stored.size] for i in range(PLACES)]

    def zvcore_move(part: Array) -> None:
        blocks.copy(*((inside, part) if out else (part, inside)), swap)

    def assign(part: Array) -> None:
        if out:
            inside[...] = part.view(other)
        else:
            part[...] = inside.view(other)

    def assign_swapped(part: Array) -> None:
        if out:
            inside[...] = part.byteswap()
        else:
            part[...] = inside.byteswap()

    def copy_bytes(part: Array) -> None:
        if out:
            stored.reshape(-1)[...] = part
        else:
            part[...] = stored.reshape(-1)

    stored = np.array(stored)
    functions: dict[str, Callable[[], Any]] = {
        "zvcore": partial(on_each, zvcore_move, parts),
        "numpy": partial(on_each, assign, parts),
    }
    if swap:
        functions["numpy byteswap"] = partial(on_each, assign_swapped, parts)
    return functions | {"memcpy": partial(on_each, copy_bytes, plain)}


def fills(dtype: str, side: int) -> dict[str, Callable[[], Any]]:
    parts = places(whole(dtype), side)
    return {
        "zvcore": partial(on_each, lambda part: blocks.fill(part, 7), parts),
        "numpy": partial(on_each, lambda part: part.fill(7), parts),
    }


def searches(dtype: str, side: int) -> dict[str, Callable[[], Any]]:
    empty = np.zeros((side, side, side), dtype)
    return {
        "zvcore": lambda: blocks.holds_only(empty, 0),
        "numpy": lambda: bool((empty == 0).all()),
    }


CONTESTS = [
    Contest(
        f"{dtype} {side}^3 {'out' if out else 'in'}, {order}{', swapped' if swap else ''}",
        ("zvcore", "numpy", *(["numpy byteswap"] if swap else []), "memcpy"),
        partial(moves, dtype, side, order, swap, out),
    )
    for dtype in ("u1", "u2", "u4", "f8", "c16")
    for side in (64, 32)
    for out in (False, True)
    for order in ORDERS
    for swap in (False, True)
    if not (swap and (dtype == "u1" or order == "last two"))
]
CONTESTS += [
    Contest(f"{dtype} {side}^3 fill", ("zvcore", "numpy"), partial(fills, dtype, side))
    for dtype in ("u1", "u2", "u4", "f8")
    for side in (64, 32)
]
CONTESTS += [
    Contest(f"{dtype} 64^3 holds one value only", ("zvcore", "numpy"), partial(searches, dtype, 64), 10)
    for dtype in ("u1", "u2", "u4", "f8")
]


@pytest.mark.parametrize(*entrants(CONTESTS))
def test_blocks(benchmark: Any, contest: Contest, who: str) -> None:
    contest.run(benchmark, who)


if __name__ == "__main__":
    run_alone(CONTESTS)
