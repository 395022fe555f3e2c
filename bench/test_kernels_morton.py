"""Compressed Morton codes beside cloud-volume; for the way back, which it lacks, beside the same rule in numpy.

pytest bench/test_kernels_morton.py --benchmark-enable
python -m bench.test_kernels_morton
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pytest
from cloudvolume.datasource.precomputed.common import compressed_morton_code

from bench.contest import Contest, entrants, run_alone
from zvcore.kernels import compressed_morton, compressed_morton_inverse

if TYPE_CHECKING:
    from collections.abc import Callable

GRID = (538, 618, 805)


def positions(count: int, dtype: str, order: Any) -> npt.NDArray[Any]:
    """Positions as a reader asks for them: boxes of the grid, in C order."""
    side = round(count ** (1 / 3))
    corner = np.array([117, 260, 391])
    box = np.indices((side, side, side)).reshape(3, -1).T + corner
    return np.array(box, dtype=dtype, order=order)


def codes(count: int, dtype: str, order: str) -> dict[str, Callable[[], Any]]:
    coords = positions(count, dtype, order)
    functions: dict[str, Callable[[], Any]] = {
        "zvcore": lambda: compressed_morton(coords, GRID),
        "cloud-volume": lambda: compressed_morton_code(coords, GRID),
    }
    assert np.array_equal(functions["zvcore"](), functions["cloud-volume"]())
    return functions


def decode(numbers: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
    coords = np.zeros((len(numbers), 3), np.uint64)
    place = 0
    for bit in range(10):
        for axis in range(3):
            if 2**bit < GRID[axis]:
                coords[:, axis] |= (numbers >> np.uint64(place) & np.uint64(1)) << np.uint64(bit)
                place += 1
    return coords.astype(np.int64)


def back(count: int) -> dict[str, Callable[[], Any]]:
    numbers = compressed_morton(positions(count, "i8", "C"), GRID)
    functions: dict[str, Callable[[], Any]] = {
        "zvcore": lambda: compressed_morton_inverse(numbers, GRID),
        "numpy": lambda: decode(numbers),
    }
    assert np.array_equal(functions["zvcore"](), functions["numpy"]())
    return functions


CONTESTS = [
    *(
        Contest(
            f"morton codes of {count} {dtype} positions, {order} order",
            ("zvcore", "cloud-volume"),
            partial(codes, count, dtype, order),
        )
        for count, dtype, order in [
            (1, "i8", "C"),
            (1000, "i8", "C"),
            (1_000_000, "i8", "C"),
            (1_000_000, "i8", "F"),
            (1_000_000, "i4", "C"),
        ]
    ),
    Contest("positions of 1000000 morton codes", ("zvcore", "numpy"), partial(back, 1_000_000)),
]


@pytest.mark.parametrize(*entrants(CONTESTS))
def test_morton(benchmark: Any, contest: Contest, who: str) -> None:
    contest.run(benchmark, who)


if __name__ == "__main__":
    run_alone(CONTESTS)
