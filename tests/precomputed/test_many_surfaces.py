"""The triangles of many meshes at once: the same as one by one, in few requests, of one version."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zvcore
from tests.precomputed import solids
from zvcore.errors import CorruptDataError, NotFoundError
from zvcore.precomputed import (
    LegacyMeshes,
    Meshes,
    ShardingSpec,
    Skeleton,
    Surface,
    encode_mesh,
    write_mesh_fragments,
    write_meshes,
    write_skeletons,
)
from zvcore.precomputed.sharded_store import ShardedStore
from zvcore.stores import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

pytest.importorskip("DracoPy")
RAW = ShardingSpec(0, "identity", 1, 0, "raw", "raw")
WAYS: dict[str, dict[str, Any]] = {
    "shards": {"sharding": RAW},
    "files": {"sharding": None},
    "legacy": {"kind": "legacy"},
}


def levels(lods: int) -> list[Any]:
    return [solids.sphere(20 >> lod) for lod in range(lods)]


def stored(place: Any, way: str, lods: int = 1) -> Any:
    shapes = {id: levels(lods) if lods > 1 else solids.sphere(8 + id % 7) for id in (1, 5, 6, 2**64 - 1)}
    write_meshes(place, shapes, **WAYS[way])
    return zvcore.open(place)


def assert_same(found: Any, expected: Any) -> None:
    np.testing.assert_array_equal(found.vertices, expected.vertices)
    np.testing.assert_array_equal(found.faces, expected.faces)


@pytest.mark.parametrize("way", WAYS)
def test_many_are_the_same_as_one_by_one(tmp_path: Path, way: str) -> None:
    meshes = stored(tmp_path, way)
    found = meshes.surfaces([6, 1, 3, 2**64 - 1, 1])
    assert sorted(found) == [1, 6, 2**64 - 1]
    for id, surface in found.items():
        assert_same(surface, meshes[id])
    assert meshes.surfaces([]) == {}
    assert meshes.surfaces([3]) == {}


@pytest.mark.parametrize("way", ["shards", "files"])
def test_each_level(tmp_path: Path, way: str) -> None:
    meshes = stored(tmp_path, way, 2)
    assert isinstance(meshes, Meshes)
    for lod in range(2):
        for id, surface in meshes.surfaces([1, 5], lod).items():
            assert_same(surface, meshes.get(id, lod=lod))
    for wrong in (2, -1):
        with pytest.raises(IndexError, match=f"{wrong} is none of them"):
            meshes.surfaces([1], wrong)
    with pytest.raises(TypeError):
        meshes.surfaces([1], 0.5)  # type: ignore[arg-type]


def test_legacy_meshes_have_one_level(tmp_path: Path) -> None:
    meshes = stored(tmp_path, "legacy")
    assert isinstance(meshes, LegacyMeshes)
    with pytest.raises(IndexError, match="1 is none"):
        meshes.surfaces([1], 1)
    (tmp_path / "5:0:0").unlink()
    with pytest.raises(NotFoundError, match="not there"):
        meshes.surfaces([1, 5])


def test_a_mesh_without_levels_has_none(tmp_path: Path) -> None:
    nothing = encode_mesh([Surface(*solids.sphere(8))])
    empty = type(nothing[0])(nothing[0].chunk_shape, nothing[0].grid_origin, [])
    write_mesh_fragments(tmp_path, [(1, *nothing), (2, empty, [])], sharding=RAW)
    meshes = zvcore.open(tmp_path)
    assert len(meshes.surfaces([1])[1].faces)
    with pytest.raises(IndexError):
        meshes.surfaces([1, 2])


def test_a_manifest_that_claims_more_than_there_is(tmp_path: Path) -> None:
    made, fragments = encode_mesh([Surface(*solids.sphere(8))])
    write_mesh_fragments(tmp_path, [(7, made, fragments)], sharding=RAW)
    name, offset, size = ShardedStore(tmp_path, RAW).locate(7)
    whole = bytearray((tmp_path / name).read_bytes())
    made.levels[0].sizes[0] += 10**6
    whole[offset : offset + size] = made.to_bytes()
    (tmp_path / name).write_bytes(whole)
    with pytest.raises(CorruptDataError, match="bytes before the value") as caught:
        zvcore.open(tmp_path).surfaces([7])
    assert caught.value.chunk == 7
    assert caught.value.offset == offset


def test_manifest_and_fragments_are_of_one_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_meshes(tmp_path, {1: solids.sphere(8), 2: solids.sphere(9)}, sharding=RAW)
    meshes = zvcore.open(tmp_path)
    shards = meshes._objects.shards
    original, turns = shards._fetched, []

    def fetched(*given: Any) -> Any:
        found = original(*given)
        turns.append(given)
        if len(turns) == 1:  # the manifests have come
            write_meshes(tmp_path, {1: solids.sphere(15), 2: solids.sphere(16)}, sharding=RAW, overwrite=True)
        return found

    monkeypatch.setattr(shards, "_fetched", fetched)
    found = meshes.surfaces([1, 2])
    assert len(turns) == 3  # manifests, manifests and fragments of the other version
    again = zvcore.open(tmp_path)
    for id, surface in found.items():
        assert_same(surface, again[id])


@pytest.mark.parametrize("way", WAYS)
def test_in_memory(way: str) -> None:
    store = MemoryStore()
    meshes = stored(store, way)
    for id, surface in meshes.surfaces([1, 5]).items():
        assert_same(surface, meshes[id])


class Counting(MemoryStore):
    """Remembers how many objects were asked for at a time."""

    def __init__(self) -> None:
        super().__init__()
        self.together: list[int] = []

    def get_many(self, keys: Iterable[str]) -> Iterator[bytes | memoryview | None]:
        names = [*keys]
        self.together.append(len(names))
        return super().get_many(names)


def test_files_of_many_are_asked_for_together() -> None:
    store = Counting()
    meshes = stored(store, "legacy")
    store.together.clear()
    assert len(meshes.get_many([1, 3, 5, 6])) == 3
    assert [count for count in store.together if count] == [4, 3]  # manifests, fragments
    path = Skeleton(np.zeros((2, 3), "f4"), np.array([[0, 1]], "u4"))
    store = Counting()
    write_skeletons(store, {1: path, 5: path})
    store.together.clear()
    assert len(zvcore.open(store).get_many([1, 3, 5])) == 2
    assert [count for count in store.together if count] == [3]


@pytest.mark.parametrize("some", [{"1", "1:0", "1:0:0"}, {"5:0:0"}])
def test_packed_files_beside_plain_ones(tmp_path: Path, some: set[str]) -> None:
    path = Skeleton(np.arange(6, dtype="f4").reshape(2, 3), np.array([[0, 1]], "u4"))
    write_skeletons(tmp_path / "bones", {1: path, 5: path})
    stored(tmp_path / "skins", "legacy")
    expected = dict(zvcore.open(tmp_path / "skins").items())
    for file in [*(tmp_path / "bones").iterdir(), *(tmp_path / "skins").iterdir()]:
        if file.name in some:
            file.with_name(f"{file.name}.gz").write_bytes(gzip.compress(file.read_bytes()))
            file.unlink()
    assert [*zvcore.open(tmp_path / "bones").get_many([1, 2, 5])] == [1, 5]
    found = zvcore.open(tmp_path / "skins").get_many([1, 2, 5])
    assert [*found] == [1, 5]
    for id, mesh in found.items():
        assert_same(mesh, expected[id])
