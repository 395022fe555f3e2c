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
            "id": int(id * 2**57), **places, "u": int(rng.integers(2**32)), "s": int(rng.integers(-(2**15), 2**15)),
            "a": id, "b": -id, "c": tuple(rng.integers(0, 256, 3).tolist()), "d": (1, 2, 3, id),
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


def test_records_that_neuroglancer_pads_wrongly_are_told(tmp_path: Path) -> None:
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
