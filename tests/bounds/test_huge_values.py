"""Indexes of sharded stores that claim values of any length: where a file has holes, it may be as long as they say."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.processes import run_within
from zvcore.errors import CorruptDataError
from zvcore.precomputed import ShardedStore, ShardingSpec
from zvcore.stores import MemoryStore

if TYPE_CHECKING:
    from pathlib import Path

SPEC = ShardingSpec(0, "identity", 0, 0, "raw", "raw")
TIB = 1 << 40


def index_of(size: int) -> bytes:
    return np.array([[7], [0], [size]], "<u8").tobytes()


@pytest.mark.parametrize("size", [100, TIB, 2**62, 2**63, 2**64 - 1])
def test_what_lies_outside_the_file_takes_no_memory(size: int) -> None:
    store = MemoryStore()
    store.put("0.shard", np.array([5, 29], "<u8").tobytes() + b"hello" + index_of(size))
    kv = ShardedStore(store, SPEC)
    for call in (kv.get, kv.__getitem__, kv.read_encoded, kv.locate, lambda id: kv.get_many([id])):
        with pytest.raises(CorruptDataError, match="lies outside the file") as caught:
            call(7)
        assert caught.value.key == "0.shard" and caught.value.chunk == 7


READ = """
import sys
from zvcore.errors import OutOfMemoryError
from zvcore.precomputed import ShardedStore, ShardingSpec
spec = ShardingSpec(0, "identity", 0, 0, "raw", "raw")
for path in sys.argv[1:]:
    for again in range(2):
        kv = ShardedStore(path, spec, "r+") if not again else kv
        for call in (kv.get, kv.read_encoded, lambda id: kv.get_many([id]), lambda id: kv.update({8: b"x"})):
            try:
                call(7)
            except OutOfMemoryError as error:
                assert error.key.startswith("0.") and error.offset is not None and error.length >= 1 << 40, error
            else:
                raise AssertionError(call)
"""


def test_holes_that_are_longer_than_memory_are_told(tmp_path: Path) -> None:
    def sparse(name: str, start: bytes, size: int, end: bytes) -> None:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        with (tmp_path / name).open("wb") as file:
            file.write(start)
            file.truncate(len(start) + size)
            file.seek(0, 2)
            file.write(end)

    sparse("value/0.shard", np.array([TIB, TIB + 24], "<u8").tobytes(), TIB, index_of(TIB))
    sparse("index/0.shard", np.array([0, TIB], "<u8").tobytes(), TIB, b"")
    sparse("pair/0.data", b"", TIB, index_of(TIB))
    sparse("pair/0.index", np.array([TIB, TIB + 24], "<u8").tobytes(), 0, b"")
    run_within(4 << 30, READ, tmp_path / "value", tmp_path / "index", tmp_path / "pair")
