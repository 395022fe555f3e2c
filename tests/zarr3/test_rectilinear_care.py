"""Arrays whose chunks differ in size are checked, repaired, compacted, converted and shown as all others are."""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zvcore
from zvcore.errors import CorruptDataError, NotFoundError, UnsupportedError
from zvcore.pictures import preview
from zvcore.pictures.sizes import chunk_sizes
from zvcore.report import What

if TYPE_CHECKING:
    from pathlib import Path

VALUES = np.arange(30 * 21, dtype="u2").reshape(30, 21) + 1
CHUNKS = [[10, [4, 3], 8], 5]
SHARDS: dict[str, Any] = {"chunks": (2, 3), "shards": [[10, [4, 3], 8], [6, 15]]}


def made(path: Any, **options: Any) -> Any:
    wanted = {"format": "zarr3", "shape": (30, 21), "dtype": "u2", "chunks": CHUNKS, "codec": "gzip", **options}
    array = zvcore.create(path, **wanted)
    array[...] = VALUES
    return array


def spoil(path: Path, at: int = -6) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 0xFF
    path.write_bytes(data)


def test_sound_ones_are_sound(tmp_path: Path) -> None:
    made(tmp_path / "a")
    report = zvcore.verify(tmp_path / "a")
    assert report.ok
    assert report.problems == []
    assert report.counts["chunks"] == 25
    assert report.counts["chunks not stored"] == 0
    made(tmp_path / "b", **SHARDS)
    report = zvcore.verify(tmp_path / "b")
    assert report.ok
    assert report.counts["shards"] == 10
    assert report.counts["chunks"] == 15 * 7
    assert zvcore.verify(tmp_path / "b", fast=True).ok


def test_what_is_not_stored_or_lies_outside_is_told(tmp_path: Path) -> None:
    array = made(tmp_path / "a")
    array.delete_block((1, 1))
    (tmp_path / "a" / "c" / "5").mkdir()
    (tmp_path / "a" / "c" / "5" / "0").write_bytes(b"outside")
    report = zvcore.verify(tmp_path / "a")
    assert report.ok
    assert report.counts["chunks not stored"] == 1
    assert [(one.where, one.kind) for one in report.problems] == [("c/5/0", What.STRAY)]


def test_a_damaged_chunk_is_named_by_its_place_in_the_array_and_taken_out(tmp_path: Path) -> None:
    made(tmp_path / "a", fill_value=7)
    spoil(tmp_path / "a" / "c" / "4" / "3")
    report = zvcore.verify(tmp_path / "a")
    assert [(one.where, one.chunk) for one in report.problems] == [("c/4/3", (4, 3))]
    repaired = zvcore.repair(tmp_path / "a")
    assert [(one.where, one.chunk) for one in repaired.losses] == [("c/4/3", (4, 3))]
    expected = VALUES.copy()
    expected[22:, 15:20] = 7
    assert (zvcore.open(tmp_path / "a")[...] == expected).all()
    assert zvcore.verify(tmp_path / "a").ok


def test_a_damaged_chunk_in_a_shard_is_named_by_its_place_in_the_array_and_taken_out(tmp_path: Path) -> None:
    made(tmp_path / "a", **SHARDS, codec=["gzip", "crc32c"])
    spoil(tmp_path / "a" / "c" / "3" / "1", at=20)
    report = zvcore.verify(tmp_path / "a")
    (problem,) = report.problems
    assert problem.where == "c/3/1"
    # The shard begins in row 18 and column 6, of chunks of 2 by 3.
    assert problem.chunk == (9, 2)
    repaired = zvcore.repair(tmp_path / "a", tmp_path / "b")
    assert [one.chunk for one in repaired.losses] == [(9, 2)]
    expected = VALUES.copy()
    expected[18:20, 6:9] = 0
    assert (zvcore.open(tmp_path / "b")[...] == expected).all()
    assert zvcore.verify(tmp_path / "b").ok
    assert not zvcore.verify(tmp_path / "a").ok


def test_a_shard_without_an_index_is_dropped(tmp_path: Path) -> None:
    made(tmp_path / "a", **SHARDS)
    (tmp_path / "a" / "c" / "4" / "0").write_bytes(b"x" * 40)
    (problem,) = zvcore.verify(tmp_path / "a").problems
    assert problem.kind is What.INDEX
    repaired = zvcore.repair(tmp_path / "a")
    assert [(one.where, one.chunk) for one in repaired.losses] == [("c/4/0", (4, 0))]
    assert (zvcore.open(tmp_path / "a")[22:, :6] == 0).all()


def test_errors_tell_of_chunks_by_their_places_in_the_array(tmp_path: Path) -> None:
    array = made(tmp_path / "a")
    spoil(tmp_path / "a" / "c" / "2" / "3")
    for read in (lambda: array[...], lambda: array.oindex[[3, 15], :], lambda: array.vindex[[15], [16]]):
        with pytest.raises(CorruptDataError) as caught:
            read()
        assert caught.value.chunk == (2, 3)
        assert caught.value.key == "c/2/3"


def test_dead_bytes_go(tmp_path: Path) -> None:
    array = made(tmp_path / "a", **SHARDS, write_mode="append", dead_bytes_threshold=1.0)
    array[10:14] = 9
    array.store.close()
    before = sum(one.stat().st_size for one in (tmp_path / "a" / "c").rglob("*") if one.is_file())
    details = zvcore.inspect(tmp_path / "a")["shard_details"]
    assert len(details) == 10
    assert {key for key, one in details.items() if one["dead"]} == {"c/1/0", "c/1/1"}
    report = zvcore.compact(tmp_path / "a")
    assert report.ok
    assert report.counts["shards rewritten"] == 2
    array.store.close()
    after = sum(one.stat().st_size for one in (tmp_path / "a" / "c").rglob("*") if one.is_file())
    assert before - after == report.counts["bytes saved"] > 0
    expected = VALUES.copy()
    expected[10:14] = 9
    assert (zvcore.open(tmp_path / "a")[...] == expected).all()


def test_an_array_compacts_itself(tmp_path: Path) -> None:
    array = made(tmp_path / "a", **SHARDS, write_mode="append", dead_bytes_threshold=1.0)
    array[10:14] = 9
    assert array.compact() > 0
    assert array.compact() == 0


@pytest.mark.parametrize("asked", [{"chunks": [[10, 20], 5]}, {"chunks": (5, 5), "shards": ((10, 20), 5)}])
def test_conversions_say_that_they_make_no_such_arrays(tmp_path: Path, asked: Any) -> None:
    zvcore.create(tmp_path / "a", format="zarr3", shape=(30, 5), dtype="u2", chunks=(10, 5))[...] = 1
    with pytest.raises(UnsupportedError, match="chunks of one size"):
        zvcore.convert(tmp_path / "a", tmp_path / "b", format="zarr3", **asked)
    assert not (tmp_path / "b").exists()


@pytest.mark.parametrize("format", ["zarr3", "zarr2", "n5"])
@pytest.mark.parametrize("sharded", [False, True])
def test_they_are_converted_to_chunks_of_one_size(tmp_path: Path, format: str, sharded: bool) -> None:
    made(tmp_path / "a", fill_value=0, **(SHARDS if sharded else {}))
    report = zvcore.convert(tmp_path / "a", tmp_path / "b", format=format, verify=True)
    assert report.verified
    assert report.bytes_in > 0
    array = zvcore.open(tmp_path / "b")
    found = array[...]
    assert (found == (VALUES.T if format == "n5" else VALUES)).all()
    longest = (2, 3) if sharded else (10, 5)
    assert array.chunks == (longest[::-1] if format == "n5" else longest)
    assert array.shards == ((10, 15) if sharded and format == "zarr3" else None)


def test_a_region_and_other_chunks(tmp_path: Path) -> None:
    made(tmp_path / "a")
    zvcore.convert(tmp_path / "a", tmp_path / "b", format="zarr3", region=np.s_[5:25, 3], chunks=(7,), verify=True)
    assert (zvcore.open(tmp_path / "b")[...] == VALUES[5:25, 3]).all()
    zvcore.convert(tmp_path / "a", tmp_path / "c", format="zarr3", chunks=(16, 16), shards=(32, 32), dtype="f4")
    assert (zvcore.open(tmp_path / "c")[...] == VALUES).all()


def test_where_little_is_stored_little_is_done(tmp_path: Path) -> None:
    shape = (3_000_000, 4)
    array = zvcore.create(
        tmp_path / "a", format="zarr3", shape=shape, dtype="u1", chunks=[[[10, 100_000], [20, 100_000]], 2], codec=None
    )
    places = [(3, 1), (999_995, 0), (1_000_019, 3), (2_999_999, 2)]
    for number, place in enumerate(places):
        array[place] = number + 1
    report = zvcore.convert(tmp_path / "a", tmp_path / "b", format="zarr3", chunks=(20, 2), codec=None, verify=True)
    assert report.verified
    assert 0 < report.units < 20
    copied = zvcore.open(tmp_path / "b")
    assert [copied[place] for place in places] == [1, 2, 3, 4]
    assert len(list(copied.store.list("c"))) == 4


def test_their_levels_are_made(tmp_path: Path) -> None:
    zvcore.create(tmp_path / "a", format="zarr3", shape=(40, 40), dtype="u1", chunks=[[10, 30], [[8, 5]]])[...] = 5
    zvcore.convert(tmp_path / "a", tmp_path / "b", format="zarr3", levels=1)
    levels = [one for _, one in sorted(zvcore.open(tmp_path / "b").items())]
    assert [one.shape for one in levels] == [(40, 40), (20, 20)]
    assert all((one[...] == 5).all() for one in levels)


def test_pictures_show_them_and_how_large_their_chunks_are(tmp_path: Path) -> None:
    array = made(tmp_path / "a")
    assert preview(array).shape[:2] == (30, 21)
    sizes = chunk_sizes(array)
    assert sizes.chunks == len(sizes.stored) == 25
    assert sorted(set(sizes.decoded.tolist())) == [4 * 2, 8 * 2, 10 * 2, 4 * 5 * 2, 8 * 5 * 2, 10 * 5 * 2]
    assert int(sizes.decoded.sum()) == VALUES.nbytes
    found = [(tmp_path / "a" / "c" / str(i) / str(j)).stat().st_size for i, j in itertools.product(range(5), range(5))]
    assert sorted(sizes.stored.tolist()) == sorted(found)


def test_what_others_say_of_a_grid_stays_when_it_grows(tmp_path: Path) -> None:
    made(tmp_path / "a")
    there = tmp_path / "a" / "zarr.json"
    document = json.loads(there.read_text())
    document["chunk_grid"] |= {"by": "me"}
    document["chunk_grid"]["configuration"] |= {"origin": 0}
    there.write_text(json.dumps(document))
    zvcore.open(tmp_path / "a", "r+").resize((40, 21))
    grid = json.loads(there.read_text())["chunk_grid"]
    assert grid["by"] == "me" and grid["configuration"]["origin"] == 0
    assert grid["configuration"]["chunk_shapes"] != document["chunk_grid"]["configuration"]["chunk_shapes"]


def test_a_neighbour_who_has_resized_in_the_meantime_is_not_overruled(tmp_path: Path) -> None:
    ours = made(tmp_path / "a")
    theirs = zvcore.open(tmp_path / "a", mode="r+")
    theirs.resize((40, 21))
    theirs[30:] = 3
    ours.resize((50, 21))
    assert ours.edges[0] == [(10, 1), (4, 3), (8, 1), (10, 2)]
    assert (zvcore.open(tmp_path / "a")[30:40] == 3).all()
    assert zvcore.verify(tmp_path / "a").ok


def test_progress_is_told_of_all_chunks(tmp_path: Path) -> None:
    array = made(tmp_path / "a")
    told: list[tuple[int, int]] = []
    array.read(np.s_[5:, :], progress=lambda done, total: told.append((done, total)))
    assert told[-1] == (25, 25)
    assert {total for _, total in told} == {25}
    assert [done for done, _ in told] == sorted(done for done, _ in told)


def test_what_is_left_behind_the_edges_hinders_no_look_at_the_rest(tmp_path: Path) -> None:
    made(tmp_path / "a", **SHARDS)
    (tmp_path / "a" / "c" / "9").mkdir()
    for stray in ("c/9/0", "c/1/7"):
        (tmp_path / "a" / stray).write_bytes((tmp_path / "a" / "c" / "1" / "0").read_bytes())
        with pytest.raises(NotFoundError, match=f"{stray}.*outside of the array"):
            zvcore.inspect(tmp_path / "a" / stray)
    found = zvcore.inspect(tmp_path / "a")
    assert len(found["shard_details"]) == 10 and found["objects"] == 12
    report = zvcore.verify(tmp_path / "a")
    assert report.ok and {one.where for one in report.problems} == {"c/9/0", "c/1/7"}
    assert zvcore.compact(tmp_path / "a").ok
