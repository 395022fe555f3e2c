"""Chunks of shards that were read from before: found without asking again, and never those of something else."""

from __future__ import annotations

import json
import os
import pickle
import shutil
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zvcore
from tests.settling import wait_until_settled
from zvcore.errors import ConflictError
from zvcore.stores import MemoryStore
from zvcore.stores.indexes import index_cache

if TYPE_CHECKING:
    from pathlib import Path

    from zvcore.array import Array

SHAPE = (40, 48)
VALUES = np.arange(40 * 48, dtype=np.uint32).reshape(SHAPE)
# Several chunks of several shards, several of one, and part of a single chunk.
REGIONS = {"box": np.s_[3:37, 5:41], "shard": np.s_[0:16, 8:24], "chunk": np.s_[2:5, 9:14]}


def make(path: Path, values: Any = VALUES, **options: Any) -> None:
    options = {"chunks": (8, 8), "shards": (16, 24), "codec": "raw"} | options
    array = zvcore.create(path, format="zarr3", shape=values.shape, dtype=values.dtype, **options)
    array[...] = values
    wait_until_settled(path)


def asking(array: Array) -> list[int]:
    """A list that grows with each time that it is asked anew where chunks are."""
    asked: list[int] = []
    locate, open_shard = array.layout.locate, array.layout.open_shard

    def located(positions: Any) -> Any:
        asked.append(len(positions))
        return locate(positions)

    def opened(positions: Any) -> Any:
        asked.append(len(positions))
        return open_shard(positions)

    layout: Any = array.layout
    layout.locate, layout.open_shard = located, opened
    return asked


@pytest.fixture(params=REGIONS)
def region(request: pytest.FixtureRequest) -> Any:
    return REGIONS[request.param]


def test_shards_are_not_asked_for_again(tmp_path: Path, region: Any) -> None:
    make(tmp_path / "a")
    array = zvcore.open(tmp_path / "a")
    asked = asking(array)
    for _ in range(3):
        np.testing.assert_array_equal(array[region], VALUES[region])
    assert len(asked) == 1


def test_another_array_in_its_place_is_refused_by_every_read(tmp_path: Path, region: Any) -> None:
    """A second read once took what the first had found, and had refused, for the array's."""
    make(tmp_path / "a")
    array = zvcore.open(tmp_path / "a")
    array[region]
    array[region]
    shutil.rmtree(tmp_path / "a")
    make(tmp_path / "a", -VALUES.astype(np.int32))
    for _ in range(4):
        with pytest.raises(ConflictError, match="another array"):
            array[region]


def test_an_array_that_is_there_again_is_read_again(tmp_path: Path, region: Any) -> None:
    make(tmp_path / "a")
    make(tmp_path / "other", -VALUES.astype(np.int32))
    array = zvcore.open(tmp_path / "a")

    def exchange() -> None:
        (tmp_path / "a").rename(tmp_path / "aside")
        (tmp_path / "other").rename(tmp_path / "a")
        (tmp_path / "aside").rename(tmp_path / "other")

    for _ in range(3):
        for _ in range(2):
            np.testing.assert_array_equal(array[region], VALUES[region])
        exchange()
        for _ in range(2):
            with pytest.raises(ConflictError, match="another array"):
                array[region]
        exchange()


@pytest.mark.parametrize("name", ["box", "shard"])
def test_an_array_made_smaller_by_who_leaves_its_shards(tmp_path: Path, name: str) -> None:
    """The shards are what they were: that they are no longer all of the array's, only its document says."""
    make(tmp_path / "a")
    array = zvcore.open(tmp_path / "a")
    for _ in range(2):
        np.testing.assert_array_equal(array[REGIONS[name]], VALUES[REGIONS[name]])
    document = tmp_path / "a" / "zarr.json"
    content = json.loads(document.read_text())
    content["shape"] = [8, 48]
    document.write_text(json.dumps(content))
    for _ in range(2):
        with pytest.raises(ConflictError, match="another shape"):
            array[REGIONS[name]]


def test_a_shard_that_was_written_anew(tmp_path: Path, region: Any) -> None:
    make(tmp_path / "a")
    array = zvcore.open(tmp_path / "a")
    array[region]
    for values in (VALUES + 1, VALUES + 2):
        zvcore.open(tmp_path / "a", mode="r+")[...] = values
        np.testing.assert_array_equal(array[region], values[region])


def test_a_shard_that_was_copied_over_it(tmp_path: Path, region: Any) -> None:
    make(tmp_path / "a")
    make(tmp_path / "b", VALUES + 7)
    array = zvcore.open(tmp_path / "a")
    array[region]
    for shard in sorted((tmp_path / "b" / "c").rglob("*")):
        if shard.is_file():
            shutil.copy(shard, tmp_path / "a" / shard.relative_to(tmp_path / "b"))
    np.testing.assert_array_equal(array[region], VALUES[region] + 7)


def test_shards_and_chunks_that_are_gone(tmp_path: Path, region: Any) -> None:
    make(tmp_path / "a", fill_value=9)
    array = zvcore.open(tmp_path / "a")
    array[region]
    zvcore.open(tmp_path / "a", mode="r+")[0:8, 8:16] = 9
    wanted = VALUES.copy()
    wanted[0:8, 8:16] = 9
    np.testing.assert_array_equal(array[region], wanted[region])
    os.remove(tmp_path / "a" / "c" / "0" / "0")
    wanted[0:16, 0:24] = 9
    for _ in range(2):
        np.testing.assert_array_equal(array[region], wanted[region])


def test_chunks_that_were_missing(tmp_path: Path, region: Any) -> None:
    """Nobody opens the file of a chunk that is missing, so nobody would notice."""
    make(tmp_path / "a", np.zeros(SHAPE, np.uint32))
    writer = zvcore.open(tmp_path / "a", mode="r+")
    writer[8:16, 16:24] = 5
    wait_until_settled(tmp_path / "a")
    array = zvcore.open(tmp_path / "a")
    array[region]
    writer[...] = VALUES
    np.testing.assert_array_equal(array[region], VALUES[region])


def test_indexes_that_are_not_in_memory_any_more(tmp_path: Path, region: Any) -> None:
    make(tmp_path / "a")
    array = zvcore.open(tmp_path / "a")
    for _ in range(2):
        np.testing.assert_array_equal(array[region], VALUES[region])
        index_cache().clear()


def test_what_is_known_stays_in_its_process(tmp_path: Path, region: Any) -> None:
    make(tmp_path / "a")
    array = zvcore.open(tmp_path / "a")
    array[region]
    array[region]
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(array))[region], VALUES[region])


def test_an_array_without_axes(tmp_path: Path) -> None:
    array = zvcore.create(tmp_path / "a", format="zarr3", shape=(), dtype="u2", chunks=(), shards=(), codec="raw")
    array[...] = 6
    wait_until_settled(tmp_path / "a")
    array = zvcore.open(tmp_path / "a")
    for _ in range(3):
        assert array[()] == 6
        assert array.vindex[()] == 6


def far(monkeypatch: pytest.MonkeyPatch, values: Any = VALUES) -> MemoryStore:
    """A store as if it lay behind a network, with an array."""
    monkeypatch.setattr(MemoryStore, "remote", True)
    store = MemoryStore()
    options: Any = {"chunks": (8, 8), "shards": (16, 24), "codec": "raw", "fill_value": 9}
    array = zvcore.create(store, format="zarr3", shape=values.shape, dtype=values.dtype, **options)
    array[...] = values
    return store


def test_shards_far_away_are_not_asked_for_again(monkeypatch: pytest.MonkeyPatch, region: Any) -> None:
    array = zvcore.open(far(monkeypatch))
    asked = asking(array)
    for _ in range(3):
        np.testing.assert_array_equal(array[region], VALUES[region])
    assert len(asked) == 1


def test_shards_far_away_that_somebody_else_has_written(monkeypatch: pytest.MonkeyPatch, region: Any) -> None:
    store, other = far(monkeypatch), far(monkeypatch, VALUES + 3)
    array = zvcore.open(store)
    array[region]
    for key in [key for key in other.list() if key.startswith("c/")]:
        store.put(key, bytes(other.get(key) or b""))
    for _ in range(2):
        np.testing.assert_array_equal(array[region], VALUES[region] + 3)
    for key in [key for key in other.list() if key.startswith("c/")]:
        store.delete(key)
    for _ in range(2):
        assert (array[region] == 9).all()
