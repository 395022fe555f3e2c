"""Names of chunks, rendered a million at a time, beside Python's formatting.

pytest bench/test_kernels_keys.py --benchmark-enable
python -m bench.test_kernels_keys
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from bench.contest import Contest, entrants, run_alone
from zvcore.kernels.keys import format_keys

if TYPE_CHECKING:
    from collections.abc import Callable


def namings(count: int) -> dict[str, Callable[[], Any]]:
    side = max(1, round(count ** (1 / 3)))
    columns = np.stack(np.unravel_index(np.arange(count), (side + 1,) * 3), 1)
    pool, ends = format_keys(columns, ["c/", "/", "/", ""])
    assert pool[: ends[0]].tobytes() == b"c/0/0/0"
    return {
        "zvcore": lambda: format_keys(columns, ["c/", "/", "/", ""]),
        "f-strings": lambda: [f"c/{z}/{y}/{x}" for z, y, x in columns.tolist()],
    }


CONTESTS = [
    Contest(f"{name} keys", ("zvcore", "f-strings"), partial(namings, count), calls)
    for name, count, calls in [("1", 1, 1000), ("1,000", 1000, 10), ("1,000,000", 1_000_000, 1)]
]


@pytest.mark.parametrize(*entrants(CONTESTS))
def test_keys(benchmark: Any, contest: Contest, who: str) -> None:
    contest.run(benchmark, who)


if __name__ == "__main__":
    run_alone(CONTESTS)
