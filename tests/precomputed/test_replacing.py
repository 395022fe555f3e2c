"""Sets of meshes, skeletons and annotations that replace others: nothing of the old ones stays."""

from __future__ import annotations

import itertools
import json
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zvcore
from zvcore.errors import ConflictError
from zvcore.precomputed import ShardingSpec, Skeleton, write_annotations, write_meshes, write_skeletons
from zvcore.stores import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

FEW = ShardingSpec(0, "murmurhash3_x86_128", 0, 0, "gzip", "raw")
MANY = ShardingSpec(0, "murmurhash3_x86_128", 0, 6, "gzip", "raw")
VERTICES = np.array([[0, 0, 0], [9, 0, 0], [0, 9, 0], [0, 0, 9]], np.float32)
FACES = np.array([[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]], np.uint32)
BONE = Skeleton(VERTICES, np.array([[0, 1], [1, 2]], np.uint32))


def meshes(path: Any, ids: range, **options: Any) -> None:
    write_meshes(path, dict.fromkeys(ids, (VERTICES, FACES)), **options)


def skeletons(path: Any, ids: range, sharding: ShardingSpec | None, **options: Any) -> None:
    write_skeletons(path, dict.fromkeys(ids, BONE), sharding=sharding, **options)


WAYS: dict[str, Callable[..., None]] = {
    "legacy": partial(meshes, kind="legacy"),
    "meshes in files": partial(meshes, sharding=None),
    "meshes in a shard": partial(meshes, sharding=FEW),
    "meshes in shards": partial(meshes, sharding=MANY),
    "skeletons in files": partial(skeletons, sharding=None),
    "skeletons in a shard": partial(skeletons, sharding=FEW),
    "skeletons in shards": partial(skeletons, sharding=MANY),
}


@pytest.mark.parametrize(("old", "new"), list(itertools.permutations(WAYS, 2)))
def test_nothing_of_the_old_set_stays_however_the_two_are_stored(old: str, new: str) -> None:
    store, alone = MemoryStore(), MemoryStore()
    WAYS[old](store, range(3, 12))
    WAYS[new](store, range(3), overwrite=True)
    WAYS[new](alone, range(3))
    assert sorted(store.list_dir()[1]) == sorted(alone.list_dir()[1])
    assert all(store.get(name) == alone.get(name) for name in alone.list_dir()[1])


def test_what_others_keep_beside_a_set_stays_and_compressed_files_of_it_do_not(tmp_path: Path) -> None:
    WAYS["skeletons in files"](tmp_path, range(3))
    (tmp_path / "2").rename(tmp_path / "2.gz")
    (tmp_path / "0-64_0-64_0-64.spatial").write_text("of igneous")
    (tmp_path / "notes.txt").write_text("of somebody")
    WAYS["skeletons in a shard"](tmp_path, range(5), overwrite=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "0-64_0-64_0-64.spatial",
        "0.shard",
        "info",
        "notes.txt",
    ]


@pytest.mark.parametrize("sharding", [None, FEW])
def test_annotations_leave_nothing_of_those_before_them(tmp_path: Path, sharding: ShardingSpec | None) -> None:
    points = np.random.default_rng(0).random((50, 3)) * 100
    related = {"seg": [[1 + row % 3] for row in range(50)]}
    units = dict.fromkeys("xyz", (1e-09, "m"))
    other = FEW if sharding is None else None
    columns = {"point": points}
    both, alone = tmp_path / "both", tmp_path / "alone"
    write_annotations(both, "point", columns, dimensions=units, relationships=related, sharding=other, limit=5)
    write_annotations(both, "point", columns, dimensions=units, sharding=sharding, overwrite=True)
    write_annotations(alone, "point", columns, dimensions=units, sharding=sharding)
    names = [sorted(str(path.relative_to(root)) for path in root.rglob("*")) for root in (both, alone)]
    assert names[0] == names[1]


@pytest.mark.parametrize("way", [*WAYS, "annotations"])
def test_a_volume_is_not_replaced_by_what_belongs_into_a_folder_of_it(tmp_path: Path, way: str) -> None:
    volume = zvcore.create(tmp_path, format="precomputed", shape=(8, 8, 8), dtype="uint8", resolution=(8, 8, 8))
    volume[...] = 7
    before = (tmp_path / "info").read_bytes()
    with pytest.raises(ConflictError, match="something else"):
        if way == "annotations":
            units = dict.fromkeys("xyz", (1e-09, "m"))
            write_annotations(tmp_path, "point", {"point": VERTICES}, dimensions=units, overwrite=True)
        else:
            WAYS[way](tmp_path, range(3), overwrite=True)
    assert (tmp_path / "info").read_bytes() == before
    assert (volume[...] == 7).all()


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"@type": "neuroglancer_skeletons", "sharding": 5}'])
def test_a_set_whose_document_is_broken_can_be_replaced(tmp_path: Path, text: str) -> None:
    WAYS["meshes in files"](tmp_path, range(3))
    (tmp_path / "info").write_text(text)
    WAYS["skeletons in files"](tmp_path, range(3), overwrite=True)
    assert json.loads((tmp_path / "info").read_bytes())["@type"] == "neuroglancer_skeletons"
    assert len(zvcore.open(tmp_path)) == 3
