"""`aread` and `awrite`: many at once, few threads, and a loop of events that is not held up."""

from __future__ import annotations

import asyncio
import threading

import numpy as np
import pytest

import zvcore
from tests.processes import PATIENCE
from zvcore import transfer
from zvcore.errors import CorruptDataError, ReadOnlyError
from zvcore.system.waiting import MOST

VALUES = np.arange(64 * 64, dtype="u4").reshape(64, 64)


@pytest.fixture
def array(tmp_path):
    return zvcore.create(tmp_path / "a", format="zarr3", data=VALUES, chunks=(8, 8), shards=(32, 32))


def test_five_hundred_reads_at_once_have_few_threads(array):
    async def all_of_them():
        regions = [(slice(n % 60, n % 60 + 4), slice(n // 10, n // 10 + 7)) for n in range(500)]
        return regions, await asyncio.gather(*(array.aread(region) for region in regions))

    regions, found = asyncio.run(all_of_them())
    assert all(np.array_equal(values, VALUES[region]) for region, values in zip(regions, found, strict=True))
    # Other threads may be left by what other tests have asked of stores far away.
    assert 0 < sum(thread.name.startswith("zvcore-waiting") for thread in threading.enumerate()) <= MOST


def test_the_loop_is_not_held_up(array, monkeypatch):
    """A read that waits until the loop has done something else: it would wait for ever if the loop waited for it."""
    turn = threading.Event()
    plain = transfer.read

    def waiting(*arguments):
        assert turn.wait(PATIENCE)
        return plain(*arguments)

    monkeypatch.setattr(transfer, "read", waiting)

    async def both():
        reading = asyncio.ensure_future(array.aread(3))
        await asyncio.sleep(0)
        turn.set()
        return await reading

    assert np.array_equal(asyncio.run(both()), VALUES[3])


def test_what_is_written_is_there(array):
    async def change():
        parts = [(slice(n, n + 4), slice(None)) for n in range(0, 64, 4)]
        await asyncio.gather(*(array.awrite(part, VALUES[part] + 1) for part in parts))
        out = np.empty((64, 64), "u4")
        assert await array.aread(..., out) is out
        return out

    assert np.array_equal(asyncio.run(change()), VALUES + 1)
    assert np.array_equal(asyncio.run(array.aread()), VALUES + 1), "another loop has the same threads"


def test_errors_come_to_the_one_who_waits(array, tmp_path):
    with pytest.raises(ReadOnlyError):
        asyncio.run(zvcore.open(tmp_path / "a").awrite(0, 1))
    with pytest.raises(IndexError):
        asyncio.run(array.aread(64))
    (tmp_path / "a/c/0/0").write_bytes(b"nothing")
    with pytest.raises(CorruptDataError, match="c/0/0"):
        asyncio.run(zvcore.open(tmp_path / "a").aread((0, 0)))
