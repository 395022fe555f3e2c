"""Stores of other ages: format 0.7 as zarr-vectors 0.2.0 wrote it, the legacy object index, dense manifests."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

import zvcore.zvf as zvf
from zvcore.errors import CorruptDataError, MetadataError, NotFoundError, UnsupportedError

pytestmark = pytest.mark.filterwarnings("ignore")

DATA = Path(__file__).parents[1] / "zvf" / "data" / "format-0.7.zip"


@pytest.fixture
def old(tmp_path: Path) -> Path:
    with zipfile.ZipFile(DATA) as archive:
        archive.extractall(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", ["lines", "lines_sharded"])
def test_lines_of_format_0_7(old: Path, name: str) -> None:
    expected = np.load(old / "expected.npz")
    level = zvf.open(old / name).level(0)
    assert zvf.open(old / name).version == "0.7.0"
    assert level.dtype == np.float64
    found = level.read(["s"])
    assert np.array_equal(found.positions, expected["lines"].reshape(-1, 3))
    assert np.array_equal(found.attributes["s"], expected["s"].reshape(-1))
    for number, line in enumerate(expected["lines"]):
        assert np.array_equal(level.read_object(number), line)
    links = level.links()
    assert len(links) == sum(len(level.manifest(number)) - 1 for number in range(3))
    lo, hi = expected["lines"][0].min(0), expected["lines"][0].max(0)
    assert 0 in level.read_bbox(lo, hi).object_ids
    result = zvf.validate(old / name, level=5)
    assert result.ok, result.summary()


def test_points_of_format_0_7(old: Path) -> None:
    expected = np.load(old / "expected.npz")
    level = zvf.open(old / "points").level(0)
    found = level.read(["intensity"])
    for row, number in enumerate(found.object_ids.tolist()):
        mine = expected["points"][expected["ids"] == number]
        assert sorted(map(tuple, found[row].tolist())) == sorted(map(tuple, mine.tolist()))
    assert sorted(found.attributes["intensity"]) == sorted(expected["intensity"])
    assert level.object_attribute("weight").tolist() == [0, 1, 2, 3]
    assert {number: ids.tolist() for number, ids in level.groups().items()} == {0: [1, 2], 3: [0]}
    assert zvf.validate(old / "points", level=5).ok


def test_format_0_7_has_no_grid_to_pack(old: Path) -> None:
    assert not zvf.is_sharded(old / "lines")
    with pytest.raises(UnsupportedError, match="no grid"):
        zvf.shard_store(old / "lines")
    with pytest.raises(UnsupportedError, match="not appended"):
        zvf.write_polylines(old / "lines", [np.zeros((2, 3))], append=True)


def test_damage_to_format_0_7(old: Path) -> None:
    shard = next(iter(sorted((old / "lines_sharded/0/vertices").glob("__shard_*"))))
    document = json.loads((shard / "zarr.json").read_text())
    key = next(iter(document["attributes"]["shard_index"]))
    for entry in ([0, 10**9], [-8, 8], [2**62, 2**62], [0], "x"):
        document["attributes"]["shard_index"][key] = entry
        (shard / "zarr.json").write_text(json.dumps(document))
        with pytest.raises((CorruptDataError, MetadataError), match="shard"):
            zvf.open(old / "lines_sharded").level(0).read()
    cell = next(iter(sorted((old / "lines/0/vertices").glob("*/c/0"))))
    cell.write_bytes(cell.read_bytes()[:-1])
    with pytest.raises(CorruptDataError):
        zvf.open(old / "lines").level(0).read()
    assert not zvf.validate(old / "lines").ok


def blobs_of(store: Path) -> list[bytes]:
    return zvf.open(store).level(0).require_objects().blobs()


def set_index(store: Path, attributes: dict[str, Any]) -> Path:
    """An object index of the same objects without its arrays."""
    import shutil

    folder = store / "0/object_index"
    shutil.rmtree(folder)
    folder.mkdir()
    document = {"zarr_format": 3, "node_type": "group", "attributes": {"zv_array": "object_index", **attributes}}
    (folder / "zarr.json").write_text(json.dumps(document))
    return folder


@pytest.fixture
def lines(tmp_path: Path) -> tuple[Path, list[np.ndarray]]:
    rng = np.random.default_rng(14)
    found = [np.cumsum(rng.normal(size=(n, 3)), 0).astype("f4") * 5 for n in rng.integers(2, 20, 12)]
    zvf.write_polylines(tmp_path / "s", found, chunk_shape=(10,) * 3)
    return tmp_path / "s", found


def put_bytes(path: Path, data: bytes) -> None:
    array = zarr.create_array(path, shape=(len(data),), chunks=(len(data),), dtype="u1", compressors=None)
    array[:] = np.frombuffer(data, "u1")


def test_the_legacy_layout_with_its_open_end(lines: tuple) -> None:
    path, expected = lines
    blobs = blobs_of(path)
    folder = set_index(path, {"num_objects": 12, "sid_ndim": 3})
    offsets = np.cumsum([0, *map(len, blobs)])[:-1].astype("<i8")
    put_bytes(folder / "data", b"".join(blobs))
    put_bytes(folder / "offsets", offsets.tobytes())
    level = zvf.open(path).level(0)
    assert level.require_objects().layout == "data + offsets"
    assert blobs_of(path) == blobs
    assert all(np.array_equal(a, b) for a, b in zip(level.read().to_list(), expected, strict=True))
    assert np.array_equal(level.read_object(11), expected[11])
    assert level.object_ids().tolist() == list(range(12))
    assert zvf.validate(path, level=5).ok
    bad = {
        "not 8 bytes per object": offsets[:-1].tobytes(),
        "begin at 0": (offsets + 1).tobytes(),
        "not decrease": offsets[::-1].tobytes(),
        "stay within": np.append(offsets[:-1], 10**9).astype("<i8").tobytes(),
    }
    import shutil

    for raw in bad.values():
        shutil.rmtree(folder / "offsets")
        put_bytes(folder / "offsets", raw)
        with pytest.raises(CorruptDataError, match="object"):
            zvf.open(path).level(0).read()
        assert not zvf.validate(path).ok


def test_trailing_bytes_of_the_last_legacy_blob(lines: tuple) -> None:
    path, expected = lines
    blobs = blobs_of(path)
    folder = set_index(path, {"num_objects": 12, "sid_ndim": 3})
    put_bytes(folder / "data", b"".join(blobs) + b"!!")
    put_bytes(folder / "offsets", np.cumsum([0, *map(len, blobs)])[:-1].astype("<i8").tobytes())
    level = zvf.open(path).level(0)
    assert np.array_equal(level.read_object(3), expected[3])
    with pytest.raises(CorruptDataError, match=r"row 11.*2 trailing bytes"):
        level.read_object(11)


@pytest.mark.parametrize("stated", [True, False])
def test_dense_manifests(lines: tuple, stated: bool) -> None:
    path, expected = lines
    csr = zvf.open(path).level(0).manifests().to_csr()
    ids = np.arange(12) * 5 + 2
    attributes: dict[str, Any] = {"num_objects": 12, "sid_ndim": 3}
    folder = set_index(path, {**attributes, "layout": "dense_manifests_v1"} if stated else attributes)
    # Blocks in another order than the objects, with one between them that nobody names.
    order = np.random.default_rng(15).permutation(12)
    blocks, spans = [np.full((1, 4), 7)], np.zeros((12, 2), np.int64)
    at = 1
    for row in order.tolist():
        mine = slice(csr.offsets[row], csr.offsets[row + 1])
        blocks.append(np.column_stack([csr.chunk_coords[mine], csr.fragment_idx[mine]]))
        spans[row] = at, len(blocks[-1])
        at += len(blocks[-1])
    for name, values in (("manifest_spans", spans), ("manifest_blocks", np.concatenate(blocks)), ("object_ids", ids)):
        zarr.create_array(folder / name, data=values, chunks=(5, *values.shape[1:]))
    level = zvf.open(path).level(0)
    assert level.require_objects().layout == "dense_manifests_v1"
    assert level.object_ids().tolist() == ids.tolist()
    assert all(np.array_equal(a, b) for a, b in zip(level.read().to_list(), expected, strict=True))
    assert np.array_equal(level.read_object(7), expected[1])
    assert zvf.validate(path, level=5).ok
    with pytest.raises(NotFoundError):
        level.read_object(0)
    for span in ([0, 10**6], [-1, 1], [2**62, 2**62]):
        zarr.open(folder / "manifest_spans")[3] = span
        with pytest.raises(CorruptDataError, match=r"manifest_spans.*row 3"):
            zvf.open(path).level(0).read()


def test_a_stale_table_of_ids_beside_the_first_layout(lines: tuple) -> None:
    path, expected = lines
    node = path / "0/object_index/zarr.json"
    document = json.loads(node.read_text())
    document["attributes"]["layout"] = "vlen_manifests_v1"
    node.write_text(json.dumps(document))
    zarr.open(path / "0/object_index/object_ids")[:] = 99
    level = zvf.open(path).level(0)
    assert level.object_ids().tolist() == list(range(12))
    assert np.array_equal(level.read_object(5), expected[5])


def test_torn_appends(lines: tuple) -> None:
    path, expected = lines
    node = path / "0/object_index/zarr.json"
    document = json.loads(node.read_text())
    for stated, rows in ((10, 10), (15, 12)):
        document["attributes"]["num_objects"] = stated
        document["attributes"]["layout"] = "vlen_manifests_v1"
        node.write_text(json.dumps(document))
        level = zvf.open(path).level(0)
        assert len(level.object_ids()) == rows == len(level.read())
        assert np.array_equal(level.read_object(9), expected[9])


@pytest.mark.parametrize("sharded", [False, True])
def test_manifests_in_chunks_of_any_size(lines: tuple, sharded: bool) -> None:
    """26 rows to a chunk for ever, or shards along the rows: both exist."""
    import shutil

    path, expected = lines
    blobs = blobs_of(path)
    folder = path / "0/object_index/manifests"
    shutil.rmtree(folder)
    array = zarr.create_array(
        folder, shape=(12,), chunks=(5,), shards=(10,) if sharded else None, dtype="variable_length_bytes"
    )
    values = np.empty(12, object)
    values[:] = blobs
    array[:] = values
    level = zvf.open(path).level(0)
    assert blobs_of(path) == blobs
    assert all(np.array_equal(a, b) for a, b in zip(level.read().to_list(), expected, strict=True))
    found = level.read_objects([11, 0, 6, 0])
    for row, number in enumerate([11, 0, 6, 0]):
        assert np.array_equal(found[row], expected[number])
    assert zvf.validate(path, level=5).ok
