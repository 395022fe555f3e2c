"""Minishard indices beside numpy's running sums and differences.

pytest bench/test_kernels_delta.py --benchmark-enable
python -m bench.test_kernels_delta
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pytest

from bench.contest import Contest, entrants, run_alone
from zvcore.kernels import decode_minishard_index, encode_minishard_index

if TYPE_CHECKING:
    from collections.abc import Callable

Column = npt.NDArray[np.uint64]


def index(count: int) -> tuple[Column, Column, Column]:
    """Ids spread as a hash spreads them, values of some kilobytes one after the other."""
    rng = np.random.default_rng(0)
    ids = np.sort(rng.integers(0, 2**48, count, dtype=np.uint64))
    sizes = rng.lognormal(8, 1, count).astype(np.uint64)
    starts = np.cumsum(sizes, dtype=np.uint64) - sizes
    return ids, starts, sizes


def decode(raw: bytes) -> tuple[Column, Column, Column]:
    table = np.frombuffer(raw, "<u8").reshape(3, -1)
    sizes = table[2].copy()
    steps = table[1].copy()
    steps[1:] += sizes[:-1]
    return np.cumsum(table[0]), np.cumsum(steps), sizes


def decode_in_place(raw: bytes) -> tuple[Column, Column, Column]:
    table = np.frombuffer(raw, "<u8").reshape(3, -1).copy()
    table[1, 1:] += table[2, :-1]
    np.cumsum(table[:2], axis=1, out=table[:2])
    return table[0], table[1], table[2]


def encode(ids: Column, offsets: Column, sizes: Column) -> bytes:
    table = np.empty((3, len(ids)), "<u8")
    table[0] = np.diff(ids, prepend=np.uint64(0))
    table[1, :1] = offsets[:1]
    table[1, 1:] = offsets[1:] - offsets[:-1] - sizes[:-1]
    table[2] = sizes
    return table.tobytes()


def decoders(count: int) -> dict[str, Callable[[], Any]]:
    raw = encode_minishard_index(*index(count))
    functions: dict[str, Callable[[], Any]] = {
        "zvcore": lambda: decode_minishard_index(raw),
        "numpy": lambda: decode(raw),
        "numpy in place": lambda: decode_in_place(raw),
    }
    for function in functions.values():
        assert all(map(np.array_equal, function(), index(count)))
    return functions


def encoders(count: int) -> dict[str, Callable[[], Any]]:
    columns = index(count)
    functions: dict[str, Callable[[], Any]] = {
        "zvcore": lambda: encode_minishard_index(*columns),
        "numpy": lambda: encode(*columns),
    }
    assert functions["zvcore"]() == functions["numpy"]()
    return functions


COUNTS = (10, 1000, 100_000)
CONTESTS = [
    *(
        Contest(
            f"decode {count} entries",
            ("zvcore", "numpy", "numpy in place"),
            partial(decoders, count),
            1 + 10_000 // count,
        )
        for count in COUNTS
    ),
    *(
        Contest(f"encode {count} entries", ("zvcore", "numpy"), partial(encoders, count), 1 + 10_000 // count)
        for count in COUNTS
    ),
]


@pytest.mark.parametrize(*entrants(CONTESTS))
def test_minishard_index(benchmark: Any, contest: Contest, who: str) -> None:
    contest.run(benchmark, who)


if __name__ == "__main__":
    run_alone(CONTESTS)
