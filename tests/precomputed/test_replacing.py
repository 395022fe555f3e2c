"""Sets of meshes, skeletons and annotations that replace others: nothing of the old ones stays."""

from __future__ import annotations

import itertools
import json
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zvcore
from zvcore.errors import ConflictError, MetadataError
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


class Killed(BaseException):
    """What ends a process at once."""


class Dying(MemoryStore):
    """Of which only so many writes come."""

    left = 1 << 30

    def put(self, key: str, data: Any) -> None:
        self.count()
        super().put(key, data)

    def delete(self, key: str) -> bool:
        self.count()
        return super().delete(key)

    def count(self) -> None:
        if not self.left:
            raise Killed
        self.left -= 1


MOVED = (1, 0, 0, 5000, 0, 1, 0, 0, 0, 0, 1, 0)
# The objects of one of these, read as the document of the other says, are somewhere else, or nowhere.
UNLIKE: dict[str, tuple[Callable[..., None], Callable[..., None]]] = {
    "bits": (partial(meshes, vertex_quantization_bits=16), partial(meshes, vertex_quantization_bits=10)),
    "bits in files": (
        partial(meshes, vertex_quantization_bits=16, sharding=None),
        partial(meshes, vertex_quantization_bits=10, sharding=None),
    ),
    "moved meshes": (meshes, partial(meshes, transform=MOVED)),
    "moved skeletons": (partial(skeletons, sharding=FEW), partial(skeletons, sharding=FEW, transform=MOVED)),
    "moved skeletons in files": (partial(skeletons, sharding=None), partial(skeletons, sharding=None, transform=MOVED)),
    "other shards": (WAYS["meshes in a shard"], WAYS["meshes in shards"]),
    "kind": (WAYS["skeletons in files"], WAYS["legacy"]),
}


def places(store: MemoryStore) -> dict[int, Any]:
    """Where the vertices of each object are."""
    opened = zvcore.open(store)
    placed = getattr(opened, "placed", opened.get)
    return {id: np.round(placed(id).vertices).tolist() for id in (int(one) for one in opened.ids())}


@pytest.mark.parametrize(("old", "new"), UNLIKE.values(), ids=UNLIKE)
def test_a_set_that_was_killed_while_it_was_replaced_is_read_as_one_of_the_two_or_told(old: Any, new: Any) -> None:
    """Objects of the new set are not read by the document of the old one."""
    alone, wanted = MemoryStore(), MemoryStore()
    old(alone, range(9))
    new(wanted, range(5))
    before, after = places(alone), places(wanted)
    told = 0
    for writes in itertools.count():
        store = Dying()
        old(store, range(9))
        store.left = writes
        try:
            new(store, range(5), overwrite=True)
        except Killed:
            store.left = 1 << 30
        else:
            break
        report = zvcore.verify(store)
        if report.ok:
            assert places(store) in (before, after)
        else:
            told += 1
            assert "overwrite=True" in str(report)
            with pytest.raises(MetadataError, match="is being replaced here"):
                zvcore.open(store)
            with pytest.raises(ConflictError, match="already"):
                new(store, range(5))
            # A third set may take the place, too, of which other files may have come meanwhile.
            third, of_third = MemoryStore(), {key: store.get(key) for key in store.list()}
            for key, data in of_third.items():
                third.put(key, data)
            WAYS["meshes in shards"](third, range(2), overwrite=True)
            assert places(third).keys() == {0, 1}
            assert sorted(third.list_dir()[1]) == sorted(_listed(WAYS["meshes in shards"], range(2)))
        new(store, range(5), overwrite=True)
        assert {key: store.get(key) for key in store.list()} == {key: wanted.get(key) for key in wanted.list()}
    assert told > 1


def _listed(way: Callable[..., None], ids: range) -> list[str]:
    store = MemoryStore()
    way(store, ids)
    return store.list_dir()[1]


def test_a_set_of_the_same_document_is_read_all_the_while() -> None:
    store = Dying()
    WAYS["skeletons in files"](store, range(9))
    store.left = 3
    with pytest.raises(Killed):
        WAYS["skeletons in files"](store, range(5), overwrite=True)
    assert zvcore.verify(store).ok and len(places(store)) == 9
