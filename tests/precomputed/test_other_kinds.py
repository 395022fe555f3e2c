"""What lies beside volumes and is not decoded here: it is checked as far as that goes, named, and not called broken."""

from __future__ import annotations

import gzip
import json
import struct
from typing import TYPE_CHECKING, Any

import pytest

import zvcore
from zvcore.commands import cli
from zvcore.precomputed import ShardingSpec, Volume, write_sharded

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

TRIANGLE = bytes.fromhex(
    "03000000 000000000000000000000000 0000803f0000000000000000 000000000000803f00000000 000000000100000002000000"
)
# A point (1, 2, 3) with float32 0.5, int16 -2, uint8 7, rgb (1, 2, 3), related to two segments and to one synapse.
ONE_POINT = bytes.fromhex(
    "0000803f0000004000004040 0000003f feff 07 010203 0000 02000000 0a00000000000000 0b00000000000000"
    "01000000 0c00000000000000"
)
RELATED = ONE_POINT[24:]
# The other one of the lists, related to one segment.
OTHER_POINT = bytes.fromhex("000080400000a0400000c040 0000c03f0300080405060000 01000000 0a00000000000000 00000000")
TWO_POINTS = bytes.fromhex(
    "0200000000000000 0000803f0000004000004040 0000003ffeff070102030000 000080400000a0400000c040"
    "0000c03f0300080405060000 2a00000000000000 0100000000000080"
)
TWO_POLYLINES = bytes.fromhex(
    "0200000000000000 02000000 0000803f0000004000004040000080400000a0400000c040 0000003ffeff070102030000"
    "03000000 000000000000000000000000 0000803f0000803f0000803f 000000400000004000000040 0000c03f0300080405060000"
    "2a00000000000000 0100000000000080"
)
OTHER = 2**63 + 1
# Each polyline of the list, related as the points are.
POLYLINES = (
    TWO_POLYLINES[8:48] + ONE_POINT[24:],
    TWO_POLYLINES[48:100] + OTHER_POINT[24:],
)
PROPERTIES = [
    {"id": "f", "type": "float32"}, {"id": "s", "type": "int16"}, {"id": "a", "type": "uint8"},
    {"id": "c", "type": "rgb"},
]  # fmt: skip
SPEC = ShardingSpec(0, "identity", 0, 0, "gzip", "gzip")
CELLS = ShardingSpec(0, "identity", 1, 1, "raw", "gzip")


def volume(path: Path, **members: Any) -> Path:
    array = zvcore.create(path, format="precomputed", shape=(20, 20, 10, 1), dtype="uint32", chunks=(10, 10, 10))
    array[...] = 7
    info = json.loads((path / "info").read_text())
    (path / "info").write_text(json.dumps({**info, **members}))
    return path


def legacy_meshes(path: Path, info: bool = True, packed: bool = False) -> Path:
    path.mkdir(parents=True)
    if info:
        (path / "info").write_text(json.dumps({"@type": "neuroglancer_legacy_mesh"}))
    for id in (7, 2**63):
        (path / f"{id}:0").write_text(json.dumps({"fragments": [f"{id}:0:0-64_0-64_0-64", "shared"]}))
        name = f"{id}:0:0-64_0-64_0-64"
        if packed:
            (path / f"{name}.gz").write_bytes(gzip.compress(TRIANGLE))
        else:
            (path / name).write_bytes(TRIANGLE)
    (path / "shared").write_bytes(TRIANGLE)
    (path / "0-64.spatial").write_text("what igneous leaves here")
    return path


def annotation_info(**members: Any) -> dict[str, Any]:
    return {
        "@type": "neuroglancer_annotations_v1",
        "dimensions": {"x": [4e-9, "m"], "y": [4e-9, "m"], "z": [40e-9, "m"]},
        "lower_bound": [0, 0, 0], "upper_bound": [8, 8, 8], "annotation_type": "POINT", "properties": PROPERTIES,
        "relationships": [{"id": "segments", "key": "by_segment"}, {"id": "synapse", "key": "by_synapse"}],
        "by_id": {"key": "by_id"},
        "spatial": [{"key": "spatial0", "grid_shape": [1, 1, 1], "chunk_size": [8, 8, 8], "limit": 100}],
        **members,
    }  # fmt: skip


def annotations(
    path: Path, info: dict[str, Any] | None = None, lists: bytes = TWO_POINTS,
    singles: tuple[bytes, bytes] = (ONE_POINT, OTHER_POINT),
) -> Path:  # fmt: skip
    path.mkdir(parents=True)
    (path / "info").write_text(json.dumps(info or annotation_info()))
    files = {"by_id/42": singles[0], f"by_id/{OTHER}": singles[1], "by_segment/10": lists, "spatial0/0_0_0": lists}
    if info is None or info["relationships"]:
        alone = struct.pack("<Q", 1) + singles[0].removesuffix(RELATED) + struct.pack("<Q", 42)
        files |= {"by_segment/11": alone, "by_synapse/12": alone}
    for name, data in files.items():
        (path / name).parent.mkdir(exist_ok=True)
        (path / name).write_bytes(data)
    return path


def sharded_annotations(path: Path) -> Path:
    info = annotation_info(relationships=[])
    info["by_id"]["sharding"] = SPEC.to_json()
    info["spatial"][0] |= {"grid_shape": [2, 2, 1], "chunk_size": [4, 4, 8], "sharding": CELLS.to_json()}
    path.mkdir(parents=True)
    (path / "info").write_text(json.dumps(info))
    write_sharded(path / "by_id", SPEC, {1: ONE_POINT[:24], 42: ONE_POINT[:24], OTHER: OTHER_POINT[:24]})
    first, other = TWO_POINTS[8:32], TWO_POINTS[32:56]
    cells = {
        0: struct.pack("<Q", 2) + first + first + struct.pack("<QQ", 1, 42),
        3: struct.pack("<Q", 1) + other + struct.pack("<Q", OTHER),
    }
    write_sharded(path / "spatial0", CELLS, cells)
    return path


def segment_properties(path: Path, **members: Any) -> Path:
    path.mkdir(parents=True)
    properties = [
        {"id": "name", "type": "label", "values": ["a", "b"]},
        {"id": "tags", "type": "tags", "tags": ["glia", "axon"], "values": [[], [0, 1]]},
        {"id": "size", "type": "number", "data_type": "float32", "values": [1, 2.5]},
    ]
    inline = {"ids": ["7", str(2**64 - 1)], "properties": properties, **members}
    (path / "info").write_text(json.dumps({"@type": "neuroglancer_segment_properties", "inline": inline}))
    return path


MAKERS: dict[str, tuple[Callable[[Path], Path], str, int]] = {
    "legacy meshes": (legacy_meshes, "legacy meshes", 2),
    "packed legacy meshes": (lambda path: legacy_meshes(path, packed=True), "legacy meshes", 2),
    "annotations": (annotations, "annotations", 2),
    "sharded annotations": (sharded_annotations, "annotations", 3),
    "polylines": (
        lambda path: annotations(path, annotation_info(annotation_type="polyline"), TWO_POLYLINES, POLYLINES),
        "annotations", 2,
    ),
    "segment properties": (segment_properties, "segment properties", 2),
}  # fmt: skip


@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize("name", MAKERS)
def test_what_is_not_decoded_is_sound_and_has_a_name(
    name: str, fast: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make, kind, count = MAKERS[name]
    path = make(tmp_path / "data")
    report = zvcore.verify(path, fast=fast)
    assert report.problems == [], report
    assert report.counts
    found = zvcore.inspect(path)
    assert (found["format"], found["kind"], found["values"]) == ("precomputed", kind, count)
    assert cli.main(["info", str(path)]) == 0
    assert kind in capsys.readouterr().out
    assert cli.main(["tree", str(path)]) == 0
    assert f"{count} {kind}" in capsys.readouterr().out
    for command in (["ls"], ["ls", "-l"]):
        assert cli.main([*command, str(path)]) == 0
    opened = zvcore.open(path)
    assert len(opened.ids if kind == "segment properties" else opened) == count


def test_legacy_meshes_in_shards_are_said_to_be_unknown(tmp_path: Path) -> None:
    path = legacy_meshes(tmp_path / "mesh")
    (path / "info").write_text(json.dumps({"@type": "neuroglancer_legacy_mesh", "sharding": SPEC.to_json()}))
    report = zvcore.verify(path)
    assert report.status == "unsupported"
    assert [one.what for one in report.problems if "not sharded" in one.what]


def test_what_a_volume_names_is_looked_at_with_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = volume(tmp_path / "seg", mesh="mesh", segment_properties="properties")
    legacy_meshes(path / "mesh")
    segment_properties(path / "properties")
    report = zvcore.verify(path)
    assert report.problems == [], report
    assert (report.counts["meshes"], report.counts["fragments"], report.counts["segments"]) == (2, 3, 2)
    assert cli.main(["tree", str(path)]) == 0
    out = capsys.readouterr().out
    assert "mesh  2 legacy meshes" in out and "properties  2 segment properties" in out
    assert cli.main(["ls", "-l", str(path)]) == 0
    assert "legacy meshes" in capsys.readouterr().out
    assert list(Volume(path).meshes()) == [7, 2**63]
    (path / "mesh" / "shared").unlink()
    report = zvcore.verify(path)
    assert [problem.where for problem in report.problems] == ["mesh/7:0", f"mesh/{2**63}:0"][:1]
    assert report.problems[0].kind == "missing"


def test_meshes_of_old_have_no_document(tmp_path: Path) -> None:
    path = volume(tmp_path / "seg", mesh="mesh")
    legacy_meshes(path / "mesh", info=False)
    assert zvcore.verify(path).counts["meshes"] == 2
    assert zvcore.verify(path / "mesh").counts["meshes"] == 2
    assert zvcore.verify(path / "mesh" / "7:0").counts["fragments"] == 2
    assert zvcore.inspect(path)["members"]["mesh"]["kind"] == "legacy meshes"
    (path / "mesh" / "7:0:0-64_0-64_0-64").write_bytes(TRIANGLE[:-1])
    for place in (path, path / "mesh", path / "mesh" / "7:0", path / "mesh" / "7:0:0-64_0-64_0-64"):
        for fast in (True, False):
            [problem] = zvcore.verify(place, fast=fast).problems
            assert problem.kind == "size" and problem.length == len(TRIANGLE) - 1, problem


@pytest.mark.parametrize(
    ("name", "data", "kind"),
    [
        ("7:0", b"{", "document"),
        ("7:0", b'{"fragments": "shared"}', "document"),
        ("7:0", b'{"fragments": ["../info"]}', "document"),
        ("7:0", b'{"fragments": ["/etc/passwd"]}', "document"),
        ("7:0", b'{"fragments": ["gone"]}', "missing"),
        ("shared", b"\1", "size"),
        ("shared", struct.pack("<I", 2**32 - 1) + bytes(12), "size"),
        ("shared", TRIANGLE[:-4] + struct.pack("<I", 3), "data"),
    ],
)
def test_damaged_legacy_meshes_are_reported(name: str, data: bytes, kind: str, tmp_path: Path) -> None:
    path = legacy_meshes(tmp_path / "mesh")
    (path / name).write_bytes(data)
    report = zvcore.verify(path)
    assert report.status == "damaged"
    assert {(problem.where, str(problem.kind)) for problem in report.problems} == {(name, kind)}, report
    before = {file.name: file.read_bytes() for file in path.iterdir()}
    assert zvcore.repair(path).problems
    assert {file.name: file.read_bytes() for file in path.iterdir()} == before


@pytest.mark.parametrize(
    ("members", "where"),
    [
        ({"annotation_type": "POINTS"}, "annotation_type"),
        ({"lower_bound": [0, 0]}, "lower_bound"),
        ({"dimensions": {"x": 1, "y": [1, "m"], "z": [1, "m"]}}, "dimensions.x"),
        ({"properties": [{"id": "F", "type": "uint8"}]}, "properties[0].id"),
        ({"properties": [{"id": "f", "type": "float64"}]}, "properties[0].type"),
        ({"by_id": None}, "by_id"),
        ({"spatial": [{"key": "a", "grid_shape": [1, 1], "chunk_size": [8, 8, 8], "limit": 1}]}, "grid_shape"),
        ({"spatial": [{"key": "a", "grid_shape": [1, 1, 1], "chunk_size": [8, 8, 8], "limit": 0}]}, "limit"),
    ],
)
def test_a_document_of_annotations_is_read_member_by_member(
    members: dict[str, Any], where: str, tmp_path: Path
) -> None:
    report = zvcore.verify(annotations(tmp_path / "ann", annotation_info(**members)))
    assert not report.ok
    [problem] = report.problems
    assert problem.where == "info" and where in problem.what, problem
    assert report.status == ("unsupported" if where == "annotation_type" else "damaged")


def test_damaged_annotations_are_reported(tmp_path: Path) -> None:
    path = annotations(tmp_path / "files")
    (path / "by_id/42").write_bytes(ONE_POINT + bytes(1))
    (path / "by_segment/10").write_bytes(struct.pack("<Q", 2**60) + TWO_POINTS[8:])
    (path / "spatial0/7_0_0").write_bytes(TWO_POINTS)
    (path / "spatial0/notes").write_bytes(b"")
    report = zvcore.verify(path)
    assert {(one.where, one.fatal) for one in report.problems} == {
        ("by_id/42", True), ("by_segment/10", True), ("spatial0/7_0_0", False), ("spatial0/notes", False)
    }  # fmt: skip
    assert zvcore.verify(path / "spatial0").ok
    repaired = zvcore.repair(path, tmp_path / "repaired")
    assert {loss.where for loss in repaired.losses} == {"by_id/42", "by_segment/10"}
    assert zvcore.verify(tmp_path / "repaired").ok

    path = sharded_annotations(tmp_path / "shards")
    write_sharded(path / "spatial0", CELLS, {0: TWO_POINTS, 1: TWO_POINTS[:-1], 9: TWO_POINTS}, overwrite=True)
    report = zvcore.verify(path)
    # The second of the points lies in the fourth cell.
    assert [(one.chunk, str(one.kind)) for one in report.problems] == [
        (9, "stray"), (1, "data"), ("cell 0_0_0", "disagreement")
    ]  # fmt: skip
    zvcore.repair(path)
    assert zvcore.verify(path).problems == []
    # Three annotations, and the lists of the two cells in which they lie.
    assert zvcore.verify(path).counts["values"] == 5
    assert zvcore.open(path).in_box((3, 4, 5), (8, 8, 8))["id"].tolist() == [OTHER]


def test_lists_that_neuroglancer_padded_wrongly_are_reported_with_the_cause(tmp_path: Path) -> None:
    """Released writers gave a uint32 behind another property of four bytes an alignment of three."""
    properties = [{"id": "f", "type": "float32"}, {"id": "u", "type": "uint32"}]
    record = struct.pack("<3f", 1, 2, 3) + bytes.fromhex("0000003f 0000 07000000 0000")
    info = annotation_info(properties=properties, relationships=[], by_id={"key": "none"})
    path = annotations(tmp_path / "ann", info, struct.pack("<Q", 1) + record + struct.pack("<Q", 42))
    (path / "by_segment/10").unlink()
    [problem] = zvcore.verify(path).problems
    assert "before September 2025" in problem.what


@pytest.mark.parametrize(
    ("members", "where"),
    [
        ({"ids": ["7", 8]}, "$.inline.ids[1]"),
        ({"ids": ["7", "0x8"]}, "$.inline.ids[1]"),
        ({"ids": ["7"]}, "$.inline.properties[0].values"),
        ({"properties": [{"id": "a", "type": "tags", "tags": ["x"], "values": [[0], [1]]}]}, "values[1]"),
        ({"properties": [{"id": "a", "type": "number", "data_type": "uint64", "values": [0, 1]}]}, "data_type"),
        ({"properties": [{"id": "a", "type": "number", "data_type": "uint8", "values": [0, "1"]}]}, "values[1]"),
        ({"properties": [{"id": "a", "type": "label", "values": ["", ""]}] * 2}, "properties[1]"),
    ],
)
def test_a_document_of_segment_properties_is_read_member_by_member(
    members: dict[str, Any], where: str, tmp_path: Path
) -> None:
    [problem] = zvcore.verify(segment_properties(tmp_path / "properties", **members)).problems
    assert problem.where == "info" and where in problem.what and problem.kind == "document", problem


def test_unknown_kinds_and_encodings_are_unsupported_and_not_broken(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for encoding in ("npz", "npz_uint8", "of_tomorrow"):
        path = volume(tmp_path / encoding)
        info = json.loads((path / "info").read_text())
        info["scales"][0]["encoding"] = encoding
        (path / "info").write_text(json.dumps(info))
        assert zvcore.verify(path).status == "unsupported"
        assert cli.main(["verify", str(path)]) == 3
        assert "NOT sound" not in capsys.readouterr().out
        assert zvcore.inspect(path)["scales"][0]["kind"] == "unsupported"
    path = volume(tmp_path / "brotli")
    for file in (path / info["scales"][0]["key"]).iterdir():
        file.rename(file.with_name(f"{file.name.removesuffix('.gz')}.xz"))
    assert zvcore.verify(path).status == "unsupported"
    other = tmp_path / "other"
    other.mkdir()
    (other / "info").write_text(json.dumps({"@type": "neuroglancer_of_tomorrow"}))
    assert zvcore.verify(other).status == "unsupported"
    assert cli.main(["verify", str(other)]) == 3
    capsys.readouterr()


def test_a_folder_that_is_elsewhere_is_no_fault(tmp_path: Path) -> None:
    path = volume(tmp_path / "em" / "seg", mesh="../meshes", skeletons="gs://other/skeletons")
    report = zvcore.verify(path)
    assert report.ok and {str(problem.kind) for problem in report.problems} == {"unsupported"}
    assert zvcore.verify(volume(tmp_path / "wrong", mesh=5)).status == "damaged"


def test_what_belongs_to_nothing_is_reported(tmp_path: Path) -> None:
    path = volume(tmp_path / "seg")
    (path / "elsewhere").mkdir()
    (path / "elsewhere" / "file").write_bytes(b"?")
    [problem] = zvcore.verify(path / "elsewhere").problems
    assert not problem.fatal and "belongs to nothing that info names" in problem.what


@pytest.mark.parametrize(
    "kind", ["skeletons", "multilod_draco", "legacy_mesh", "annotations_v1", "segment_properties", "of_tomorrow"]
)
def test_a_volume_under_the_name_of_another_kind_is_not_sound(kind: str, tmp_path: Path) -> None:
    path = volume(tmp_path / "seg", **{"@type": f"neuroglancer_{kind}"})
    report = zvcore.verify(path)
    assert not report.ok
    assert kind == "of_tomorrow" or any("no reader finds them" in problem.what for problem in report.problems), report
