"""Documents that claim what is not there, or are not what they should be: errors of zvcore, and little memory."""

from __future__ import annotations

import json
import resource
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zvcore
import zvcore.zvf as zvf
from zvcore.errors import CorruptDataError, MetadataError, ZvcoreError
from zvcore.stores import open_store
from zvcore.zvf.attributes import AttributeForm, object_attribute, read_groups
from zvcore.zvf.cells import SubArrayCells
from zvcore.zvf.nodes import Node, read_node, require_array

if TYPE_CHECKING:
    from pathlib import Path

BYTES = [{"name": "bytes", "configuration": {"endian": "little"}}]
ROWS = [{"name": "vlen-bytes"}]


def array(
    path: Path, shape: list[int], chunk: list[int], codecs: Any = BYTES, dtype: str = "uint8", **more: Any
) -> Path:
    fill = "" if dtype == "variable_length_bytes" else 0
    document = {
        "zarr_format": 3, "node_type": "array", "shape": shape, "data_type": dtype, "fill_value": fill,
        "codecs": codecs,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunk}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}}, "attributes": more,
    }  # fmt: skip
    path.mkdir(parents=True, exist_ok=True)
    (path / "zarr.json").write_text(json.dumps(document))
    return path


def group(path: Path, **attributes: Any) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    document = {"zarr_format": 3, "node_type": "group", "attributes": attributes}
    (path / "zarr.json").write_text(json.dumps(document))
    return path


def sharded(inner: list[Any]) -> list[Any]:
    configuration = {"chunk_shape": [1], "codecs": inner, "index_codecs": BYTES, "index_location": "end"}
    return [{"name": "sharding_indexed", "configuration": configuration}]


@pytest.mark.parametrize("size", [2**28, 2**40, 2**61])
@pytest.mark.parametrize(
    ("chunk", "codecs"), [(1, BYTES), (0, BYTES), (1, ROWS), (0, ROWS), (0, sharded(BYTES)), (0, sharded(ROWS))]
)
def test_a_shape_takes_no_memory(tmp_path: Path, size: int, chunk: int, codecs: Any) -> None:
    rows = "vlen-bytes" in json.dumps(codecs)
    array(tmp_path, [size], [chunk or size], codecs, "variable_length_bytes" if rows else "uint8")
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "0").write_bytes(bytes(64))
    node = require_array(open_store(tmp_path, "r"), "")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ZvcoreError):
        node.read_rows() if rows else node.read_numbers()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200 << 10


def test_many_chunks_that_are_there_are_read(tmp_path: Path) -> None:
    array(tmp_path, [70_000], [1])
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "69999").write_bytes(b"\7")
    numbers = require_array(open_store(tmp_path, "r"), "").read_numbers()
    assert (numbers.shape, int(numbers[-1]), int(numbers.sum())) == ((70_000,), 7, 7)


@pytest.mark.parametrize("row_shape", [[2**30] * 3, [1] * 40, [0], [2**31], ["1"], 3])
def test_rows_that_no_cell_holds(tmp_path: Path, row_shape: Any) -> None:
    node = read_node(open_store(group(tmp_path, dtype="float32", row_shape=row_shape), "r"), "")
    assert node is not None
    with pytest.raises(MetadataError, match="row_shape"):
        AttributeForm.of(node)


@pytest.mark.parametrize("dtype", [",", "=i4,(", "V4", "O", None, ["i4"], "S\0"])
def test_types_that_are_none(tmp_path: Path, dtype: Any) -> None:
    node = read_node(open_store(group(tmp_path, dtype=dtype), "r"), "")
    assert node is not None
    with pytest.raises(MetadataError, match="dtype"):
        AttributeForm.of(node)


def test_categories_of_any_kind() -> None:
    for categories in (("a", "b"), (1, 2.5), ([1], [1, 2]), ({"x": 1}, None), ("a", 1)):
        form = AttributeForm(np.dtype("u1"), (), categories, 9)
        assert form.values(np.array([1, 0, 9], "u1")).tolist() == [categories[1], categories[0], None]
    form = AttributeForm(np.dtype("i1"), (), ("a", "b"))
    for codes in ([0, 2, 1], [0, -1, 1]):
        with pytest.raises(CorruptDataError, match=f"found {codes[1]}"):
            form.values(np.array(codes, "i1"))


def test_groups_and_indexes_that_are_none(tmp_path: Path) -> None:
    group(tmp_path / "g")
    for name, size in (("data", 8), ("offsets", 12)):
        array(tmp_path / "g" / name, [size], [size])
        (tmp_path / "g" / name / "c").mkdir()
        (tmp_path / "g" / name / "c" / "0").write_bytes(bytes(size))
    store = open_store(tmp_path, "r")
    with pytest.raises(CorruptDataError, match="8 bytes each"):
        read_groups(store, "g")
    array(tmp_path / "r", [0], [1], ROWS, "variable_length_bytes", group_ranges={"9" * 5000: [0, 1]})
    with pytest.raises(MetadataError, match="range of a group"):
        read_groups(store, "r")
    group(tmp_path / "s")
    array(tmp_path / "s" / "__shard_0", [8], [8], shard_index="{")
    node = read_node(store, "s")
    assert isinstance(node, Node)
    with pytest.raises(MetadataError, match="not JSON"):
        SubArrayCells(node, 3).stored()
    array(tmp_path / "k", [8], [8])
    for member in ("chunk_grid", "chunk_key_encoding"):
        document = json.loads((tmp_path / "k" / "zarr.json").read_text())
        document[member]["configuration"] = [1]
        (tmp_path / "k" / "zarr.json").write_text(json.dumps(document))
        with pytest.raises(MetadataError, match=member):
            object_attribute(store, "k")
        array(tmp_path / "k", [8], [8])
    assert object_attribute(store, "k").tolist() == [0] * 8


@pytest.mark.parametrize(
    ("member", "value"),
    [("chunk_shape", [10**400] * 3), ("bounds", 5), ("bounds", [[0], [1]]), ("bounds", [[0] * 3, [10**400] * 3]),
     ("geometry_types", 5), ("geometry_types", [[]])],
)  # fmt: skip
def test_nonsense_in_the_root_is_refused(store: Path, member: str, value: Any) -> None:
    document = json.loads((store / "zarr.json").read_text())
    document["attributes"]["zarr_vectors"][member] = value
    (store / "zarr.json").write_text(json.dumps(document))
    with pytest.raises(MetadataError, match=member):
        getattr(zvf.open(store), member)


def test_a_chunk_has_as_many_coordinates_as_the_grid(store: Path) -> None:
    with pytest.raises(ValueError, match="3 coordinates"):
        zvf.open(store).level(0).read_chunk((0, 0))


@pytest.mark.parametrize("fill", [[], [1, 2], {}, "x", 10**400])
@pytest.mark.parametrize("dtype", ["int64", "float32"])
def test_fill_values_that_are_none(tmp_path: Path, fill: Any, dtype: str) -> None:
    path = array(tmp_path, [4], [4], dtype=dtype) / "zarr.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "fill_value": fill}))
    with pytest.raises(MetadataError, match="fill value"):
        require_array(open_store(tmp_path, "r"), "").read_numbers()


@pytest.mark.parametrize("bounds", [5, [[0] * 3, ["x"] * 3], [[0] * 3, [None] * 3], [[1] * 3, [0] * 3]])
def test_validation_names_bounds_that_are_none(store: Path, bounds: Any) -> None:
    document = json.loads((store / "zarr.json").read_text())
    document["attributes"]["zarr_vectors"]["bounds"] = bounds
    (store / "zarr.json").write_text(json.dumps(document))
    found = zvf.validate(store, level=2)
    assert not found.ok
    assert "bound" in found.errors[0].message


def test_bounds_may_be_endless(store: Path) -> None:
    document = json.loads((store / "zarr.json").read_text())
    document["attributes"]["zarr_vectors"]["bounds"] = [[-float("inf")] * 3, [float("inf")] * 3]
    (store / "zarr.json").write_text(json.dumps(document))
    assert zvf.open(store).bounds == ([-float("inf")] * 3, [float("inf")] * 3)


@pytest.mark.parametrize("family", ["vertices", "vertex_fragments"])
def test_a_grid_of_another_rank_than_the_level_is_refused(store: Path, family: str) -> None:
    path = store / "0" / family / "zarr.json"
    document = json.loads(path.read_text())
    document["shape"].append(1)
    document["chunk_grid"]["configuration"]["chunk_shape"].append(1)
    path.write_text(json.dumps(document))
    level = zvf.open(store).level(0)
    for read in (level.read, lambda: level.read_object(0), lambda: level.read_bbox((0, 0, 0), (9, 9, 9))):
        with pytest.raises(MetadataError, match="another rank"):
            read()
    assert not zvf.validate(store).ok
    assert not zvcore.verify(store).ok


def test_shards_of_astronomical_size_are_refused(store: Path) -> None:
    zvf.shard_store(store, shard_shape=4)
    path = store / "0/vertices/zarr.json"
    document = json.loads(path.read_text())
    document["chunk_grid"]["configuration"]["chunk_shape"] = [2**60, 2**60, 2**60]
    path.write_text(json.dumps(document))
    level = zvf.open(store).level(0)
    for read in (level.read, lambda: level.read_object(0), level.chunks):
        with pytest.raises(MetadataError, match="a shard of"):
            read()
    assert not zvf.validate(store).ok
    assert not zvcore.verify(store).ok


@pytest.mark.parametrize("extent", [2**31, 2**60])
def test_chunks_of_numbers_of_astronomical_size_are_refused(tmp_path: Path, extent: int) -> None:
    array(tmp_path, [4], [extent], dtype="int64")
    with pytest.raises(CorruptDataError, match="too large"):
        require_array(open_store(tmp_path, "r"), "").read_numbers()
