"""Files that lie far away, which libraries read in small pieces: as few requests as the order of these allows."""

from __future__ import annotations

import io
import random
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zvcore
from zvcore.borrowed.file import StoredFile, stream
from zvcore.errors import ConflictError
from zvcore.stores import MemoryStore
from zvcore.stores.single_file import SingleFileStore

if TYPE_CHECKING:
    from collections.abc import Sequence

tifffile = pytest.importorskip("tifffile")


class Far(MemoryStore):
    """Counts how often something is waited for."""

    def __init__(self) -> None:
        super().__init__()
        self.waits = 0

    def parts_ahead(self) -> int:
        return 4

    def get(self, key: str, start: int = 0, length: int | None = None, **options: Any) -> Any:
        self.waits += 1
        return super().get(key, start, length, **options)

    def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]], **options: Any) -> Any:
        self.waits += 1
        return super().get_ranges(key, ranges, **options)


def stored(data: bytes) -> Far:
    store = Far()
    store.put("a.tif", data)
    return store


def pages(count: int, noise: float) -> tuple[np.ndarray[Any, Any], bytes]:
    """Pages of one size; packed ones, of noise, differ in length."""
    rng = np.random.default_rng(1)
    values = rng.integers(0, 1 + int(255 * noise), (count, 128, 256)).astype("u1")
    made = io.BytesIO()
    with tifffile.TiffWriter(made) as writer:
        for page in values:
            # One by one: of pages that are written together, tifffile says where they lie in one place.
            writer.write(page, compression="zlib" if noise else None, metadata=None, contiguous=False)
    return values, made.getvalue()


@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_directories_of_many_pages_are_foreseen(noise: float) -> None:
    values, data = pages(120, noise)
    store = stored(data)
    array = zvcore.open(SingleFileStore(store, "a.tif"))
    # Each page waits for the one before in a chain that nobody foresees, in tifffile's walk and in ours.
    assert store.waits < 60
    assert np.array_equal(array[...], values)


def test_directories_that_are_not_where_they_are_expected() -> None:
    rng = np.random.default_rng(1)
    made = io.BytesIO()
    shapes = [(3 * height + 1, 90) for height in rng.permutation(60)]
    values = [rng.integers(0, 256, shape).astype("u1") for shape in shapes]
    with tifffile.TiffWriter(made) as writer:
        for page in values:
            writer.write(page, metadata=None)
    found = zvcore.open(SingleFileStore(stored(made.getvalue()), "a.tif"))
    assert len(found) == 60
    assert all(np.array_equal(found[str(number)][...], page) for number, page in enumerate(values))


def test_any_order_of_reads_gives_what_is_there() -> None:
    data = np.random.default_rng(1).integers(0, 256, 1_000_003).astype("u1").tobytes()
    file = stream(SingleFileStore(stored(data), "a.tif"))
    order = random.Random(1)
    at = 0
    for _ in range(600):
        at = order.choice([at, at, order.randrange(len(data)), max(0, at - 9000), at + 3000])
        count = order.choice([1, 12, 5000, 20_000, 70_000])
        if order.random() < 0.3:
            file.expect([order.randrange(2 * len(data)) for _ in range(3)], order.choice([0, 8192]))
        file.seek(at)
        found = file.read(count)
        assert found == data[at : at + count]
        at += len(found)


def test_reads_that_follow_each_other_ask_for_more_at_a_time() -> None:
    store = stored(bytes(4 << 20))
    file = stream(SingleFileStore(store, "a.tif"))
    before = store.waits
    while file.read(1000):
        pass
    assert store.waits - before < 25


def test_a_file_that_is_replaced_meanwhile_is_no_mixture() -> None:
    store = stored(bytes(100_000))
    file = StoredFile(SingleFileStore(store, "a.tif"), "a.tif")
    assert file.read(10) == bytes(10)
    store.put("a.tif", b"\1" * 100_000)
    file.seek(90_000)
    with pytest.raises(ConflictError):
        file.read(10)
