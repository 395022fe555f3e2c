"""Into shards, out of them and into others, without a look into the chunks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import zarr

import zvcore

if TYPE_CHECKING:
    from pathlib import Path

WAYS: list[tuple[Any, dict[str, Any]]] = [
    ((20, 24), {"shards": False}),
    (None, {"shards": (20, 24)}),
    ((20, 24), {"shards": (50, 60)}),
    ((20, 24), {"shards": (10, 12), "index_location": "start", "order_in_shard": "morton"}),
]


@pytest.mark.parametrize(("shards", "wanted"), WAYS)
def test_chunks_are_copied_as_they_are(tmp_path: Path, shards: Any, wanted: dict[str, Any]) -> None:
    values = np.random.default_rng(0).integers(0, 99, (47, 55)).astype("u2")
    values[:10] = 0
    old = zvcore.create(
        tmp_path / "old", format="zarr3", shape=(47, 55), dtype="u2", chunks=(5, 6), shards=shards, codec="gzip"
    )
    old[...] = values
    # A stream that says the right size gets through, although gzip cannot decode it: nobody has tried.
    damaged = bytearray(old.read_encoded((4, 4)))
    damaged[12:16] = b"\xff" * 4
    old.write_encoded((4, 4), bytes(damaged))
    report = zvcore.convert(tmp_path / "old", tmp_path / "new", format="zarr3", **wanted)
    new = zvcore.open(tmp_path / "new", mode="r+")
    assert new.chunks == (5, 6)
    assert new.shards == (wanted["shards"] or None)
    for position in np.ndindex(*old.grid):
        assert new.read_encoded(position) == old.read_encoded(position)
    assert "0 re-encoded" in str(report)
    with pytest.raises(zvcore.errors.CorruptDataError):
        new[...]
    new[20:25, 24:30] = values[20:25, 24:30]
    np.testing.assert_array_equal(new[...], values)
    np.testing.assert_array_equal(zarr.open_array(tmp_path / "new", mode="r")[...], values)


def test_what_is_no_stream_of_the_right_size_is_not_copied(tmp_path: Path) -> None:
    old = zvcore.create(tmp_path / "old", format="zarr3", shape=(10, 6), dtype="u2", chunks=(5, 6), codec="gzip")
    old[...] = 7
    old.write_encoded((1, 0), b"not gzip")
    with pytest.raises(zvcore.errors.CorruptDataError, match="not a valid gzip stream"):
        zvcore.convert(tmp_path / "old", tmp_path / "new", format="zarr3", shards=(10, 6))


def test_chunks_one_by_one(tmp_path: Path) -> None:
    """The same by hand, from one store to another."""
    old = zvcore.create(tmp_path / "old", format="zarr3", shape=(9, 9), dtype="i4", chunks=(2, 3), shards=(4, 9))
    old[...] = values = np.arange(81).reshape(9, 9)
    new = zvcore.create(tmp_path / "new", format="zarr3", shape=(9, 9), dtype="i4", chunks=(2, 3), shards=(10, 3))
    for position in np.ndindex(*old.grid):
        stored = old.read_encoded(position)
        if stored is not None:
            new.write_encoded(position, stored)
    np.testing.assert_array_equal(new[...], values)
