"""MurmurHash3 of ids beside mmh3, which hashes one key a call; MD5 of objects beside hashlib, which does one as well.

pytest bench/test_kernels_hashing.py --benchmark-enable
python -m bench.test_kernels_hashing
"""

from __future__ import annotations

import hashlib
from functools import partial
from typing import TYPE_CHECKING, Any

import mmh3
import numpy as np
import pytest

from bench.contest import Contest, entrants, run_alone
from bench.scale import pick
from zvcore.kernels import murmurhash3_x86_128
from zvcore.kernels.md5 import md5_each

if TYPE_CHECKING:
    from collections.abc import Callable


def hashes(count: int) -> dict[str, Callable[[], Any]]:
    # Ids as a proofreading system gives them: a chunk's number above, a counter below.
    rng = np.random.default_rng(0)
    ids = rng.integers(2**56, 2**57, count, dtype=np.uint64) & np.uint64(0x01FFFFFF0000FFFF)
    numbers = ids.tolist()
    keys = [number.to_bytes(8, "little") for number in numbers]
    hash64 = mmh3.hash64
    functions: dict[str, Callable[[], Any]] = {
        "zvcore": lambda: murmurhash3_x86_128(ids),
        "mmh3": lambda: [hash64(number.to_bytes(8, "little"), 0, False, False)[0] for number in numbers],
        "mmh3, keys at hand": lambda: [hash64(key, 0, False, False)[0] for key in keys],
    }
    assert functions["zvcore"]().tolist() == functions["mmh3"]() == functions["mmh3, keys at hand"]()
    return functions


def digests(count: int, size: int) -> dict[str, Callable[[], Any]]:
    rng = np.random.default_rng(0)
    data = [rng.bytes(size) for _ in range(count)]
    functions: dict[str, Callable[[], Any]] = {
        "zvcore": lambda: md5_each(data),
        "hashlib": lambda: [hashlib.md5(one, usedforsecurity=False).hexdigest() for one in data],
    }
    assert functions["zvcore"]() == functions["hashlib"]()
    return functions


CONTESTS = [
    *(
        Contest(f"murmurhash3 of {count} ids", ("zvcore", "mmh3", "mmh3, keys at hand"), partial(hashes, count))
        for count in (1, 1000, pick(1_000_000, 5000))
    ),
    *(
        Contest(f"md5 of {count} objects of {size} bytes", ("zvcore", "hashlib"), partial(digests, count, size))
        for count, size in ((64, 1000), (12, pick(300_000, 3000)))
    ),
]


@pytest.mark.parametrize(*entrants(CONTESTS))
def test_contest(benchmark: Any, contest: Contest, who: str) -> None:
    contest.run(benchmark, who)


if __name__ == "__main__":
    run_alone(CONTESTS)
