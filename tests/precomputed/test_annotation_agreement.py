"""One index of annotations is proved by the other: what is listed is in the index by id, as the same record."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zvcore
from tests.precomputed.annotations import made, rewritten, without_the_last
from zvcore.precomputed import ShardedStore
from zvcore.precomputed.annotation_values import IndexValues
from zvcore.report import What
from zvcore.stores import LocalStore

if TYPE_CHECKING:
    from pathlib import Path

TYPES = ("point", "line", "ellipsoid", "polyline")


def told(path: Path) -> list[tuple[str, str]]:
    report = zvcore.verify(path)
    assert all(one.kind is What.DISAGREEMENT for one in report.problems), report
    assert all(one.fatal for one in report.problems), report
    return [(one.where.partition("/")[0], one.what) for one in report.problems]


@pytest.mark.parametrize("sharding", [None, "advise"])
@pytest.mark.parametrize("type", TYPES)
def test_what_was_written_agrees(type: str, sharding: Any, tmp_path: Path) -> None:
    count = 300 if sharding is None else 1500
    found = made(tmp_path, type, count, sharding)
    assert (found._info.by_id.sharding is None) == (sharding is None)
    report = zvcore.verify(tmp_path)
    assert report.ok and not report.problems


def test_an_annotation_that_the_index_by_id_has_lost_is_named_and_put_back(tmp_path: Path) -> None:
    before = made(tmp_path / "a")
    wanted = before.get_many(before.ids())
    id = 5 + 2**52 * 2
    stored = (tmp_path / "a/by_id" / str(id)).read_bytes()
    (tmp_path / "a/by_id" / str(id)).unlink()
    found = told(tmp_path / "a")
    assert {what for _, what in found} == {f"annotation {id} is not in the index by id"}
    assert {where.rstrip("0123456789") for where, _ in found} == {"rel_segments", "spatial"}
    assert zvcore.verify(tmp_path / "a", fast=True).ok
    report = zvcore.repair(tmp_path / "a", tmp_path / "b")
    assert report.counts["annotations put back"] == 1
    assert zvcore.verify(tmp_path / "b").ok
    # The order of segments is lost with it, and how often each was given.
    again = zvcore.open(tmp_path / "b").get_many(wanted["id"])
    np.testing.assert_array_equal(again["point"], wanted["point"])
    segments = [[{*row} for row in one["segments"].tolist()] for one in (again, wanted)]
    assert segments[0] == segments[1]
    assert (tmp_path / "b/by_id" / str(id)).read_bytes()[:16] == stored[:16]


def test_a_lost_shard_of_the_index_by_id_is_put_back(tmp_path: Path) -> None:
    before = made(tmp_path / "a", "line", 1500, "advise")
    wanted = before.get_many(before.ids())
    for shard in (tmp_path / "a/by_id").glob("*.shard"):
        shard.unlink()
    assert len(told(tmp_path / "a")) > 1500
    zvcore.repair(tmp_path / "a")
    assert zvcore.verify(tmp_path / "a").ok
    again = zvcore.open(tmp_path / "a").get_many(wanted["id"])
    for name in ("id", "point_a", "point_b", "size"):
        np.testing.assert_array_equal(again[name], wanted[name])


@pytest.mark.parametrize("sharding", [None, "advise"])
def test_another_record_and_another_relation_are_told(sharding: Any, tmp_path: Path) -> None:
    found = made(tmp_path, "point", 1500, sharding)
    first = next(id for id in found.ids().tolist() if len(found[id]["segments"][0]))
    segment = int(found[first]["segments"][0][0])
    data = struct.pack("<4f", 1, 2, 3, 4) + struct.pack("<IQ", 1, 77)
    if sharding is None:
        (tmp_path / "by_id" / str(first)).write_bytes(data)
    else:
        ShardedStore(tmp_path / "by_id", found._info.by_id.sharding, "r+").update({first: data})
    report = zvcore.verify(tmp_path)
    assert {one.what for one in report.problems} == {
        f"annotation {first} has another record in the index by id",
        f"annotation {first} is not related to the segment by the index by id",
        f"annotation {first} is not in the list of segment 77 in rel_segments, to which it is related",
    }
    assert segment in {one.chunk for one in report.problems}
    # Which is right cannot be known: nothing is changed.
    zvcore.repair(tmp_path)
    assert len(zvcore.verify(tmp_path).problems) == len(report.problems)


def test_what_cannot_be_read_is_told_once_and_the_rest_still_compared(tmp_path: Path) -> None:
    found = made(tmp_path)
    ids = found.ids().tolist()
    (tmp_path / "by_id" / str(ids[4])).write_bytes(b"broken")
    (tmp_path / "by_id" / str(ids[7])).unlink()
    problems = zvcore.verify(tmp_path).problems
    assert {one.what for one in problems if one.kind is What.DISAGREEMENT} == {
        f"annotation {ids[7]} is not in the index by id"
    }
    assert [one.where for one in problems if one.kind is not What.DISAGREEMENT] == [f"by_id/{ids[4]}"]


def test_not_everything_is_named_but_all_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from zvcore.precomputed import annotation_agreement

    monkeypatch.setattr(annotation_agreement, "MOST_TOLD", 10)
    made(tmp_path)
    for file in (tmp_path / "by_id").iterdir():
        file.unlink()
    found = told(tmp_path)
    assert sum(what.endswith("is not in the index by id") for _, what in found) == 10 * len({one for one, _ in found})
    assert any("more annotations are not as the index by id has them" in what for _, what in found)


def with_the_last_twice(data: bytes) -> bytes:
    count = int.from_bytes(data[:8], "little")
    size = (len(data) - 8) // count - 8
    records, ids = data[8 : 8 + count * size], data[8 + count * size :]
    return (count + 1).to_bytes(8, "little") + records + records[-size:] + ids + ids[-8:]


@pytest.mark.parametrize("sharding", [None, "advise"])
def test_what_a_list_has_lost_or_has_twice_is_told(sharding: Any, tmp_path: Path) -> None:
    found = made(tmp_path, "point", 1500, sharding)
    segment = found._info.relationships[0]
    last = int(found.related("segments", 3)["id"][-1])
    rewritten(tmp_path, segment, np.uint64(3), without_the_last(found.form))
    what = f"annotation {last} is not in the list of segment 3 in rel_segments, to which it is related"
    assert told(tmp_path) == [("by_id", what)]
    rewritten(tmp_path, segment, np.uint64(4), with_the_last_twice)
    last = int(found.related("segments", 4)["id"][-1])
    twice = f"annotation {last} stands 2 times in the list of segment 4 in rel_segments"
    assert sorted(told(tmp_path)) == [("by_id", one) for one in sorted((what, twice))]


@pytest.mark.parametrize("type", ["point", "line"])
@pytest.mark.parametrize("sharding", [None, "advise"])
def test_what_no_cell_has_is_told(sharding: Any, type: str, tmp_path: Path) -> None:
    found = made(tmp_path, type, 1500, sharding)
    # The last level is the finest: what extends may be in several of its cells.
    level = found.levels[-1]
    cells = IndexValues(LocalStore(tmp_path), level)
    stored = cells.keys()
    listed = [(key, set(found._lists(cells, key[None])["id"].tolist())) for key in stored]
    first = min(listed[0][1])
    torn = lost = set().union(*(ids for _, ids in listed if first in ids))
    for key, ids in listed:
        if first in ids:
            rewritten(tmp_path, level, key, lambda data: bytes(8))
        else:
            lost = lost - ids
    assert first in lost
    what = "is in no cell of the spatial index"
    problems = told(tmp_path)
    assert sorted(one for one in problems if one[1].endswith(what)) == sorted(
        ("by_id", f"annotation {id} {what}") for id in lost
    )
    # What is left of the others in neighbouring cells is not all that there must be.
    what = f"is not in all cells of {level.folder} in which it lies"
    rest = {problem for problem in problems if not problem[1].endswith("of the spatial index")}
    assert rest <= {("by_id", f"annotation {id} {what}") for id in torn - lost}
    assert bool(rest) is (type == "line")


@pytest.mark.parametrize("type", ["point", "ellipsoid"])
def test_what_stands_on_two_levels_is_told(type: str, tmp_path: Path) -> None:
    found = made(tmp_path, type, 300)
    first, second = (IndexValues(LocalStore(tmp_path), one) for one in found.levels[:2])
    [cell] = first.keys()
    id = int(found._lists(first, cell[None])["id"][-1])
    # A list of one annotation, that of the level above, where nothing was.
    data, _, _ = first.fetch(cell[None])
    count = int.from_bytes(data[:8].tobytes(), "little")
    size = (len(data) - 8) // count - 8
    end = 8 + count * size
    alone = (1).to_bytes(8, "little") + data[end - size : end].tobytes() + data[-8:].tobytes()
    free = next(name for name in ("0_0_0", "1_1_1", "0_1_0") if (tmp_path / second.index.folder / name).exists())
    stored = (tmp_path / second.index.folder / free).read_bytes()
    many = int.from_bytes(stored[:8], "little")
    middle = 8 + many * size
    (tmp_path / second.index.folder / free).write_bytes(
        (many + 1).to_bytes(8, "little") + stored[8:middle] + alone[8 : 8 + size] + stored[middle:] + alone[-8:]
    )
    found = {what for _, what in told(tmp_path)}
    assert f"annotation {id} stands 2 times in the spatial index" in found
    # It was put into one cell, wherever it lies.
    assert found <= {
        f"annotation {id} stands 2 times in the spatial index", f"annotation {id} lies outside of the cell",
        f"annotation {id} is not in all cells of {second.index.folder} in which it lies",
    }  # fmt: skip


def test_of_a_list_that_cannot_be_read_its_own_check_alone_tells(tmp_path: Path) -> None:
    found = made(tmp_path)
    (tmp_path / "rel_segments/3").write_bytes(b"broken")
    cell = found.levels[0]
    file = next((tmp_path / cell.folder).iterdir())
    file.write_bytes(b"broken")
    problems = zvcore.verify(tmp_path).problems
    assert sorted(one.where for one in problems) == sorted(["rel_segments/3", f"{cell.folder}/{file.name}"])


@pytest.mark.parametrize("type", ["point", "ellipsoid"])
def test_more_than_memory_holds_is_compared_all_the_same(
    type: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from zvcore.precomputed import annotation_completeness, external_sort

    monkeypatch.setattr(annotation_completeness, "_MEMORY", 1000)
    monkeypatch.setattr(external_sort, "COLUMN_ROWS", 32)
    monkeypatch.setattr(annotation_completeness, "MOST_TOLD", 3)
    found = made(tmp_path, type)
    assert zvcore.verify(tmp_path).ok
    gone = {id for key in (1, 2) for id in found.related("segments", key)["id"].tolist()}
    for name in "12":
        (tmp_path / "rel_segments" / name).unlink()
    assert len(gone) > 4
    problems = told(tmp_path)
    assert len(problems) == 4 and problems[-1][0] == "rel_segments"
    assert problems[-1][1].endswith("more annotations are not listed as they must be")
