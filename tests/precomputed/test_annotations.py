"""Reading annotations: the specification's bytes, and bytes that claim more than there is."""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zvcore
from zvcore.errors import CorruptDataError, MetadataError, NotFoundError, UnsupportedError
from zvcore.precomputed import Annotations, Ragged, ShardingSpec, write_sharded
from zvcore.precomputed.annotation_boxes import meet_box

if TYPE_CHECKING:
    from pathlib import Path

PROPERTIES = [
    {"id": "f", "type": "float32"}, {"id": "s", "type": "int16"}, {"id": "a", "type": "uint8"},
    {"id": "c", "type": "rgb"},
]  # fmt: skip
TAIL = "0000003f feff 07 010203 0000"
RELATED = "02000000 0a00000000000000 0b00000000000000 01000000 0c00000000000000"
SIX = "0000803f0000004000004040 000080400000a0400000c040"
LIST = (
    "0200000000000000 0000803f0000004000004040 0000003ffeff070102030000 000080400000a0400000c040"
    "0000c03f0300080405060000 2a00000000000000 0100000000000080"
)
LINES = (
    "0200000000000000 02000000 " + SIX + "0000003ffeff070102030000 03000000 000000000000000000000000"
    "0000803f0000803f0000803f 000000400000004000000040 0000c03f0300080405060000 2a00000000000000 0100000000000080"
)
SPEC = ShardingSpec(0, "identity", 1, 1, "gzip", "gzip")


def info(**members: Any) -> dict[str, Any]:
    return {
        "@type": "neuroglancer_annotations_v1", "dimensions": {"x": [4e-9, "m"], "y": [4e-9, "m"], "z": [4e-8, "m"]},
        "lower_bound": [0, 0, 0], "upper_bound": [8, 8, 8], "annotation_type": "POINT", "properties": PROPERTIES,
        "relationships": [{"id": "seg", "key": "rel_seg"}, {"id": "pre", "key": "rel_pre"}], "by_id": {"key": "by_id"},
        "spatial": [{"key": "spatial0", "grid_shape": [1, 1, 1], "chunk_size": [8, 8, 8], "limit": 100}],
        **members,
    }  # fmt: skip


def stored(path: Path, document: dict[str, Any], **files: str | bytes) -> Annotations:
    """A set with these files, the slash of whose names is a double underscore."""
    path.mkdir(parents=True)
    (path / "info").write_text(json.dumps(document))
    for name, data in files.items():
        file = path / name.replace("__", "/")
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(bytes.fromhex(data) if isinstance(data, str) else data)
    found = zvcore.open(path)
    assert isinstance(found, Annotations)
    return found


@pytest.mark.parametrize(
    ("type", "positions", "columns"),
    [
        ("point", SIX[:24], {"point": [[1, 2, 3]]}),
        ("line", SIX, {"point_a": [[1, 2, 3]], "point_b": [[4, 5, 6]]}),
        ("axis_aligned_bounding_box", SIX, {"point_a": [[1, 2, 3]], "point_b": [[4, 5, 6]]}),
        ("ellipsoid", SIX, {"center": [[1, 2, 3]], "radii": [[4, 5, 6]]}),
        ("polyline", "02000000" + SIX, {"points": [[[1, 2, 3], [4, 5, 6]]]}),
    ],
)
def test_the_bytes_of_the_specification_are_read(
    tmp_path: Path, type: str, positions: str, columns: dict[str, Any]
) -> None:
    # Readers go by alignment, whatever the order in the document.
    document = info(annotation_type=type, properties=[*PROPERTIES[2:], PROPERTIES[1], PROPERTIES[0]])
    found = stored(tmp_path / "ann", document, by_id__42=positions + TAIL + RELATED)
    assert (found.kind, found.type, found.ids().tolist(), 42 in found, 43 in found) == (
        "annotations", type, [42], True, False
    )  # fmt: skip
    one = found[42]
    wanted = {
        "id": [42],
        **columns,
        "f": [0.5],
        "s": [-2],
        "a": [7],
        "c": [[1, 2, 3]],
        "seg": [[10, 11]],
        "pre": [[12]],
    }
    assert {name: column.tolist() for name, column in one.items()} == wanted
    assert len(found.get_many([1, 2])["id"]) == 0 and found.get_many([])["seg"].tolist() == []
    with pytest.raises(NotFoundError, match="no annotation 43"):
        found[43]


def test_lists_of_points_and_of_lines_are_read(tmp_path: Path) -> None:
    found = stored(tmp_path / "points", info(), rel_seg__10=LIST, spatial0__0_0_0=LIST)
    for columns in (found.related("seg", 10), found.in_box((0, 0, 0), (9, 9, 9))):
        assert columns["id"].tolist() == [42, 2**63 + 1]
        assert columns["point"].tolist() == [[1, 2, 3], [4, 5, 6]] and columns["s"].tolist() == [-2, 3]
        assert "seg" not in columns
    assert found.in_box((4, 0, 0), (9, 9, 9))["id"].tolist() == [2**63 + 1]
    assert found.related("pre", 10)["point"].shape == (0, 3) and found.related_ids("seg").tolist() == [10]
    with pytest.raises(NotFoundError, match="no relationship 'post'"):
        found.related("post", 10)
    lines = stored(tmp_path / "lines", info(annotation_type="polyline"), rel_seg__10=LINES).related("seg", 10)
    assert [len(one) for one in lines["points"]] == [2, 3] and lines["points"][1].tolist()[2] == [2, 2, 2]
    assert lines["a"].tolist() == [7, 8]


def test_values_in_shards_and_packed_files_are_read(tmp_path: Path) -> None:
    import gzip

    one, two = bytes.fromhex(SIX[:24] + TAIL + RELATED), bytes.fromhex(LIST)
    document = info(by_id={"key": "by_id", "sharding": SPEC.to_json()})
    document["spatial"][0] |= {"grid_shape": [2, 2, 2], "chunk_size": [4, 4, 4], "sharding": SPEC.to_json()}
    found = stored(tmp_path / "ann", document, rel_seg__10=LIST)
    write_sharded(tmp_path / "ann/by_id", SPEC, dict.fromkeys((1, 42, 2**64 - 1), one))
    write_sharded(tmp_path / "ann/spatial0", SPEC, {0: two, 7: two})
    (tmp_path / "ann/rel_seg/11.gz").write_bytes(gzip.compress(two))
    assert found.ids().tolist() == [1, 42, 2**64 - 1]
    assert found.get_many([2**64 - 1, 5, 1])["id"].tolist() == [2**64 - 1, 1]
    assert sum(len(batch["id"]) for batch in found.batches()) == 3
    assert found.related("seg", 11)["id"].tolist() == [42, 2**63 + 1]
    assert found.related_ids("seg").tolist() == [10, 11]
    # Both stand in two cells, but each is given once.
    assert found.in_box((0, 0, 0), (8, 8, 8))["id"].tolist() == [42, 2**63 + 1]
    assert found.in_box((5, 5, 5), (8, 8, 8))["id"].tolist() == []


def test_a_grid_that_claims_more_cells_than_anybody_could_ask_for(tmp_path: Path) -> None:
    document = info()
    document["spatial"][0] |= {"grid_shape": [2**30] * 3, "chunk_size": [8 / 2**30] * 3}
    found = stored(tmp_path / "ann", document, spatial0__5_6_7=LIST, spatial0__notes=b"")
    assert found.in_box((0, 0, 0), (8, 8, 8))["id"].tolist() == [42, 2**63 + 1]


def test_bounds_that_are_none_are_not_believed(tmp_path: Path) -> None:
    """neuroglancer's Python writer gives a lower bound above the upper one for ellipsoids, and for reversed corners."""
    document = info(lower_bound=[1000, 1000, 1000], upper_bound=[1, 1, 1])
    found = stored(tmp_path / "ann", document, spatial0__0_0_0=LIST)
    assert len(found.in_box((0, 0, 0), (8, 8, 8))["id"]) == 2


@pytest.mark.parametrize(
    ("type", "data", "expected"),
    [
        ("point", "", "at least|8 bytes"),
        ("point", "ffffffffffffffff" + LIST[16:], "bytes"),
        ("point", struct.pack("<Q", 2**40).hex() + LIST[16:], "bytes"),
        ("point", LIST[:-2], "bytes"),
        ("point", LIST + "00", "bytes"),
        ("polyline", LINES[:-2], "bytes"),
        ("polyline", LINES + "00", "bytes"),
        ("polyline", LINES.replace("03000000", "ffffffff", 1), "bytes"),
        ("polyline", LINES.replace("02000000", "00000000", 2), "bytes"),
        ("polyline", "ffffffffffffffff", "bytes"),
    ],
)
def test_lists_of_another_length_are_refused(tmp_path: Path, type: str, data: str, expected: str) -> None:
    found = stored(tmp_path / "ann", info(annotation_type=type), rel_seg__10=data)
    with pytest.raises(CorruptDataError, match=expected) as caught:
        found.related("seg", 10)
    error = caught.value
    assert (
        (error.key, error.chunk, error.offset) == ("rel_seg/10", 10, 0) and error.expected and error.found is not None
    )


@pytest.mark.parametrize("related", [RELATED[:-2], RELATED + "00", "ffffffff", "", RELATED.replace("0200", "0400", 1)])
def test_single_annotations_of_another_length_are_refused(tmp_path: Path, related: str) -> None:
    found = stored(tmp_path / "ann", info(), by_id__42=SIX[:24] + TAIL + related, by_id__7=SIX[:24] + TAIL + RELATED)
    with pytest.raises(CorruptDataError, match="by_id/42: chunk 42") as caught:
        found.get_many([7, 42])
    assert caught.value.expected and caught.value.found is not None
    assert len(found.get_many([7])["id"]) == 1


def test_shards_that_are_damaged_are_named_with_their_folder(tmp_path: Path) -> None:
    found = stored(tmp_path / "ann", info(by_id={"key": "by_id", "sharding": SPEC.to_json()}, relationships=[]))
    write_sharded(tmp_path / "ann/by_id", SPEC, {4: b"too short"})
    with pytest.raises(CorruptDataError, match=r"by_id/0.shard: chunk 4: bytes 32"):
        found[4]
    (tmp_path / "ann/by_id/0.shard").write_bytes(b"short")
    with pytest.raises(CorruptDataError, match=r"by_id/0.shard"):
        found[4]


@pytest.mark.parametrize(
    ("members", "error", "match"),
    [
        ({"properties": [PROPERTIES[0]] * 2}, MetadataError, r"properties\[1\].id"),
        ({"properties": [{**PROPERTIES[0], "enum_values": [1]}]}, MetadataError, "enum_labels"),
        ({"properties": [{**PROPERTIES[3], "enum_values": [1], "enum_labels": ["a"]}]}, MetadataError, "rgb"),
        ({"relationships": [{"key": "rel"}]}, MetadataError, r"relationships\[0\].id"),
        ({"by_id": {"key": "../elsewhere"}}, UnsupportedError, "by_id.key"),
        ({"annotation_type": "cube"}, UnsupportedError, "annotation_type"),
    ],
)
def test_documents_that_are_wrong_are_refused(
    tmp_path: Path, members: dict[str, Any], error: type[Exception], match: str
) -> None:
    with pytest.raises(error, match=match):
        stored(tmp_path / "ann", info(**members))


def test_columns_of_the_same_name_are_distinguished(tmp_path: Path) -> None:
    properties = [{"id": "id", "type": "uint32"}, {"id": "point", "type": "uint32"}]
    document = info(properties=properties, relationships=[{"id": "point", "key": "rel"}])
    data = SIX[:24] + "01000000 02000000" + "01000000 0300000000000000"
    one = stored(tmp_path / "ann", document, by_id__5=data)[5]
    assert {name: column.tolist() for name, column in one.items()} == {
        "id": [5], "point": [[1, 2, 3]], "property:id": [1], "property:point": [2], "relationship:point": [[3]],
    }  # fmt: skip


def test_lines_and_ellipsoids_meet_a_box_only_where_they_are() -> None:
    low, high = np.zeros(2), np.full(2, 4.0)

    def meet(type: str, **columns: Any) -> list[bool]:
        return meet_box(type, {name: np.array(column, "f4") for name, column in columns.items()}, low, high).tolist()

    a, b = [[-1, 4], [-1, 2], [-3, 2], [1, 1], [5, 0], [0, 9]], [[1, 6], [3, 6], [3, 8], [1, 1], [5, 5], [9, 0]]
    assert meet("line", point_a=a, point_b=b) == [False, True, False, True, False, False]
    assert meet("axis_aligned_bounding_box", point_a=b, point_b=a) == [True, True, True, True, False, True]
    centers = [[5, 5], [5, 2], [2, 2], [6, 6], [5, 5], [4, 4]]
    radii = [[1.2, 1.2], [1, 0], [0, 0], [3, 3], [-2, 2], [0, 0]]
    assert meet("ellipsoid", center=centers, radii=radii) == [False, True, True, True, True, True]
    lines = Ragged.of([[[-1, 4], [1, 6], [9, 9]], [[5, 5], [9, 9]], [[2, 2]], [], [[-1, 4], [1, 6], [1, 2]]], "f4", 2)
    assert meet_box("polyline", {"points": lines}, low, high).tolist() == [False, False, True, False, True]


def test_rows_of_different_lengths() -> None:
    rows = Ragged.of([[1, 2], [], [3]], np.uint64)
    assert rows.tolist() == [[1, 2], [], [3]] and rows[-1].tolist() == [3] and len(rows) == 3
    assert rows.take(np.array([2, 0, 0])).tolist() == [[3], [1, 2], [1, 2]]
    assert rows.rows(1, 3).tolist() == [[], [3]]
    assert Ragged.join([rows, rows.rows(0, 1)]).tolist() == [[1, 2], [], [3], [1, 2]]
    assert [row.tolist() for row in rows[1:]] == [[], [3]]
    with pytest.raises(IndexError):
        rows[3]
    with pytest.raises(ValueError, match="descend"):
        Ragged(np.arange(3), np.array([0, 2, 1, 3]))
