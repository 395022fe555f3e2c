"""Many regions written at once leave what writing one after the other leaves, and each chunk is replaced once."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st

import zvcore
from tests.engine.test_regions import KINDS, REGIONS, SHAPE, made, overlapping
from tests.examples import examples
from tests.processes import finish, start
from zvcore import transfer
from zvcore.errors import CorruptDataError, ReadOnlyError, UnsupportedError
from zvcore.stores import LocalStore, MemoryStore

if TYPE_CHECKING:
    from pathlib import Path


def numbers_for(values: Any, regions: list[Any], seed: int = 4) -> list[Any]:
    rng = np.random.default_rng(seed)
    return [rng.integers(0, 3, np.shape(values[region])).astype(values.dtype) for region in regions]


def agree(array: Any, values: Any, regions: list[Any]) -> None:
    given = numbers_for(values, regions)
    array.write_regions(regions, given)
    for region, one in zip(regions, given, strict=True):
        values[region] = one
    assert np.array_equal(array[...], values)


@pytest.fixture(scope="module")
def arrays(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Any, Any]]:
    return {kind: made(tmp_path_factory.mktemp("regions") / "a", kind) for kind in KINDS}


@pytest.mark.parametrize("kind", KINDS)
@examples(30)
@given(regions=REGIONS, seed=st.integers(0, 9))
def test_they_are_written_in_their_order(
    arrays: dict[str, tuple[Any, Any]], kind: str, regions: list[Any], seed: int
) -> None:
    array, values = arrays[kind]
    agree(array, values, regions)
    assert np.array_equal(zvcore.open(array.store.root)[...], values)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("place", ["files", "memory", "far"])
def test_chunks_that_many_share(kind: str, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some of the chunks are covered by one of the regions, and some lie beyond the end in part."""
    if place == "far":
        monkeypatch.setattr(LocalStore, "remote", True)
        monkeypatch.setattr(LocalStore, "local_root", None)
    array, values = made(MemoryStore() if place == "memory" else tmp_path / "a", kind)
    agree(array, values, overlapping(60))
    agree(array, values, [np.s_[30:], *overlapping(20), np.s_[0:16, 0:16, 16:], ...])
    agree(array, values, [np.s_[0:20, 3:24, 0:23], np.s_[::3, 4, ::-1], *overlapping(9)])


def test_each_object_is_put_once(monkeypatch: pytest.MonkeyPatch) -> None:
    array, values = made(MemoryStore(), "chunks")
    put: list[str] = []
    plain = MemoryStore.put_each

    def counting(self: MemoryStore, given: Any) -> Any:
        put.extend(key for key, *_ in given)
        return plain(self, given)

    monkeypatch.setattr(MemoryStore, "put_each", counting)
    agree(array, values, overlapping(200))
    assert len(put) == len(set(put)) > 50


def test_values_are_cast_and_broadcast(tmp_path: Path) -> None:
    array, values = made(tmp_path / "a", "chunks")
    array.write_regions([np.s_[:9], np.s_[5, :, :4], (1, 2, 3), np.s_[20:]], [7, np.arange(4.0), 9, np.uint8(3)])
    values[:9] = 7
    values[5, :, :4] = np.arange(4)
    values[1, 2, 3] = 9
    values[20:] = 3
    assert np.array_equal(array[...], values)


def test_what_does_not_fit(tmp_path: Path) -> None:
    array, values = made(tmp_path / "a", "chunks")
    with pytest.raises(ValueError, match=r"shape|broadcast"):
        array.write_regions([np.s_[:2], np.s_[2:4]], [1, np.zeros(5)])
    with pytest.raises(ValueError, match="argument"):
        array.write_regions([np.s_[:2], np.s_[2:4]], [1])
    with pytest.raises(IndexError):
        array.write_regions([np.s_[:2], 99], [1, 1])
    with pytest.raises(ReadOnlyError):
        zvcore.open(tmp_path / "a").write_regions([np.s_[:2], np.s_[2:4]], [1, 2])
    array.write_regions([], [])
    assert np.array_equal(array[...], values)


def test_chunks_that_become_empty_are_removed(tmp_path: Path) -> None:
    array, values = made(tmp_path / "a", "chunks")
    agreed = [np.s_[0:8, 0:8, 0:8], np.s_[0:4, 8:16, 0:8], np.s_[4:8, 8:16, 0:8]]
    array.write_regions(agreed, [0, 0, 0])
    values[0:8, 0:16, 0:8] = 0
    assert np.array_equal(array[...], values)
    assert not (tmp_path / "a" / "c" / "0" / "0" / "0").exists()
    assert not (tmp_path / "a" / "c" / "0" / "1" / "0").exists()


def test_more_chunks_than_are_written_at_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    array, values = made(tmp_path / "a", "chunks")
    monkeypatch.setattr("zvcore.transfer.regions.BATCH_CHUNKS", 100)
    agree(array, values, [*overlapping(40), np.s_[3:30]])


def test_volumes_and_pieces(tmp_path: Path) -> None:
    regions = [np.s_[3:20, 4:9, 5:19], np.s_[30:, :, 3, 1], np.s_[..., 2], np.s_[3:20, 4:9, 5:19, :2]]
    volume = zvcore.create(tmp_path / "v", format="precomputed", shape=(40, 30, 20, 3), dtype="u1", chunks=(16, 16, 16))
    agree(volume, np.zeros((40, 30, 20, 3), "u1"), regions)
    edges = [[5, 10, 25], [30], [20], [3]]
    pieces = zvcore.create(tmp_path / "r", format="zarr3", shape=(40, 30, 20, 3), dtype="u1", chunks=edges)
    agree(pieces, np.zeros((40, 30, 20, 3), "u1"), regions)
    asyncio.run(pieces.awrite(regions[0], 9))
    assert (pieces[regions[0]] == 9).all()


def test_what_only_python_encodes(tmp_path: Path) -> None:
    zarr.create_array(tmp_path / "w", shape=(9, 9), dtype=str, chunks=(4, 4))
    words = zvcore.open(tmp_path / "w", mode="r+")
    assert words.layout.value_codec is not None
    words.write_regions([np.s_[:5], np.s_[3:, 2:8]], ["one", "two"])
    expected = np.full((9, 9), "", object)
    expected[:5] = "one"
    expected[3:, 2:8] = "two"
    assert words[...].tolist() == expected.tolist()
    assert [one.tolist() for one in words.read_regions([np.s_[4], np.s_[:, 2]])] == [
        expected[4].tolist(),
        expected[:, 2].tolist(),
    ]


def test_blocks_of_strings_have_no_regions(tmp_path: Path) -> None:
    zvcore.create(tmp_path / "s", format="n5", shape=(4, 4), dtype="u1", chunks=(2, 2))
    document = tmp_path / "s" / "attributes.json"
    document.write_text(document.read_text().replace("uint8", "string"))
    with pytest.raises(UnsupportedError):
        zvcore.open(tmp_path / "s", mode="r+").write_regions([np.s_[:2], np.s_[2:]], [1, 2])


def test_a_damaged_chunk_is_named(tmp_path: Path) -> None:
    array, _ = made(tmp_path / "a", "chunks")
    path = tmp_path / "a" / "c" / "1" / "1" / "1"
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(CorruptDataError, match="c/1/1/1"):
        array.write_regions(overlapping(60), [1] * 60)


WRITING = """
    import sys
    import zvcore
    path, number, lines = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    array = zvcore.open(path, mode="r+")
    regions = range(number, lines, 2)
    for turn in range(1, 6):
        array.write_regions(regions, [turn * 100 + number] * len(regions))
"""


@pytest.mark.parametrize("kind", ["chunks", "shards", "raw shards", "n5", "columns"])
def test_two_processes_lose_nothing_of_each_other(kind: str, tmp_path: Path) -> None:
    """They share every chunk."""
    made(tmp_path / "a", kind)
    writers = [start(WRITING, tmp_path / "a", number, SHAPE[0]) for number in range(2)]
    for writer in writers:
        finish(writer)
    found = zvcore.open(tmp_path / "a")[...]
    for number in range(2):
        assert (found[number::2] == 500 + number).all()


# --- awaited


def test_what_is_awaited_together_is_written_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    array, values = made(tmp_path / "a", "chunks")
    calls: list[int] = []
    plain = transfer.write_regions

    def counting(layout: Any, selections: Any, given: Any, work: Any) -> None:
        calls.append(len(selections))
        plain(layout, selections, given, work)

    monkeypatch.setattr(transfer, "write_regions", counting)
    regions = overlapping(60)
    given = numbers_for(values, regions)

    async def all_of_them() -> None:
        await asyncio.gather(*[array.awrite(region, one) for region, one in zip(regions, given, strict=True)])

    asyncio.run(all_of_them())
    for region, one in zip(regions, given, strict=True):
        values[region] = one
    assert np.array_equal(array[...], values)
    assert calls == [60]


def test_an_error_is_of_those_whose_it_is(tmp_path: Path) -> None:
    array, values = made(tmp_path / "a", "chunks")
    path = tmp_path / "a" / "c" / "1" / "1" / "1"
    path.write_bytes(path.read_bytes()[:-3])

    async def all_of_them() -> Any:
        calls = [
            array.awrite(np.s_[0:3, 0:8, 0:8], 5),
            array.awrite(np.s_[9:12, 9:12, 9:12], 5),
            array.awrite(99, 5),
            array.awrite(np.s_[30:37, 0:8, 0:8], 5),
            array.awrite(np.s_[20, :8, 0:8], np.zeros(4)),
        ]
        return await asyncio.gather(*calls, return_exceptions=True)

    first, damaged, outside, last, odd = asyncio.run(all_of_them())
    assert first is None
    assert last is None
    assert isinstance(damaged, CorruptDataError)
    assert isinstance(outside, IndexError)
    assert isinstance(odd, ValueError)
    assert (array[0:3, 0:8, 0:8] == 5).all()
    assert (array[30:37, 0:8, 0:8] == 5).all()
    assert np.array_equal(array[3:8, 0:8, 0:8], values[3:8, 0:8, 0:8])
