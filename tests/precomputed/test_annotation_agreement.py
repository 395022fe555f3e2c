"""One index of annotations is proved by the other: what is listed is in the index by id, as the same record."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zvcore
from zvcore.precomputed import Ragged, ShardedStore, write_annotations
from zvcore.report import What

if TYPE_CHECKING:
    from pathlib import Path

NM = dict.fromkeys("xyz", (1e-9, "m"))
TYPES = ("point", "line", "ellipsoid", "polyline")


def made(path: Path, type: str = "point", count: int = 300, sharding: Any = None, **options: Any) -> Any:
    rng = np.random.default_rng(0)
    a, b = (rng.random((2, count, 3)) * 100).astype("f4")
    columns: dict[str, Any] = {
        "point": {"point": a}, "line": {"point_a": a, "point_b": b}, "ellipsoid": {"center": a, "radii": b},
        "polyline": {"points": Ragged.of([rng.random((2 + n % 3, 3)) for n in range(count)], "f4", 3)},
    }[type]  # fmt: skip
    columns |= {
        "id": np.arange(count, dtype="u8") * 2**52 + 5, "size": rng.random(count).astype("f4"),
        "segments": [rng.integers(0, 9, n % 3, np.uint64).tolist() for n in range(count)],
    }  # fmt: skip
    write_annotations(
        path, type, columns, dimensions=NM, relationships=["segments"], limit=50, sharding=sharding, **options
    )
    return zvcore.open(path)


def told(path: Path) -> list[tuple[str, str]]:
    report = zvcore.verify(path)
    assert all(one.kind is What.DISAGREEMENT and one.fatal for one in report.problems), report
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
