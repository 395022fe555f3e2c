"""Two who write a set into one place at once, where there are no locks, as in object stores: one of them is told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zvcore
from zvcore import precomputed
from zvcore.errors import ConflictError
from zvcore.precomputed import ShardedStore, ShardingSpec, Skeleton
from zvcore.stores import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SPEC = ShardingSpec(0, "identity", 0, 1, "raw", "raw")
PLACES = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]], "f4")
FACES = np.array([[0, 1, 2], [0, 1, 3], [0, 2, 3], [1, 2, 3]], "u4")
DIMENSIONS = {"x": (1e-9, "m"), "y": (1e-9, "m"), "z": (1e-9, "m")}


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> MemoryStore:
    monkeypatch.setattr(MemoryStore, "can_lock", False)
    return MemoryStore()


def skeleton(number: int) -> Skeleton:
    return Skeleton(PLACES * number, np.array([[0, 1]], "u4"))


def annotations(store: Any, ids: list[int], **options: Any) -> None:
    precomputed.write_annotations(
        store, "point", {"point": PLACES[: len(ids)]}, ids=ids, dimensions=DIMENSIONS, **options
    )


WRITERS: dict[str, Callable[..., Any]] = {
    "sharded": lambda store, values, **options: precomputed.write_sharded(store, SPEC, values, **options),
    "skeletons": lambda store, values, **options: precomputed.write_skeletons(store, values, sharding=None, **options),
    "skeletons in shards": lambda store, values, **options: precomputed.write_skeletons(
        store, values, sharding=SPEC, **options
    ),
    "meshes": lambda store, values, **options: precomputed.write_meshes(store, values, sharding=None, **options),
    "meshes in shards": lambda store, values, **options: precomputed.write_meshes(
        store, values, sharding=SPEC, **options
    ),
    "legacy": lambda store, values, **options: precomputed.write_meshes(store, values, kind="legacy", **options),
}


def value(kind: str, number: int) -> Any:
    if kind == "sharded":
        return str(number).encode()
    return skeleton(number) if kind.startswith("skel") else (PLACES * number, FACES)


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("kind", WRITERS)
def test_the_second_is_told(store: MemoryStore, kind: str, overwrite: bool) -> None:
    write = WRITERS[kind]
    if overwrite and kind != "sharded":
        write(store, {9: value(kind, 9)})

    def values() -> Iterator[tuple[int, Any]]:
        yield 1, value(kind, 1)
        yield 2, value(kind, 1)
        # While these come, another writes all of its own.
        write(store, {2: value(kind, 2), 3: value(kind, 2)}, overwrite=overwrite)

    with pytest.raises(ConflictError, match=r"somebody else|exists already|and no info"):
        write(store, values(), overwrite=overwrite)
    # What the other has written is as it wrote it, or can be written again.
    write(store, {2: value(kind, 2), 3: value(kind, 2)}, overwrite=True)
    found = ShardedStore(store, SPEC) if kind == "sharded" else zvcore.open(store)
    assert {2, 3} <= set(found.ids().tolist())
    if kind != "sharded":
        assert zvcore.verify(store).ok


@pytest.mark.parametrize("overwrite", [False, True])
def test_the_second_writer_of_annotations_is_told(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch, overwrite: bool
) -> None:
    from zvcore.precomputed import annotation_writing

    if overwrite:
        annotations(store, [9])
    write = annotation_writing._write_indexes

    def slowly(*args: Any) -> None:
        write(*args)
        monkeypatch.setattr(annotation_writing, "_write_indexes", write)
        annotations(store, [5, 6], overwrite=True)

    monkeypatch.setattr(annotation_writing, "_write_indexes", slowly)
    with pytest.raises(ConflictError, match="somebody else has written a set here at the same time"):
        annotations(store, [1, 2], overwrite=overwrite)
    annotations(store, [5, 6], overwrite=True)
    assert zvcore.open(store).ids().tolist() == [5, 6] and zvcore.verify(store).ok
