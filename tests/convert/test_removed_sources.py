"""A source that others remove or replace while it is converted: what was missing was not the fill value."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zvcore
from zvcore.errors import ConflictError, NotFoundError
from zvcore.stores import MemoryStore

if TYPE_CHECKING:
    from pathlib import Path

VALUES = np.random.default_rng(0).integers(1, 200, (32, 32, 32)).astype("u2")
SMALL: dict[str, Any] = {"memory": 1 << 14, "threads": 1, "chunks": (8, 8, 8)}


def source(path: Any, format: str) -> None:
    options = {"shards": (16, 16, 16)} if format == "zarr3 shards" else {}
    zvcore.create(path, format=format.split()[0], data=VALUES, chunks=(8, 8, 8), **options)


@pytest.mark.parametrize("format", ["zarr3", "zarr3 shards", "zarr2", "n5", "precomputed"])
@pytest.mark.parametrize("target", ["zarr3", "n5"])
def test_it_is_told_and_done_again_once_the_source_is_back(tmp_path: Path, format: str, target: str) -> None:
    source(tmp_path / "s", format)

    def remove(done: int, total: int) -> None:
        if 0 < done < total and (tmp_path / "s").exists():
            os.rename(tmp_path / "s", tmp_path / "away")

    with pytest.raises(NotFoundError):
        zvcore.convert(tmp_path / "s", tmp_path / "d", format=target, progress=remove, **SMALL)
    assert (tmp_path / "away").exists() and zvcore.verify(tmp_path / "d").status == "unfinished"
    os.rename(tmp_path / "away", tmp_path / "s")
    assert zvcore.convert(tmp_path / "s", tmp_path / "d", format=target, verify=True, **SMALL).ok


def test_a_source_that_is_replaced_is_told(tmp_path: Path) -> None:
    source(tmp_path / "s", "zarr3")

    def replace(done: int, total: int) -> None:
        if done == 1:
            zvcore.create(
                tmp_path / "s", format="zarr3", shape=(32, 32, 32), dtype="u2", chunks=(16, 16, 16), overwrite=True
            )

    # A unit may end while there is neither.
    with pytest.raises((ConflictError, NotFoundError), match=r"another array has taken the place|removed meanwhile"):
        zvcore.convert(tmp_path / "s", tmp_path / "d", format="n5", progress=replace, **SMALL)


def test_far_away_it_is_looked_at_in_the_end_and_nothing_counts_as_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over a network, not after each unit, so that it is not known which units have read what was there."""
    store = MemoryStore()
    source(store, "zarr3")
    kept = {key: bytes(store.get(key) or b"") for key in store.list()}
    monkeypatch.setattr(MemoryStore, "remote", True)

    def remove(done: int, total: int) -> None:
        if done == 1:
            store.delete_prefix("")

    with pytest.raises(NotFoundError, match="it was removed meanwhile"):
        zvcore.convert(store, tmp_path / "d", format="n5", progress=remove, **SMALL)
    assert zvcore.verify(tmp_path / "d").status == "unfinished"
    for key, data in kept.items():
        store.put(key, data)
    report = zvcore.convert(store, tmp_path / "d", format="n5", verify=True, **SMALL)
    assert report.ok and report.resumed == 0
