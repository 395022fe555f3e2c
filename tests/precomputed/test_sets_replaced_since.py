"""Skeletons, meshes and annotations that others have replaced or removed since they were opened."""

from __future__ import annotations

import json
import pickle
import shutil
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zvcore
from tests.settling import wait_until_settled
from zvcore.errors import ConflictError
from zvcore.precomputed import Skeleton, VertexAttribute, write_annotations, write_meshes, write_skeletons

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SHARDS = {
    "@type": "neuroglancer_uint64_sharded_v1", "preshift_bits": 0, "hash": "identity", "minishard_bits": 0,
    "shard_bits": 1, "minishard_index_encoding": "raw", "data_encoding": "raw",
}  # fmt: skip
POINTS = np.random.default_rng(1).uniform(0, 90, (6, 3)).astype("f4")
EDGES = np.stack([np.arange(5), np.arange(1, 6)], 1).astype("u4")


def skeletons(path: Path, other: bool, sharding: Any) -> None:
    """Of as many bytes, which mean something else."""
    dtype = "uint32" if other else "float32"
    one = Skeleton(POINTS, EDGES, {"x": np.full(6, 7).astype(dtype)})
    options = {} if sharding is None else {"sharding": sharding}
    write_skeletons(
        path, {1: one, 2: one}, vertex_attributes=[VertexAttribute("x", dtype, 1)], overwrite=True, **options
    )


def meshes(path: Path, other: bool, sharding: Any) -> None:
    triangle = (POINTS[:3], np.array([[0, 1, 2]], "u4"))
    bits = 10 if other else 16
    write_meshes(
        path, {1: triangle, 2: triangle}, vertex_quantization_bits=bits, sharding=sharding, overwrite=True
    )  # fmt: skip


def annotations(path: Path, other: bool, sharding: Any) -> None:
    write_annotations(
        path, "point", {"point": POINTS}, dimensions={"x": (1e-9, "m"), "y": (1e-9, "m"), "z": (1e-9, "m")},
        ids=np.arange(1, 7), properties={"p": np.full(6, 7).astype("u4" if other else "f4")},
        relationships={"r": [[5]] * 6}, sharding=sharding, overwrite=True,
    )  # fmt: skip


def of_segments(opened: Any) -> list[Callable[[], Any]]:
    return [
        lambda: opened[1], lambda: opened.get(2), lambda: opened.get_many([1, 2]), lambda: 1 in opened,
        lambda: list(opened), lambda: dict(opened.items()), lambda: opened.delete([1]), lambda: opened.update([]),
    ]  # fmt: skip


def of_meshes(opened: Any) -> list[Callable[[], Any]]:
    return [*of_segments(opened), lambda: opened.surfaces([1, 2])]


def of_annotations(opened: Any) -> list[Callable[[], Any]]:
    return [
        lambda: opened[1], lambda: opened.get_many([1, 2]), lambda: 1 in opened, opened.ids,
        lambda: opened.related("r", 5), lambda: opened.related_ids("r"), lambda: [*opened.batches()],
        lambda: opened.in_box((0, 0, 0), (100, 100, 100)),
    ]  # fmt: skip


KINDS = {
    "skeletons": (skeletons, of_segments),
    "meshes": (meshes, of_meshes),
    "annotations": (annotations, of_annotations),
}


@pytest.mark.parametrize("sent", [False, True])
@pytest.mark.parametrize("sharding", [None, SHARDS])
@pytest.mark.parametrize("change", ["replaced", "removed"])
@pytest.mark.parametrize("kind", KINDS)
def test_another_set_in_its_place(tmp_path: Path, kind: str, change: str, sharding: Any, sent: bool) -> None:
    write, calls = KINDS[kind]
    place = tmp_path / "a"
    write(place, False, sharding)
    wait_until_settled(tmp_path)
    opened = zvcore.open(place, "r" if kind == "annotations" else "r+")
    for call in calls(opened)[:3]:
        assert call() is not None
    if sent:
        opened = pickle.loads(pickle.dumps(opened))
    if change == "removed":
        shutil.rmtree(place)
    else:
        write(place, True, sharding)
    for call in calls(opened):
        with pytest.raises(ConflictError):
            call()
    if change == "replaced":
        again = zvcore.open(place)
        assert len(list(again.ids())) == (6 if kind == "annotations" else 2)


@pytest.mark.parametrize("kind", KINDS)
def test_other_members_of_the_document_are_no_change(tmp_path: Path, kind: str) -> None:
    write, calls = KINDS[kind]
    place = tmp_path / "a"
    write(place, False, SHARDS)
    opened = zvcore.open(place, "r" if kind == "annotations" else "r+")
    document = json.loads((place / "info").read_text())
    (place / "info").write_text(json.dumps({**document, "note": "seen"}))
    for call in calls(opened):
        call()


def test_far_away_it_is_looked_at_before_something_is_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zvcore.stores.LocalStore.remote", True)
    skeletons(tmp_path / "a", False, SHARDS)
    opened = zvcore.open(tmp_path / "a", "r+")
    skeletons(tmp_path / "a", True, SHARDS)
    with pytest.raises(ConflictError, match="something else has taken the place"):
        opened.update({1: Skeleton(POINTS, EDGES, {"x": np.zeros(6, "f4")})})
    # What is not found is a reason to look, now and then.
    opened._objects.standing._looked = -1e9
    with pytest.raises(ConflictError):
        opened.get_many([77])
