"""Ranges of files with checksums that a store knows: looked at wherever all of a range is read."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

import numpy as np
import pytest

from zvcore.engine.buffers import Keys
from zvcore.engine.fetching import fetch, fetch_sound
from zvcore.engine.sources import ABSENT, Sources
from zvcore.errors import CorruptDataError
from zvcore.stores import LocalStore

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("size", [10, 3000, 300_000])
@pytest.mark.parametrize("count", [1, 2, 40])
def test_what_has_another_checksum_is_an_error(tmp_path: Path, size: int, count: int) -> None:
    data = np.random.default_rng(4).integers(0, 255, (count, size), "u1")
    (tmp_path / "file").write_bytes(data.tobytes())
    sums = np.array([zlib.crc32(row) for row in data], np.uint64)

    def sources() -> Sources:
        return Sources(
            keys=Keys.of(["file"]), key=np.zeros(count, np.int32), offset=np.arange(count, dtype="u8") * size,
            length=np.full(count, size, np.uint64), crc32=sums,
        )  # fmt: skip

    store = LocalStore(tmp_path)
    assert [bytes(one) for one in fetch(store, sources())] == [row.tobytes() for row in data]
    sums[-1] ^= 1
    with pytest.raises(CorruptDataError, match="another checksum") as caught:
        fetch(store, sources())
    assert caught.value.key == "file"
    assert caught.value.codec == "crc32"
    assert caught.value.expected == f"{sums[-1]:08x}"
    found, faults = fetch_sound(store, sources())
    assert [row for row, _ in faults] == [count - 1]
    assert [one is None for one in found] == [row == count - 1 for row in range(count)]
    sums[-1] = ABSENT
    assert bytes(fetch(store, sources())[count - 1]) == data[-1].tobytes()
