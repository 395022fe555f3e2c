"""A repair that makes a copy and is killed: what is there is not taken for the whole."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import zvcore
from zvcore.stores import MemoryStore


class Killed(BaseException):
    """What ends a process at once."""


class Dying(MemoryStore):
    """Of which only so many writes come."""

    left = 1 << 30

    def put(self, key: str, data: Any) -> None:
        if not self.left:
            raise Killed
        self.left -= 1
        super().put(key, data)


@pytest.mark.parametrize("format", ["zarr3", "zarr2", "n5", "precomputed"])
@pytest.mark.parametrize("grouped", [True, False])
def test_half_of_a_repaired_copy_is_not_sound(format: str, grouped: bool) -> None:
    values = np.random.default_rng(0).integers(1, 250, (8, 8, 8), dtype=np.uint8)
    source = MemoryStore()
    plain = MemoryStore()
    zvcore.create(plain, format="zarr3", shape=values.shape, dtype="u1", chunks=(4, 4, 4))[...] = values
    if grouped:
        image = {} if format in ("n5", "precomputed") else {"ome": True, "name": "it"}
        zvcore.convert(plain, source, format=format, levels=1, **image)
    else:
        zvcore.convert(plain, source, format=format)
    keys = sum(1 for _ in source.list())
    for writes in range(1, keys):
        out = Dying()
        out.left = writes
        with pytest.raises(Killed):
            zvcore.repair(source, out=out)
        try:
            assert not zvcore.verify(out).ok
        except zvcore.errors.ZvcoreError:
            continue
    out = MemoryStore()
    assert zvcore.repair(source, out=out).ok
    assert {key: out.get(key) for key in out.list()} == {key: source.get(key) for key in source.list()}
