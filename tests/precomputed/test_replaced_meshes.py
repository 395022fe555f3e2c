"""Meshes in two files, a manifest and fragments, that are replaced: nobody takes one for that of the other."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zvcore
from zvcore import precomputed
from zvcore.errors import ConflictError, NotFoundError, ZvcoreError
from zvcore.precomputed import ShardingSpec
from zvcore.stores import LocalStore

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("DracoPy")
PLACES = np.array([[0, 0, 0], [100, 0, 0], [0, 100, 0], [0, 0, 100]], "f4")
OTHER = PLACES[[0, 2, 3, 1]] + np.float32(50)
FACES = np.array([[0, 1, 2], [0, 1, 3], [0, 2, 3], [1, 2, 3]], "u4")
SHARDED = ShardingSpec(0, "identity", 0, 0, "raw", "raw")


def stored(folder: Path, places: Any) -> tuple[Any, list[bytes]]:
    precomputed.write_meshes(folder, {1: (places, FACES)}, sharding=None)
    mesh = zvcore.open(folder)[1]
    return mesh.manifest, mesh.fragments()


@pytest.fixture
def other(tmp_path: Path) -> tuple[Any, list[bytes]]:
    """Of the same size as the one that it replaces: nothing but its place tells it from that."""
    found = stored(tmp_path / "other", OTHER)
    assert len(found[1][0]) == len(stored(tmp_path / "same", PLACES)[1][0])
    return found


class DiedError(Exception):
    pass


@pytest.mark.parametrize("after", [1, 2])
def test_a_writer_that_dies_between_the_files_leaves_no_mesh_of_both(
    tmp_path: Path, other: tuple[Any, list[bytes]], monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    precomputed.write_meshes(tmp_path / "m", {1: (PLACES, FACES), 2: (PLACES, FACES)}, sharding=None)
    put, done = LocalStore.put, []

    def dying(self: LocalStore, key: str, data: Any) -> None:
        if len(done) == after - 1:
            raise DiedError
        done.append(key)
        put(self, key, data)

    meshes = zvcore.open(tmp_path / "m", "r+")
    with monkeypatch.context() as patch:
        patch.setattr(LocalStore, "put", dying)
        with pytest.raises(DiedError):
            meshes.update([(1, *other)])
    left = zvcore.open(tmp_path / "m", "r+")
    assert left.ids().tolist() == [2]
    report = zvcore.verify(tmp_path / "m")
    assert report.status == "damaged" and "without its manifest" in report.problems[0].what
    assert report.problems[0].where == "1"
    left.update([(1, *other)])
    assert zvcore.verify(tmp_path / "m").ok and left[1].vertices.max() == pytest.approx(150, abs=1)


@pytest.mark.parametrize("sharding", [None, SHARDED], ids=["files", "shards"])
@pytest.mark.parametrize("removed", [False, True])
def test_a_mesh_that_is_replaced_after_its_manifest_was_read(
    tmp_path: Path, other: tuple[Any, list[bytes]], sharding: Any, removed: bool
) -> None:
    precomputed.write_meshes(tmp_path / "m", {1: (PLACES, FACES)}, sharding=sharding)
    mesh = zvcore.open(tmp_path / "m")[1]
    writer = zvcore.open(tmp_path / "m", "r+")
    if removed:
        writer.delete([1])
    else:
        writer.update([(1, *other)])
    with pytest.raises(ConflictError, match="replaced or removed while it was read"):
        mesh.vertices
    if not removed:
        assert zvcore.open(tmp_path / "m")[1].vertices.max() == pytest.approx(150, abs=1)


@pytest.mark.parametrize("kind", ["multires", "legacy"])
def test_writers_of_one_mesh_take_turns(tmp_path: Path, other: tuple[Any, list[bytes]], kind: str) -> None:
    """Updates against removals: what is found at any time, and in the end, is whole."""
    options: dict[str, Any] = {"sharding": None} if kind == "multires" else {"kind": "legacy"}
    precomputed.write_meshes(tmp_path / "m", {1: (PLACES, FACES)}, **options)
    first = stored(tmp_path / "first", PLACES)
    errors: list[BaseException] = []

    def change(number: int) -> None:
        meshes = zvcore.open(tmp_path / "m", "r+")
        try:
            for turn in range(60):
                if (turn + number) % 3 == 0:
                    meshes.delete([1])
                elif kind == "multires":
                    meshes.update([(1, *(first if number else other))])
                else:
                    meshes.update({1: (PLACES if number else OTHER, FACES)})
        except ZvcoreError as error:
            errors.append(error)

    writers = [threading.Thread(target=change, args=(number,)) for number in range(3)]
    for writer in writers:
        writer.start()
    reader = zvcore.open(tmp_path / "m")
    while any(writer.is_alive() for writer in writers):
        try:
            mesh = reader.get(1)
            if mesh is not None:
                assert mesh.vertices.max() == pytest.approx(100, abs=1) or mesh.vertices.min() >= 49
        except (ConflictError, NotFoundError):
            pass
    assert not errors
    assert zvcore.verify(tmp_path / "m").ok
    assert sorted(path.name for path in (tmp_path / "m").iterdir()) in (
        [["info"], ["1", "1.index", "info"]] if kind == "multires" else [["info"], ["1:0", "1:0:0", "info"]]
    )


def test_legacy_meshes_are_updated_with_what_they_are_written_of(tmp_path: Path) -> None:
    precomputed.write_meshes(tmp_path / "m", {1: (PLACES, FACES)}, kind="legacy")
    meshes = zvcore.open(tmp_path / "m", "r+")
    meshes.update({2: (OTHER, FACES), 3: meshes[1]})
    assert sorted(meshes.ids().tolist()) == [1, 2, 3] and meshes[2].vertices.max() == 150
    with pytest.raises(TypeError, match="a mesh is vertices and faces"):
        meshes.update({4: OTHER})
