"""Annotations against neuroglancer's Python package, CloudVolume and tensorstore."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zvcore
from zvcore.errors import CorruptDataError

if TYPE_CHECKING:
    from pathlib import Path

neuroglancer = pytest.importorskip("neuroglancer")
write_annotations = pytest.importorskip("neuroglancer.write_annotations")

TYPES = ("point", "line", "axis_aligned_bounding_box", "ellipsoid", "polyline")
# In the order in which they are stored, as both Python readers want them declared.
PROPERTIES = {"u": "uint32", "s": "int16", "a": "uint8", "b": "int8", "c": "rgb", "d": "rgba"}
RELATIONSHIPS = ("segments", "synapse")


def rows(type: str, count: int = 60) -> list[dict[str, Any]]:
    """Annotations as their writer takes them one by one."""
    rng = np.random.default_rng(len(type))
    found = []
    for id in range(count):
        a, b = (rng.random((2, 3)) * 100).astype("f4")
        places = {
            "point": {"point": a}, "line": {"point_a": a, "point_b": b},
            "axis_aligned_bounding_box": {"point_a": a, "point_b": b}, "ellipsoid": {"center": a, "radii": b},
            "polyline": {"points": (rng.random((2 + id % 4, 3)) * 100).astype("f4")},
        }[type]  # fmt: skip
        found.append({
            "id": id * 2**53 + 1, **places, "u": int(rng.integers(2**32)), "s": int(rng.integers(-(2**15), 2**15)),
            "a": id % 256, "b": -(id % 100), "c": tuple(rng.integers(0, 256, 3).tolist()), "d": (1, 2, 3, id % 256),
            "segments": [int(n) for n in rng.integers(1, 9, id % 3)], "synapse": [2**64 - 1 - id],
        })  # fmt: skip
        found[-1]["segments"] = sorted(set(found[-1]["segments"]))
    return found


def theirs(path: Path, type: str, rows: list[dict[str, Any]], properties: dict[str, str]) -> Path:
    space = neuroglancer.CoordinateSpace(names=["x", "y", "z"], units=["nm", "nm", "nm"], scales=[4, 4, 40])
    writer = write_annotations.AnnotationWriter(
        space, type, RELATIONSHIPS,
        [neuroglancer.AnnotationPropertySpec(id=id, type=kind) for id, kind in properties.items()],
    )  # fmt: skip
    for row in rows:
        getattr(writer, f"add_{type}")(**row)
    writer.write(path)
    return path


def equal(found: dict[str, Any], rows: list[dict[str, Any]], related: bool = True) -> None:
    """Whether these columns say the same as these rows, in any order."""
    by_id = {row["id"]: row for row in rows}
    assert sorted(found["id"].tolist()) == sorted(by_id)
    for number, id in enumerate(found["id"].tolist()):
        for name, value in by_id[id].items():
            if name in RELATIONSHIPS and not related:
                assert name not in found
            else:
                np.testing.assert_array_equal(found[name][number], value, err_msg=name)


@pytest.mark.parametrize("type", TYPES)
def test_ours_reads_what_neuroglancer_writes(tmp_path: Path, type: str) -> None:
    wanted = rows(type)
    path = theirs(tmp_path / "ann", type, wanted, PROPERTIES)
    assert zvcore.verify(path).problems == []
    found = zvcore.open(path)
    assert found.type == type and len(found) == len(wanted)
    assert found.dimensions == {"x": (4e-9, "m"), "y": (4e-9, "m"), "z": (4e-8, "m")}
    equal(found.get_many([row["id"] for row in reversed(wanted)]), wanted)
    equal(zvcore.precomputed.annotation_records.joined([*found.batches()]), wanted)
    equal(found.in_box([-1e9] * 3, [1e9] * 3), wanted, related=False)
    for segment in range(1, 9):
        expected = [row for row in wanted if segment in row["segments"]]
        equal(found.related("segments", segment), expected, related=False)
    equal(found.related("synapse", 2**64 - 1), wanted[:1], related=False)
    assert len(found.related("synapse", 5)["id"]) == 0


def test_records_that_neuroglancer_pads_wrongly_are_reported(tmp_path: Path) -> None:
    properties = {"f": "float32", "u": "uint32"}
    wanted = [{"id": n, "point": (n, 2, 3), "f": 0.5, "u": 7, "segments": [1], "synapse": []} for n in range(3)]
    path = theirs(tmp_path / "ann", "point", wanted, properties)
    found = zvcore.open(path)
    with pytest.raises(CorruptDataError, match="before September 2025") as caught:
        found.related("segments", 1)
    assert caught.value.key == "rel_segments/1" and caught.value.chunk == 1
    with pytest.raises(CorruptDataError, match="by_id/0: chunk 0"):
        found.get_many([0])
    assert json.loads((path / "info").read_text())["annotation_type"] == "point"


# --- what we write


def ours(path: Path, type: str, rows: list[dict[str, Any]], **options: Any) -> Path:
    columns: dict[str, Any] = {"id": np.array([row["id"] for row in rows], np.uint64)}
    for name in rows[0]:
        if name not in columns:
            several = name in RELATIONSHIPS or name == "points"
            columns[name] = [row[name] for row in rows] if several else np.array([row[name] for row in rows])
    properties = {id: (columns.pop(id), {"type": kind}) for id, kind in PROPERTIES.items()}
    dimensions = {"x": (4e-9, "m"), "y": (4e-9, "m"), "z": (4e-8, "m")}
    zvcore.precomputed.write_annotations(
        path, type, columns, dimensions=dimensions, properties=properties, relationships=RELATIONSHIPS, **options
    )
    return path


@pytest.mark.parametrize("type", TYPES)
def test_ours_are_equal_to_those_of_neuroglancer_index_by_index(tmp_path: Path, type: str) -> None:
    wanted = rows(type)
    one, other = (
        theirs(tmp_path / "theirs", type, wanted, PROPERTIES),
        ours(tmp_path / "ours", type, wanted, sharding=None),
    )
    # Their lists are in order of arrival, ours of ids in those of segments, and of chance in those of cells.
    for folder in ("by_id", "rel_segments", "rel_synapse"):
        names = sorted(file.name for file in (one / folder).iterdir())
        assert names == sorted(file.name for file in (other / folder).iterdir())
        for name in names:
            assert (one / folder / name).read_bytes() == (other / folder / name).read_bytes(), (folder, name)
    their_cell, our_cell = ((path / "spatial0/0_0_0").read_bytes() for path in (one, other))
    assert len(their_cell) == len(our_cell) and sorted(their_cell[8:]) == sorted(our_cell[8:])
    members = [json.loads((path / "info").read_text()) for path in (one, other)]
    for name in ("dimensions", "properties", "by_id"):
        assert members[0][name] == members[1][name], name


@pytest.mark.parametrize("sharding", [None, "advise"])
@pytest.mark.parametrize("type", TYPES)
def test_neuroglancer_reads_ours(tmp_path: Path, type: str, sharding: Any) -> None:
    reading = pytest.importorskip("neuroglancer.read_precomputed_annotations")
    wanted = rows(type, 1500 if sharding else 60)
    path = ours(tmp_path / "ann", type, wanted, sharding=sharding, limit=100)
    reader = reading.AnnotationReader(f"file://{path}/")
    names = {"point": ["point"], "ellipsoid": ["center", "radii"], "polyline": ["points"]}.get(
        type, ["point_a", "point_b"]
    )
    for row in wanted[::37]:
        found = reader.by_id[row["id"]]
        for name in names:
            np.testing.assert_array_equal(getattr(found, name), row[name])
        assert [list(map(int, ids)) for ids in found.segments] == [row["segments"], row["synapse"]]
        assert found.props[:4] == [row[name] for name in ("u", "s", "a", "b")]
    ids = {int(one.id) for one in reader.relationships["segments"][3]}
    assert ids == {row["id"] for row in wanted if 3 in row["segments"]}
    listed = {int(one.id) for one in reader.get_within_spatial_bounds()} if type == "point" else None
    assert listed is None or listed == {row["id"] for row in wanted}


def test_cloud_volume_reads_our_points(tmp_path: Path) -> None:
    cloudvolume = pytest.importorskip("cloudvolume.cloudvolume")
    wanted = rows("point", 1500)
    path = ours(tmp_path / "ann", "point", wanted)
    found = cloudvolume.from_cloudpath(f"precomputed://file://{path}", progress=False)
    for row in wanted[::97]:
        one = found.get_by_id(row["id"])
        np.testing.assert_array_equal(np.ravel(one.geometry), row["point"])
        for name in ("u", "s", "a", "b", "c"):
            np.testing.assert_array_equal(np.ravel(one.properties[name]), row[name], err_msg=name)
        np.testing.assert_array_equal(one.relationships["rel_synapse"], row["synapse"])
    listed = found.get_by_relationship("segments", 3)
    assert sorted(listed.ids.tolist()) == [row["id"] for row in wanted if 3 in row["segments"]]
