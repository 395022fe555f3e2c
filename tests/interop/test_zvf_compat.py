"""The shim under the reference's names, and its functions swapped into the reference."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import zarr_vectors
from zarr_vectors import exceptions
from zarr_vectors.building import get_resolution_level, open_store
from zarr_vectors.core import arrays as reference_arrays
from zarr_vectors.encoding import fragments as reference
from zarr_vectors.sharding import io as reference_sharding
from zarr_vectors.types.polylines import read_polylines, write_polylines

import zvcore.zvf as zvf
import zvcore.zvf.compat as compat
from zvcore.errors import ZvcoreError
from zvcore.zvf import acceleration

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.filterwarnings("ignore")

BLOCKS = [[((0, 1, 2), 7), ((0, 1, 3), (2, 3))], [], [((4, 5, 6), np.array([3, 1]))]]


@pytest.fixture
def store(tmp_path: Path) -> tuple[Path, list[np.ndarray]]:
    rng = np.random.default_rng(16)
    lines = [np.cumsum(rng.normal(size=(n, 3)), 0).astype("f4") * 4 for n in rng.integers(2, 30, 20)]
    write_polylines(tmp_path / "s", lines, chunk_shape=(10,) * 3)
    return tmp_path / "s", lines


def test_encoders_under_the_names_of_the_reference() -> None:
    blobs = [reference.encode_object_manifest_blocks(blocks, 3) for blocks in BLOCKS]
    assert [compat.encode_object_manifest_blocks(blocks, 3) for blocks in BLOCKS] == blobs
    assert compat.encode_object_manifests_many(BLOCKS, 3) == blobs
    assert repr(compat.decode_object_manifests_many(blobs, 3)) == repr(reference.decode_object_manifests_many(blobs, 3))
    single = blobs[:1] + [compat.encode_object_manifest_blocks([((1, 1, 1), 0)], 3)]
    assert compat.decode_object_manifests_many(single[1:], 3) == ([[((1, 1, 1), 0)]], True)
    offsets, coords, pieces = compat.decode_object_manifests_csr([*blobs, b""], 3)
    assert offsets.tolist() == [0, 4, 4, 6, 6]
    assert pieces.tolist() == [7, 2, 3, 4, 3, 1]
    assert coords[3].tolist() == [0, 1, 3]
    encoded = compat.encode_object_manifests_csr([[0, 0, 0], [1, 2, 3]], [5, 0])
    assert encoded.dtype == object
    assert compat.decode_object_manifest_blocks(encoded[1], 3) == [((1, 2, 3), 0)]
    assert compat.expand_manifest_blocks(BLOCKS[0]) == reference_arrays.expand_manifest_blocks(BLOCKS[0])
    raw = compat.encode_fragments([(0, 2), np.array([5, 1])])
    assert raw == reference.encode_fragments([(0, 2), np.array([5, 1])])
    assert compat.decode_fragments(raw).indices(1).tolist() == [5, 1]


@pytest.mark.parametrize(
    "call",
    [
        lambda: compat.decode_object_manifest_blocks(b"", 3),
        lambda: compat.decode_object_manifests_many([bytes(4), b""], 3),
        lambda: compat.decode_object_manifests_csr([b"\1"], 3),
        lambda: compat.encode_object_manifest_blocks([((0, 0), 1)], 3),
        lambda: compat.encode_object_manifests_csr([[0, 0, 0]], [-1]),
        lambda: compat.encode_object_manifests_csr([[0, 0]], [1], sid_ndim=3),
        lambda: compat.encode_fragments([(0, -1)]),
        lambda: compat.decode_fragments(b"GFVZ"),
    ],
    ids=range(8),
)
def test_errors_are_those_of_both_packages(call: Any) -> None:
    for kind in (exceptions.ArrayError, exceptions.ZVError, compat.ArrayError, ZvcoreError):
        with pytest.raises(kind):
            call()


def test_readers_take_levels_of_either_package(store: tuple) -> None:
    path, lines = store
    theirs, ours = get_resolution_level(open_store(path), 0), zvf.open(path).level(0)
    for level in (theirs, ours):
        assert compat.read_object_manifest(level, 3) == reference_arrays.read_object_manifest(theirs, 3)
        assert compat.read_all_object_manifests(level) == reference_arrays.read_all_object_manifests(theirs)
        some = compat.read_object_manifests(level, ids=[4, 999, 0])
        assert some == reference_arrays.read_object_manifests(theirs, ids=[4, 999, 0])
        assert len(compat.read_object_manifests(level)) == len(lines)
        assert compat.read_object_id_table(level).tolist() == list(range(len(lines)))
        pieces = compat.read_object_vertices(level, 3)
        expected = reference_arrays.read_object_vertices(theirs, 3)
        assert all(np.array_equal(a, b) for a, b in zip(pieces, expected, strict=True))
        chunk = compat.read_object_manifest(level, 3)[0][0]
        assert len(compat.read_fragment_index(level, "vertex_fragments", chunk))
        assert len(compat.read_all_object_manifests_csr(level).object_ids) == len(lines)
        with pytest.raises(exceptions.ArrayError, match=r"Object ID 999 is not in this level \(20 object\(s\)\)"):
            compat.read_object_manifest(level, 999)
    with pytest.raises(TypeError):
        compat.read_object_manifest(path, 3)
    with pytest.raises(exceptions.StoreError):
        compat.shard_store(path / "nothing")
    expected_lines, found = read_polylines(path), compat.read_polylines(path)
    for key in ("object_ids", "ndim", "polyline_count", "vertex_count"):
        assert found[key] == expected_lines[key]
    assert len(compat.read_polylines(path, object_ids=[3, 999])["polylines"]) == 1
    assert compat.read_polylines(path, bbox=([-5] * 3, [5] * 3))["polyline_count"]


def test_accelerating_and_giving_back(store: tuple) -> None:
    path, lines = store
    names = ("encode_object_manifest_blocks", "decode_object_manifests_many", "decode_fragments", "encode_fragments")
    before = {name: getattr(reference, name) for name in names}
    inside = reference_arrays.decode_fragments
    shard = reference_sharding.shard_store
    expected = read_polylines(path)
    with zvf.accelerate() as handle:
        assert all(getattr(reference, name) is not before[name] for name in names)
        assert reference_arrays.decode_fragments is not inside
        assert reference_sharding.shard_store is not shard
        assert "zarr_vectors.encoding.fragments.decode_fragments" in handle.replaced
        index = reference.decode_fragments(reference.encode_fragments([(0, 2), np.array([5, 1])]))
        assert isinstance(index, reference.ChunkFragmentIndex)
        assert index.indices(1).tolist() == [5, 1]
        assert index.vertex_extent == 6
        assert not index.tiles(2)
        assert index.is_range(0)
        with pytest.raises(exceptions.ArrayError, match="truncated"):
            reference.decode_object_manifest_blocks(b"\1\0\0\0", 3)
        assert zarr_vectors.sharding.shard_store(open_store(path, mode="r+"), shard_shape=2)["arrays_sharded"]
        found = read_polylines(path)
        write_polylines(path.parent / "t", lines, chunk_shape=(10,) * 3, shard_shape=2)
    assert all(getattr(reference, name) is before[name] for name in names)
    assert handle.replaced == []
    assert reference_arrays.decode_fragments is inside
    assert reference_sharding.shard_store is shard
    for a, b in zip(expected["polylines"], found["polylines"], strict=True):
        assert all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))
    written = zvf.open(path.parent / "t").level(0).read().to_list()
    assert all(np.array_equal(a, b) for a, b in zip(written, lines, strict=True))
    handle = zvf.accelerate()
    handle.restore()
    assert all(getattr(reference, name) is before[name] for name in names)


def test_the_package_does_not_import_the_reference_by_itself() -> None:
    import subprocess
    import sys

    text = "import sys, zvcore.zvf; print('zarr_vectors' in sys.modules, 'zarr' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


def test_no_module_keeps_the_reference_s_own_functions() -> None:
    """`is_sharded` stayed in the three modules that hold a copy of the name."""
    own = {name: getattr(reference_sharding, name) for name in acceleration.SHARDING}
    with zvf.accelerate():
        for name, module in list(sys.modules.items()):
            if name.startswith("zarr_vectors"):
                assert not [what for what, original in own.items() if getattr(module, what, None) is original], name
    assert reference_sharding.is_sharded is own["is_sharded"]
