"""zvcore and zarr-vectors read each other's stores equal, in order, and find each other's stores valid."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from zarr_vectors import sharding as reference_sharding
from zarr_vectors.building import get_resolution_level, open_store
from zarr_vectors.core import arrays as reference
from zarr_vectors.types.points import read_points, write_points
from zarr_vectors.types.polylines import read_polylines, write_polylines
from zarr_vectors.validate import validate

import zvcore.zvf as zvf

if TYPE_CHECKING:
    from pathlib import Path

# The reference warns of its own data type, which no specification fixes yet.
pytestmark = pytest.mark.filterwarnings("ignore")

LAYOUTS: list[dict[str, Any]] = [
    {},
    {"shard_shape": 2},
    {"compressor": "zstd"},
    {"compressor": "blosc", "shard_shape": (3, 1, 2)},
]


def some_lines(ndim: int = 3, dtype: str = "float32") -> list[np.ndarray]:
    rng = np.random.default_rng(12)
    return [np.cumsum(rng.normal(size=(n, ndim)), 0).astype(dtype) * 3 for n in rng.integers(2, 25, 30)]


def some_points() -> dict[str, Any]:
    rng = np.random.default_rng(13)
    return {
        "positions": (rng.random((300, 3)) * 40 - 20).astype("f4"),
        "chunk_shape": (10, 10, 10),
        "object_ids": rng.integers(0, 25, 300) * 3,
        "vertex_attributes": {
            "intensity": rng.random(300).astype("f4"),
            "gene": np.array(["a", "bb", "c"])[rng.integers(0, 3, 300)],
            "pair": rng.random((300, 2)),
        },
        "object_attributes": {"weight": np.arange(25.0)},
        "groups": {0: [3, 6], 2: [9]},
        "group_attributes": {"g": np.arange(3)},
    }


def arrays_of(store: Path) -> dict[str, bytes]:
    """The stored bytes of every per-chunk array."""
    return {
        str(path.relative_to(store)): path.read_bytes()
        for family in ("vertices", "vertex_fragments", "vertex_attributes", "links")
        for path in sorted((store / "0" / family).rglob("*"))
        if path.is_file() and path.name != "zarr.json"
    }


def attributes_of(path: Path) -> Any:
    return json.loads(path.read_text())


@pytest.mark.parametrize("layout", [LAYOUTS[0], LAYOUTS[3]])
def test_points(tmp_path: Path, layout: dict) -> None:
    given = some_points()
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    positions = given.pop("positions")
    assert write_points(theirs, positions, **given, **layout) == zvf.write_points(ours, positions, **given, **layout)
    if not layout:
        assert arrays_of(theirs) == arrays_of(ours)
        assert attributes_of(theirs / "0/zarr.json") == attributes_of(ours / "0/zarr.json")
        for array in ("vertices", "vertex_fragments", "vertex_attributes/gene", "vertex_attributes/pair"):
            assert attributes_of(theirs / "0" / array / "zarr.json") == attributes_of(ours / "0" / array / "zarr.json")
    names = ["intensity", "gene", "pair"]
    for path in (theirs, ours):
        result = validate(path, level=5)
        assert result.ok, result.summary()
        assert zvf.validate(path, level=5).ok
        expected = read_points(path, attribute_names=names)
        level = zvf.open(path).level(0)
        found = level.read(names)
        order, back = np.lexsort(found.positions.T), np.lexsort(expected["positions"].T)
        assert np.array_equal(found.positions[order], expected["positions"][back])
        for name in names:
            assert np.array_equal(found.attributes[name][order], expected["vertex_attributes"][name][back])
        group = get_resolution_level(open_store(path), 0)
        for number in level.object_ids().tolist():
            pieces = reference.read_object_vertices(group, number)
            assert np.array_equal(np.concatenate(pieces), level.read_object(number))
        box = ([-3, -8, 0], [12, 9, 15])
        inside = read_points(path, bbox=tuple(map(np.array, box)))["positions"]
        mine = level.read_bbox(*box).positions
        assert sorted(map(tuple, mine.tolist())) == sorted(map(tuple, inside.tolist()))
        assert level.object_attribute("weight").tolist() == list(range(25))
        assert {k: v.tolist() for k, v in level.groups().items()} == {0: [3, 6], 2: [9]}
        assert reference.read_group_object_ids(group, 0) == [3, 6]


@pytest.mark.parametrize("bins", [None, (5.0, 2.0, 10.0)])
def test_points_without_objects(tmp_path: Path, bins: Any) -> None:
    positions = some_points()["positions"]
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    given = {"chunk_shape": (10, 10, 10), "bin_shape": bins}
    assert write_points(theirs, positions, **given) == zvf.write_points(ours, positions, **given)
    assert arrays_of(theirs) == arrays_of(ours)
    root = attributes_of(theirs / "zarr.json")
    root["attributes"]["ome"]["name"] = "ours"
    assert attributes_of(ours / "zarr.json") == root
    assert validate(ours, level=5).ok
    assert zvf.validate(theirs, level=5).ok
    expected = read_points(theirs)["positions"]
    found = zvf.open(theirs).level(0).read().positions
    assert sorted(map(tuple, found.tolist())) == sorted(map(tuple, expected.tolist()))


@pytest.mark.parametrize(
    ("layout", "ndim", "dtype"),
    [(LAYOUTS[0], 3, "float32"), (LAYOUTS[1], 2, "float32"), (LAYOUTS[2], 3, "float64"), (LAYOUTS[3], 3, "float32")],
)
def test_lines(tmp_path: Path, layout: dict, ndim: int, dtype: str) -> None:
    if isinstance(layout.get("shard_shape"), tuple):
        layout = {**layout, "shard_shape": layout["shard_shape"][:ndim]}
    lines = some_lines(ndim, dtype)
    given: dict[str, Any] = {
        "chunk_shape": (10.0,) * ndim,
        "dtype": dtype,
        "vertex_attributes": {"s": [np.arange(len(line), dtype="f4") for line in lines]},
        "object_attributes": {"n": np.array([len(line) for line in lines])},
        "groups": {0: [0, 1, 2]},
    }
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    done = zvf.write_polylines(ours, iter(lines), **given, **layout)
    assert done == write_polylines(theirs, lines, **given, **layout)
    if not layout:
        assert arrays_of(theirs) == arrays_of(ours)
    for path in (theirs, ours):
        result = validate(path, level=5)
        assert (result.ok, result.warnings) == (True, []), result.summary()
        assert zvf.validate(path, level=5).ok
        level = zvf.open(path).level(0)
        found = level.read(["s"])
        assert found.positions.dtype == dtype
        assert all(np.array_equal(a, b) for a, b in zip(found.to_list(), lines, strict=True))
        expected = read_polylines(path)
        assert all(
            np.array_equal(np.concatenate(a), b) for a, b in zip(expected["polylines"], found.to_list(), strict=True)
        )
        assert np.array_equal(expected["vertex_attributes"]["s"], found.attributes["s"])
        group = get_resolution_level(open_store(path), 0)
        assert level.manifests().to_lists() == reference.read_all_object_manifests(group)
        links = level.links()
        mine = [
            tuple((tuple(c), v) for c, v in zip(chunks, rows, strict=True))
            for chunks, rows in zip(links.chunks.tolist(), links.vertices.tolist(), strict=True)
        ]
        assert mine == reference.read_links(group)


def test_appended_and_coarser_levels_are_valid_to_the_reference(tmp_path: Path) -> None:
    lines = some_lines()
    path = tmp_path / "s"
    zvf.write_polylines(path, lines[:10], chunk_shape=(10,) * 3, object_attributes={"n": np.arange(10)}, shard_shape=2)
    zvf.write_polylines(path, lines[10:], object_attributes={"n": np.arange(10, 30)}, append=True)
    zvf.write_coarser_level(path, every=2, snap=(5.0,) * 3, keep=range(0, 30, 2))
    result = validate(path, level=5)
    assert (result.ok, result.warnings) == (True, []), result.summary()
    expected = read_polylines(path)
    assert all(np.array_equal(np.concatenate(a), b) for a, b in zip(expected["polylines"], lines, strict=True))
    coarse = read_polylines(path, level=1)
    found = zvf.open(path).level(1)
    assert coarse["object_ids"] == found.object_ids(present_only=True).tolist() == list(range(0, 30, 2))
    for number, pieces in zip(coarse["object_ids"], coarse["polylines"], strict=True):
        assert np.array_equal(np.concatenate(pieces), found.read_object(number))


def test_chunks_by_attribute(tmp_path: Path) -> None:
    """A grid with one axis more than space has: only the reference writes it."""
    given = some_points()
    positions = given["positions"]
    write_points(
        tmp_path / "s", positions, chunk_shape=(10, 10, 10), object_ids=given["object_ids"],
        vertex_attributes=given["vertex_attributes"], chunk_by_attribute="gene",
    )  # fmt: skip
    level = zvf.open(tmp_path / "s").level(0)
    assert level.grid_ndim == 4
    assert level.manifests().sid_ndim == 4
    found = level.read(["intensity"])
    order, back = np.lexsort(found.positions.T), np.lexsort(positions.T)
    assert np.array_equal(found.positions[order], positions[back])
    assert np.array_equal(found.attributes["intensity"][order], given["vertex_attributes"]["intensity"][back])
    box = ([-3, -8, 0], [12, 9, 15])
    inside = ((positions >= box[0]) & (positions <= box[1])).all(1)
    assert len(level.read_bbox(*box).positions) == inside.sum()
    before = found.positions.tobytes()
    zvf.shard_store(tmp_path / "s", shard_shape=2)
    assert level.read().positions.tobytes() == before == zvf.open(tmp_path / "s").level(0).read().positions.tobytes()
    assert validate(tmp_path / "s", level=5).ok
    assert zvf.validate(tmp_path / "s", level=5).ok


@pytest.mark.parametrize("shape", [2, (8, 3, 5)])
def test_sharding_as_the_reference_does_it(tmp_path: Path, shape: Any) -> None:
    lines = some_lines()
    for name in ("theirs", "ours"):
        write_polylines(tmp_path / name, lines, chunk_shape=(10,) * 3)
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    assert zvf.shard_store(ours, shard_shape=shape) == reference_sharding.shard_store(theirs, shard_shape=shape)
    # The reference lists arrays in the order in which the folder has them.
    info = reference_sharding.get_shard_info(ours)
    info["arrays"].sort(key=lambda entry: entry["name"].split("/"))
    mine = zvf.get_shard_info(ours)
    mine["arrays"].sort(key=lambda entry: entry["name"].split("/"))
    assert mine == info
    assert zvf.get_shard_info(ours) == zvf.get_shard_info(theirs)
    assert zvf.is_sharded(theirs)
    assert reference_sharding.is_sharded(ours)
    for path in (theirs, ours):
        assert validate(path, level=5).ok
        assert zvf.validate(path, level=5).ok
        expected = [np.concatenate(pieces) for pieces in read_polylines(path)["polylines"]]
        assert all(np.array_equal(a, b) for a, b in zip(expected, lines, strict=True))
        assert all(np.array_equal(a, b) for a, b in zip(zvf.open(path).level(0).read().to_list(), lines, strict=True))
    # Each unpacks what the other has packed.
    theirs_done = reference_sharding.unshard_store(ours)
    assert zvf.unshard_store(theirs) == theirs_done
    assert arrays_of(theirs) == arrays_of(ours)


def test_reading_what_the_reference_reads_wrongly(tmp_path: Path) -> None:
    """float64 comes back as float32 garbage, and ids beyond the number of objects not at all."""
    lines = some_lines(3, "float64")
    write_polylines(tmp_path / "f8", lines, chunk_shape=(10,) * 3, dtype="float64")
    assert np.array_equal(zvf.compat.read_object_vertices(zvf.open(tmp_path / "f8").level(0), 0)[0][:1], lines[0][:1])
    given = some_points()
    write_points(tmp_path / "p", given["positions"], chunk_shape=(10,) * 3, object_ids=given["object_ids"] + 1000)
    assert len(zvf.open(tmp_path / "p").level(0).read()) == len(set(given["object_ids"].tolist()))


@pytest.mark.slow
def test_real_tracts_go_through_every_layout(tmp_path: Path) -> None:
    import nibabel

    data = __import__("pathlib").Path(nibabel.__file__).parent / "tests" / "data"
    for name in ("standard.trk", "complex.trk", "standard.tck", "simple.trk"):
        lines = [np.asarray(line) for line in nibabel.streamlines.load(data / name).streamlines]
        path = tmp_path / name
        zvf.read_tractogram(data / name, path)
        for step in (None, 4, (2, 3, 5), None):
            if step is not None or zvf.is_sharded(path):
                zvf.reshard(path, step)
            found = zvf.open(path).level(0).read()
            assert all(np.array_equal(a, b) for a, b in zip(found.to_list(), lines, strict=True))
            assert validate(path, level=5).ok
        assert zvf.write_tractogram(zvf.open(path).level(0), tmp_path / "back.tck") == len(lines)
        back = nibabel.streamlines.load(tmp_path / "back.tck").streamlines
        assert all(np.allclose(a, b, atol=1e-4) for a, b in zip(back, lines, strict=True))
        arrays = zvf.to_trx_arrays(zvf.open(path).level(0))
        for offsets in (arrays["offsets"], arrays["offsets"][:-1]):
            again = tmp_path / f"trx-{name}-{len(offsets)}"
            zvf.from_trx_arrays(again, arrays["positions"], offsets, chunk_shape=(20.0,) * 3)
            assert np.array_equal(zvf.open(again).level(0).read().positions, arrays["positions"])
