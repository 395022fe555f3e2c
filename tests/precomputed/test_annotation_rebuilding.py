"""Lists of annotations that are broken, missing or wrong are made again from the index by id."""

from __future__ import annotations

import json
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

TYPES = ("point", "line", "axis_aligned_bounding_box", "ellipsoid", "polyline")
FORMS = [(None, 300), ("advise", 1500)]


def content(path: Path) -> dict[str, bytes]:
    """Every list and every annotation, by its folder and key."""
    found = zvcore.open(path)
    stored: dict[str, bytes] = {}
    for index in found._info.indexes:
        values = IndexValues(LocalStore(path), index)
        keys = values.keys()
        data, starts, rows = values.fetch(keys)
        stored |= {
            f"{index.folder}/{values.name(keys[row])}": data[a:b].tobytes()
            for row, a, b in zip(rows, starts, starts[1:], strict=False)
        }
    return stored


def check(path: Path) -> None:
    report = zvcore.verify(path)
    assert report.ok and not report.problems, report


@pytest.mark.parametrize(("sharding", "count"), FORMS)
@pytest.mark.parametrize("type", TYPES)
def test_lists_of_a_relationship_come_back_as_they_were(type: str, sharding: Any, count: int, tmp_path: Path) -> None:
    found = made(tmp_path, type, count, sharding)
    wanted = content(tmp_path)
    segments = found._info.relationships[0]
    rewritten(tmp_path, segments, np.uint64(3), without_the_last(found.form))
    if sharding is None:
        (tmp_path / "rel_segments/1").unlink()
        (tmp_path / "rel_segments/2").write_bytes(b"broken")
    else:
        store = ShardedStore(tmp_path / "rel_segments", segments.sharding, "r+")
        store.delete([1])
        store.update({2: b"broken"})
    assert not zvcore.verify(tmp_path).ok
    report = zvcore.repair(tmp_path)
    assert report.counts["lists rebuilt"] == 3
    check(tmp_path)
    assert content(tmp_path) == wanted


@pytest.mark.parametrize(("sharding", "count"), FORMS)
@pytest.mark.parametrize("type", TYPES)
@pytest.mark.parametrize("number", [0, 1, -1])
def test_cells_come_back(type: str, sharding: Any, count: int, number: int, tmp_path: Path) -> None:
    place, copy = tmp_path / "here", tmp_path / "out"
    found = made(place, type, count, sharding)
    level = found.levels[number]
    values = IndexValues(LocalStore(place), level)
    cells = values.keys()
    rewritten(place, level, cells[0], without_the_last(found.form))
    rewritten(place, level, cells[-1], lambda data: b"broken")
    assert not zvcore.verify(place).ok
    zvcore.repair(place, copy)
    check(copy)
    assert sorted(zvcore.open(copy).in_box([0] * 3, [200] * 3)["id"].tolist()) == found.ids().tolist()


@pytest.mark.parametrize("type", ["point", "ellipsoid"])
def test_whole_indexes_come_back(type: str, tmp_path: Path) -> None:
    found = made(tmp_path, type, 1500, "advise")
    wanted = content(tmp_path)
    for index in found._info.indexes[1:]:
        for file in (tmp_path / index.folder).iterdir():
            file.unlink()
    assert {one.kind for one in zvcore.verify(tmp_path).problems} == {What.DISAGREEMENT}
    zvcore.repair(tmp_path)
    check(tmp_path)
    again = content(tmp_path)
    relations = [name for name in wanted if name.startswith("rel_")]
    assert relations and all(again[name] == wanted[name] for name in relations)
    # No cell but those of the finest level has more points than it is meant to have.
    for level in found.levels[:-1] if type == "point" else ():
        lists = [data for name, data in again.items() if name.startswith(f"{level.folder}/")]
        assert lists and max(int.from_bytes(data[:8], "little") for data in lists) <= level.limit


@pytest.mark.parametrize(("sharding", "count"), FORMS)
def test_a_point_in_the_wrong_cell_is_told_and_moved(sharding: Any, count: int, tmp_path: Path) -> None:
    found = made(tmp_path, "point", count, sharding)
    wanted = content(tmp_path)
    level = found.levels[-1]
    values = IndexValues(LocalStore(tmp_path), level)
    cells = values.keys()
    moved = found.form.listed(*values.fetch(cells[:1])[:2])
    last, record = int(moved.ids[-1]), moved.records.take(np.array([len(moved.ids) - 1])).data.tobytes()
    rewritten(tmp_path, level, cells[0], without_the_last(found.form))

    def with_it(data: bytes) -> bytes:
        number = int.from_bytes(data[:8], "little")
        end = len(data) - 8 * number
        head, ids = data[8:end] + bytes(record), data[end:] + last.to_bytes(8, "little")
        return (number + 1).to_bytes(8, "little") + head + ids

    rewritten(tmp_path, level, cells[-1], with_it)
    report = zvcore.verify(tmp_path)
    assert [(one.what, one.chunk) for one in report.problems] == [
        (f"annotation {last} lies outside of the cell", "cell " + "_".join(map(str, cells[-1].tolist())))
    ]
    assert not report.ok and report.problems[0].where.startswith(level.folder)
    assert zvcore.repair(tmp_path).counts["lists rebuilt"] == 2
    check(tmp_path)
    assert content(tmp_path) == wanted


@pytest.mark.parametrize("type", ["line", "axis_aligned_bounding_box", "ellipsoid", "polyline"])
def test_what_one_of_its_cells_has_not_is_told_and_put_back(type: str, tmp_path: Path) -> None:
    found = made(tmp_path, type, 300)
    level = found.levels[1]
    values = IndexValues(LocalStore(tmp_path), level)
    cells = values.keys()
    lists = [set(found.form.listed(*values.fetch(cell[None])[:2]).ids.tolist()) for cell in cells]
    # What stands in another cell of the level as well.
    last = [found.form.listed(*values.fetch(cell[None])[:2]).ids[-1].item() for cell in cells]
    row = next(row for row, id in enumerate(last) if sum(id in ids for ids in lists) > 1)
    wanted = content(tmp_path)
    rewritten(tmp_path, level, cells[row], without_the_last(found.form))
    [problem] = zvcore.verify(tmp_path).problems
    assert problem.what == f"annotation {last[row]} is not in all cells of {level.folder} in which it lies"
    zvcore.repair(tmp_path)
    check(tmp_path)
    assert content(tmp_path) == wanted


def test_lists_of_others_keep_their_order(tmp_path: Path) -> None:
    found = made(tmp_path, "point", 300)
    level = found.levels[0]
    [cell] = IndexValues(LocalStore(tmp_path), level).keys()
    before = found.form.listed(*IndexValues(LocalStore(tmp_path), level).fetch(cell[None])[:2])
    order = np.arange(len(before.ids))[::-1]

    def turned(_: bytes) -> bytes:
        from zvcore.precomputed.annotation_records import encode_lists

        kept = order[5:]
        lists = encode_lists(before.records.take(kept), before.ids[kept], np.array([len(kept)]))
        return lists.data.tobytes()

    rewritten(tmp_path, level, cell, turned)
    zvcore.repair(tmp_path)
    check(tmp_path)
    after = found.form.listed(*IndexValues(LocalStore(tmp_path), level).fetch(cell[None])[:2])
    assert after.ids[: len(order) - 5].tolist() == before.ids[order[5:]].tolist()


def test_more_than_memory_holds_is_put_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from zvcore.precomputed import annotation_list_edits, annotation_rebuilding, external_sort

    found = made(tmp_path, "line", 1500, "advise")
    wanted = content(tmp_path)
    for module in (annotation_rebuilding, annotation_list_edits):
        monkeypatch.setattr(module, "_MEMORY", 2000)
        monkeypatch.setattr(module, "_LISTS", 3)
    monkeypatch.setattr(annotation_rebuilding, "_ROWS", 7)
    monkeypatch.setattr(annotation_list_edits, "_WRITTEN", 1000)
    monkeypatch.setattr(external_sort, "COLUMN_ROWS", 32)
    for index in found._info.indexes[1:]:
        for file in (tmp_path / index.folder).iterdir():
            file.unlink()
    zvcore.repair(tmp_path)
    check(tmp_path)
    again = content(tmp_path)
    assert all(again[name] == data for name, data in wanted.items() if name.startswith("rel_"))


def test_bounds_that_are_none_prove_nothing_wrong(tmp_path: Path) -> None:
    import json

    made(tmp_path, "point", 300)
    info = json.loads((tmp_path / "info").read_text())
    info["lower_bound"], info["upper_bound"] = info["upper_bound"], info["lower_bound"]
    (tmp_path / "info").write_text(json.dumps(info))
    check(tmp_path)


def test_a_repair_of_one_folder_does_not_say_that_it_made_lists_again(tmp_path: Path) -> None:
    made(tmp_path, "point", 300, None)
    (tmp_path / "rel_segments/2").write_bytes(b"broken")
    report = zvcore.repair(tmp_path / "rel_segments")
    assert [loss.where for loss in report.losses] == ["rel_segments/2"]
    assert "a repair of the whole set makes it again" in report.losses[0].what
    assert "lists rebuilt" not in report.counts and not (tmp_path / "rel_segments/2").exists()
    assert zvcore.repair(tmp_path).counts["lists rebuilt"] == 1
    check(tmp_path)


def test_a_limit_that_no_cell_can_reach_is_none(tmp_path: Path) -> None:
    """JSON has integers of any length."""
    found = made(tmp_path, "point", 300, None)
    document = json.loads((tmp_path / "info").read_text())
    for level in document["spatial"]:
        level["limit"] = 2**63
    (tmp_path / "info").write_text(json.dumps(document))
    values = IndexValues(LocalStore(tmp_path), found.levels[0])
    rewritten(tmp_path, found.levels[0], values.keys()[0], without_the_last(found.form))
    assert not zvcore.verify(tmp_path).ok
    zvcore.repair(tmp_path)
    check(tmp_path)
