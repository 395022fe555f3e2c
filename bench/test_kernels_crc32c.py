"""CRC-32C beside google-crc32c and crc32c: the cost of a call, and bytes per second.

pytest bench/test_kernels_crc32c.py --benchmark-enable
python -m bench.test_kernels_crc32c
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import crc32c as icrar_crc32c
import google_crc32c
import numpy as np
import pytest

from bench.contest import Contest, entrants, run_alone
from zvcore.kernels import crc32c

if TYPE_CHECKING:
    from collections.abc import Callable

SIZES = {"16 B": 16, "1 KiB": 1 << 10, "16 KiB": 1 << 14, "64 KiB": 1 << 16, "1 MiB": 1 << 20, "64 MiB": 1 << 26}


def checksums(size: int) -> dict[str, Callable[[], Any]]:
    data = np.random.default_rng(0).bytes(size)
    functions = {"zvcore": crc32c, "google-crc32c": google_crc32c.value, "crc32c": icrar_crc32c.crc32c}
    assert len({function(data) for function in functions.values()}) == 1
    return {name: partial(function, data) for name, function in functions.items()}


CONTESTS = [
    Contest(
        f"crc32c of {name}",
        ("zvcore", "google-crc32c", "crc32c"),
        partial(checksums, size),
        max(1, 1_000_000 // (size + 1000)),
    )
    for name, size in SIZES.items()
]


@pytest.mark.parametrize(*entrants(CONTESTS))
def test_crc32c(benchmark: Any, contest: Contest, who: str) -> None:
    contest.run(benchmark, who)


if __name__ == "__main__":
    run_alone(CONTESTS)
