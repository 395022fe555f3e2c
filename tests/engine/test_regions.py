"""Many regions at once are what each would be by itself, and each of their chunks is read once."""

from __future__ import annotations

import asyncio
import gc
import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import zvcore
from tests.examples import examples
from zvcore import transfer
from zvcore.engine.selection import Selection
from zvcore.errors import ConflictError, CorruptDataError, UnsupportedError
from zvcore.stores import LocalStore, MemoryStore

if TYPE_CHECKING:
    from pathlib import Path

SHAPE = (37, 29, 23)
KINDS: dict[str, dict[str, Any]] = {
    "chunks": {"format": "zarr3", "chunks": (8, 8, 8), "codec": "zstd"},
    "raw chunks": {"format": "zarr3", "chunks": (16, 16, 16), "codec": "raw"},
    "shards": {"format": "zarr3", "chunks": (4, 4, 4), "shards": (16, 16, 16), "codec": "zstd"},
    "raw shards": {"format": "zarr3", "chunks": (8, 8, 8), "shards": (16, 16, 16), "codec": "raw"},
    "n5": {"format": "n5", "chunks": (8, 9, 10), "codec": "gzip"},
    "columns": {"format": "zarr2", "chunks": (8, 8, 8), "order": "F", "codec": "blosc"},
    "other bytes": {"format": "zarr2", "chunks": (8, 8, 8), "dtype": ">u4", "codec": "raw"},
}


def made(place: Any, kind: str) -> tuple[Any, Any]:
    options = {"dtype": "u4", **KINDS[kind]}
    array = zvcore.create(place, shape=SHAPE, **options)
    values = np.arange(1, np.prod(SHAPE) + 1, dtype="u4").reshape(SHAPE)
    values[16:32, :16, 0:8] = 0  # not stored
    array[...] = values
    return array, values


def agree(array: Any, values: Any, regions: list[Any]) -> None:
    found = array.read_regions(regions)
    assert len(found) == len(regions)
    for region, one in zip(regions, found, strict=True):
        expected = values[region]
        assert np.shape(one) == np.shape(expected)
        assert np.array_equal(one, expected), region


@pytest.fixture(scope="module")
def arrays(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Any, Any]]:
    return {kind: made(tmp_path_factory.mktemp("regions") / "a", kind) for kind in KINDS}


def axis_keys(length: int) -> st.SearchStrategy[Any]:
    ends = st.one_of(st.none(), st.integers(-length - 2, length + 2))
    steps = st.sampled_from([None, 1, 1, 2, 3, 11, -1, -2, -9])
    return st.one_of(st.builds(slice, ends, ends, steps), st.integers(-length, length - 1))


REGIONS = st.lists(
    st.one_of(
        st.tuples(*map(axis_keys, SHAPE)),
        axis_keys(SHAPE[0]),
        st.just(...),
        st.tuples(st.just(...), axis_keys(SHAPE[-1])),
    ),
    max_size=12,
)


@pytest.mark.parametrize("kind", KINDS)
@examples(40)
@given(regions=REGIONS)
def test_they_are_what_each_is_by_itself(arrays: dict[str, tuple[Any, Any]], kind: str, regions: list[Any]) -> None:
    agree(*arrays[kind], regions)


def overlapping(count: int, edge: int = 7) -> list[tuple[slice, ...]]:
    starts = np.random.default_rng(2).integers(0, np.array(SHAPE) - edge, (count, 3)).tolist()
    return [tuple(slice(start, start + edge) for start in box) for box in starts]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("threads", [1, 3])
def test_chunks_that_many_share(arrays: dict[str, tuple[Any, Any]], kind: str, threads: int) -> None:
    array, values = arrays[kind]
    regions = overlapping(60)
    found = array.read_regions(regions, threads=threads)
    assert all(np.array_equal(one, values[region]) for region, one in zip(regions, found, strict=True))
    assert {one.flags.f_contiguous for one in found} == {array[regions[0]].flags.f_contiguous}


def test_none_and_items_and_arrays_without_axes(tmp_path: Path) -> None:
    array, values = made(tmp_path / "a", "chunks")
    assert array.read_regions([]) == []
    items = array.read_regions([(1, 2, 3), (4, 5, 6)])
    assert items == [values[1, 2, 3], values[4, 5, 6]]
    assert all(isinstance(item, np.uint32) for item in items)
    point = zvcore.create(tmp_path / "p", format="zarr3", shape=(), dtype="f4", fill_value=7)
    assert [float(one) for one in point.read_regions([(), ..., ()])] == [7, 7, 7]
    for wrong in ([(1, 2, 3, 4)], [0, 99], [[1, 2]]):
        with pytest.raises(IndexError):
            array.read_regions(wrong)


@pytest.mark.parametrize("kind", ["chunks", "shards", "n5", "raw chunks"])
def test_in_windows(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """A store that is neither of files nor far away gives a few chunks at a time."""
    array, values = made(MemoryStore(), kind)
    monkeypatch.setattr("zvcore.transfer.reading.BATCH_BYTES", 5000)
    agree(array, values, [*overlapping(40), ..., np.s_[3], np.s_[::9, 4, ::-1]])


@pytest.mark.parametrize("kind", KINDS)
def test_far_away(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: str) -> None:
    monkeypatch.setattr(LocalStore, "remote", True)
    monkeypatch.setattr(LocalStore, "local_root", None)
    array, values = made(tmp_path / "a", kind)
    agree(array, values, [*overlapping(40), ..., np.s_[:, 4, :5]])


def test_each_chunk_is_asked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    array, values = made(MemoryStore(), "chunks")
    asked: list[str] = []
    plain = MemoryStore.get_many

    def counting(self: MemoryStore, keys: Any) -> Any:
        asked.extend(keys)
        return plain(self, keys)

    monkeypatch.setattr(MemoryStore, "get_many", counting)
    agree(array, values, overlapping(200))
    chunks = [key for key in asked if key.startswith("c/")]
    assert len(chunks) == len(set(chunks)) > 50


def test_more_chunks_than_are_read_at_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    array, values = made(tmp_path / "a", "chunks")
    monkeypatch.setattr("zvcore.transfer.regions.BATCH_CHUNKS", 100)
    agree(array, values, [*overlapping(40), ...])
    monkeypatch.setattr("zvcore.transfer.regions.BATCH_CHUNKS", 1)
    agree(array, values, [..., ..., np.s_[3:5]])


def test_volumes_pieces_and_what_only_python_reads(tmp_path: Path) -> None:
    volume = zvcore.create(tmp_path / "v", format="precomputed", shape=(40, 30, 20, 3), dtype="u1", chunks=(16, 16, 16))
    values = np.random.default_rng(1).integers(0, 250, (40, 30, 20, 3)).astype("u1")
    volume[...] = values
    regions = [np.s_[3:20, 4:9, 5:19], np.s_[30:, :, 3, 1], np.s_[..., 2], np.s_[3:20, 4:9, 5:19, :2]]
    agree(volume, values, regions)
    np.save(tmp_path / "n.npy", values)
    agree(zvcore.open(tmp_path / "n.npy"), values, regions)
    edges = [[5, 10, 25], [30], [20], [3]]
    pieces = zvcore.create(tmp_path / "r", format="zarr3", shape=(40, 30, 20, 3), dtype="u1", chunks=edges)
    pieces[...] = values
    agree(pieces, values, regions)
    assert np.array_equal(asyncio.run(pieces.aread(regions[0])), values[regions[0]])


def test_blocks_of_strings_have_no_regions(tmp_path: Path) -> None:
    zvcore.create(tmp_path / "s", format="n5", shape=(4, 4), dtype="u1", chunks=(2, 2))
    document = tmp_path / "s" / "attributes.json"
    document.write_text(document.read_text().replace("uint8", "string"))
    strings = zvcore.open(tmp_path / "s")
    with pytest.raises(UnsupportedError):
        strings.read_regions([np.s_[:2], np.s_[2:]])


@pytest.mark.parametrize("size", [(8, 7, 6), (5, 9, 10), (20, 9, 10), (0, 3, 3)])
def test_blocks_of_other_sizes(tmp_path: Path, size: tuple[int, ...]) -> None:
    array, _ = made(tmp_path / "a", "n5")
    block = np.arange(1, np.prod(size) + 1).astype(">u4").reshape(size, order="F")
    encoded = zvcore.codecs.get("gzip").encode(block.tobytes(order="F"))
    header = np.array([0, 3], ">u2").tobytes() + np.array(size, ">u4").tobytes()
    (tmp_path / "a" / "1" / "1" / "0").write_bytes(header + bytes(encoded))
    agree(array, array[...], overlapping(60))


def test_a_damaged_chunk_is_named(tmp_path: Path) -> None:
    array, values = made(tmp_path / "a", "chunks")
    path = tmp_path / "a" / "c" / "1" / "1" / "1"
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(CorruptDataError, match="c/1/1/1"):
        array.read_regions(overlapping(60))
    agree(array, values, [np.s_[:8], np.s_[16:30], np.s_[3:8, 4:9]])


def test_an_array_that_was_shortened_meanwhile(tmp_path: Path) -> None:
    array, _ = made(tmp_path / "a", "chunks")
    zvcore.open(tmp_path / "a", mode="r+").resize((20, 29, 23))
    with pytest.raises(ConflictError):
        array.read_regions([np.s_[:8], np.s_[25:30]])


def test_selections_that_are_no_regions(tmp_path: Path) -> None:
    array, _ = made(tmp_path / "a", "chunks")
    lists = Selection.orthogonal(([1, 2], 3, 4), SHAPE, (8, 8, 8))
    outs = [np.empty(lists.result_shape, "u4")] * 2
    with pytest.raises(ValueError, match="integers and slices"):
        transfer.read_regions(array.layout, [lists, lists], outs, array._work_with(1))


# --- awaited


def test_what_is_awaited_together_is_read_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    array, values = made(tmp_path / "a", "chunks")
    calls: list[int] = []
    plain = transfer.read_regions

    def counting(layout: Any, selections: Any, outs: Any, work: Any) -> bool:
        calls.append(len(selections))
        return plain(layout, selections, outs, work)

    monkeypatch.setattr(transfer, "read_regions", counting)
    regions = overlapping(60)

    async def all_of_them() -> Any:
        return await asyncio.gather(*[array.aread(region) for region in regions])

    found = asyncio.run(all_of_them())
    assert all(np.array_equal(one, values[region]) for region, one in zip(regions, found, strict=True))
    assert calls == [60]


def test_who_asks_for_much_gets_it_in_portions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    array, values = made(tmp_path / "a", "chunks")
    monkeypatch.setattr("zvcore.together._PORTION", 3000)
    regions = [*overlapping(20), ..., np.s_[4]]

    async def all_of_them() -> Any:
        return await asyncio.gather(*[array.aread(region) for region in regions])

    found = asyncio.run(all_of_them())
    assert all(np.array_equal(one, values[region]) for region, one in zip(regions, found, strict=True))


def test_an_error_is_of_those_whose_it_is(tmp_path: Path) -> None:
    array, values = made(tmp_path / "a", "chunks")
    path = tmp_path / "a" / "c" / "1" / "1" / "1"
    path.write_bytes(path.read_bytes()[:-3])
    regions = [np.s_[0:8, 0:8, 0:8], np.s_[9:12, 9:12, 9:12], 99, np.s_[30:37, 0:8, 0:8], np.s_[8:12, 8:12, 0:12]]

    async def all_of_them() -> Any:
        return await asyncio.gather(*[array.aread(region) for region in regions], return_exceptions=True)

    sound, damaged, outside, another, also = asyncio.run(all_of_them())
    assert np.array_equal(sound, values[regions[0]])
    assert np.array_equal(another, values[regions[3]])
    assert isinstance(outside, IndexError)
    for one in (damaged, also):
        assert isinstance(one, CorruptDataError)
        assert "c/1/1/1" in str(one)


def test_who_gives_up_is_not_waited_for(tmp_path: Path) -> None:
    array, values = made(tmp_path / "a", "chunks")

    async def some_of_them() -> Any:
        tasks = [asyncio.ensure_future(array.aread(n)) for n in range(6)]
        await asyncio.sleep(0)
        tasks[1].cancel()
        await asyncio.sleep(0)
        tasks[2].cancel()
        return await asyncio.gather(*tasks, return_exceptions=True)

    found = asyncio.run(some_of_them())
    for n, one in enumerate(found):
        assert isinstance(one, asyncio.CancelledError) if n in (1, 2) else np.array_equal(one, values[n])


def test_loops_in_many_threads(tmp_path: Path) -> None:
    array, values = made(tmp_path / "a", "shards")
    other, _ = made(tmp_path / "b", "chunks")
    found: list[Any] = []

    async def some() -> Any:
        return await asyncio.gather(*[one.aread(n) for n in range(30) for one in (array, other)])

    threads = [threading.Thread(target=lambda: found.append(asyncio.run(some()))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 6
    for results in found:
        assert all(np.array_equal(one, values[i // 2]) for i, one in enumerate(results))


def test_nothing_is_left_of_loops_that_ended(tmp_path: Path) -> None:
    from zvcore import together

    array, _ = made(tmp_path / "a", "chunks")

    async def cut_off() -> None:
        reading = asyncio.ensure_future(array.aread(3))
        await asyncio.sleep(0)
        assert not reading.done()

    for _ in range(3):
        asyncio.run(cut_off())
    gc.collect()
    assert not together._asked


def test_many_arrays_at_once(tmp_path: Path) -> None:
    """Those of this machine are read by a few threads, one after the other."""
    arrays = [zvcore.create(tmp_path / str(n), format="zarr3", data=np.full((9, 9), n, "u2")) for n in range(30)]

    async def all_of_them() -> Any:
        await asyncio.gather(*[array.awrite(np.s_[:2], n + 100) for n, array in enumerate(arrays)])
        return await asyncio.gather(*[array.aread(np.s_[k]) for array in arrays for k in range(4)])

    found = asyncio.run(all_of_them())
    assert [int(one[0]) for one in found] == [n + 100 * (k < 2) for n in range(30) for k in range(4)]


def test_no_thread_to_be_had(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    array, _ = made(tmp_path / "a", "chunks")

    async def refused(*_: Any) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("zvcore.together.in_a_thread", refused)

    async def two() -> Any:
        return await asyncio.gather(array.aread(3), array.aread(4), return_exceptions=True)

    for one in asyncio.run(two()):
        assert isinstance(one, RuntimeError)
