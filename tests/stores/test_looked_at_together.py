"""Objects that lie far away are looked at, read, written and removed several at once."""

from __future__ import annotations

import re
import threading
import time
import uuid
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zvcore
from zvcore import precomputed, zvf
from zvcore.errors import NotFoundError
from zvcore.stores import open_store

if TYPE_CHECKING:
    from pathlib import Path

    from tests.stores.servers import S3, Proxy, Request, Together

SHARDS = {
    "@type": "neuroglancer_uint64_sharded_v1", "preshift_bits": 0, "hash": "identity", "minishard_bits": 1,
    "shard_bits": 3, "minishard_index_encoding": "gzip", "data_encoding": "gzip",
}  # fmt: skip
POINTS = 40


@pytest.fixture
def url(s3: S3) -> str:
    return s3.url(f"together-{uuid.uuid4()}")


def skeletons(count: int = 24) -> dict[int, precomputed.Skeleton]:
    rng = np.random.default_rng(3)
    edges = np.stack([np.arange(POINTS - 1), np.arange(1, POINTS)], 1).astype(np.uint32)
    return {id: precomputed.Skeleton(rng.uniform(0, 99, (POINTS, 3)).astype("f4"), edges) for id in range(1, count)}


def same(found: Any, wanted: Any) -> bool:
    return found.keys() == wanted.keys() and all(
        np.array_equal(found[id].vertices, wanted[id].vertices) for id in wanted
    )


def damage(store: zvcore.stores.Store, key: str, at: int) -> None:
    data = bytearray(store.get(key) or b"")
    data[at] ^= 0xFF
    store.put(key, bytes(data))


def whole(tmp_path: Path, kind: str) -> Path:
    """A volume of 64 shards, or of as many values in eight."""
    path = tmp_path / "here"
    options: dict[str, Any] = {"shape": (16, 16, 16), "dtype": "u2", "chunks": (2, 2, 2), "shards": (4, 4, 4)}
    if kind == "precomputed":
        options = {"shape": (16, 16, 16, 1), "dtype": "u2", "chunks": (4, 4, 4), "sharding": SHARDS}
    array = zvcore.create(path, format=kind, **options)
    array[...] = np.random.default_rng(1).integers(1, 999, array.shape).astype("u2")
    return path


@pytest.mark.parametrize(("kind", "at"), [("zarr3", 5), ("zarr3", -3), ("precomputed", 300)])
def test_shards_are_verified_together_and_told_of_in_order(
    s3: S3, url: str, together: type[Together], tmp_path: Path, kind: str, at: int
) -> None:
    path = whole(tmp_path, kind)
    here = open_store(path, "r+")
    shards = [key for key in sorted(here.list()) if key.startswith("c/") or key.endswith(".shard")]
    for key in shards[::3]:
        damage(here, key, at)
    zvcore.copy(path, url, storage_options=s3.options)
    wanted = zvcore.verify(path)
    assert len(wanted.problems) >= len(shards) // 3
    counting = together()
    found = zvcore.verify(url, storage_options=s3.options)
    assert counting.enough
    assert found.problems == wanted.problems and found.counts == wanted.counts


KINDS: dict[str, dict[str, Any]] = {
    "shards": {"format": "zarr3", "chunks": (2, 2, 2), "shards": (4, 4, 4)},
    "chunks": {"format": "zarr3", "chunks": (4, 4, 4)},
    "zarr2": {"format": "zarr2", "chunks": (4, 4, 4)},
    "n5": {"format": "n5", "chunks": (4, 4, 4)},
}


def of_kind(path: Path, kind: str) -> list[str]:
    """An array of 64 objects, and their keys."""
    array = zvcore.create(path, shape=(16, 16, 16), dtype="u2", **KINDS[kind])
    array[...] = np.random.default_rng(1).integers(1, 999, array.shape).astype("u2")
    documents = ("zarr.json", ".zarray", ".zattrs", "attributes.json")
    return [key for key in sorted(open_store(path).list()) if key not in documents]


@pytest.mark.parametrize("kind", KINDS)
def test_repairs_are_made_together_and_told_of_in_order(
    s3: S3, url: str, together: type[Together], tmp_path: Path, kind: str
) -> None:
    path = tmp_path / "here"
    objects = of_kind(path, kind)
    here = open_store(path, "r+")
    for number, key in enumerate(objects[::3]):
        damage(here, key, -3 if number % 2 else 20)
    zvcore.copy(path, url, storage_options=s3.options)
    wanted = zvcore.repair(path)
    assert len(wanted.losses) >= 8
    counting = together()
    found = zvcore.repair(url, storage_options=s3.options)
    assert counting.enough
    assert found.losses == wanted.losses and found.problems == wanted.problems and found.counts == wanted.counts
    assert np.array_equal(zvcore.open(url, storage_options=s3.options)[...], zvcore.open(path)[...])
    assert zvcore.verify(url, storage_options=s3.options).ok


def test_dead_bytes_are_removed_together(s3: S3, url: str, together: type[Together], tmp_path: Path) -> None:
    path = tmp_path / "here"
    of_kind(path, "shards")
    array = zvcore.open(path, mode="r+", write_mode="append")
    array[::4] = 7
    zvcore.copy(path, url, storage_options=s3.options)
    counting = together()
    found = zvcore.compact(url, storage_options=s3.options)
    assert counting.enough and found.counts["bytes saved"] > 0
    assert found.counts == zvcore.compact(path).counts
    assert np.array_equal(zvcore.open(url, storage_options=s3.options)[...], array[...])


@pytest.mark.parametrize("kind", ["shards", "n5"])
def test_references_to_chunks_are_made_together(
    s3: S3, url: str, together: type[Together], tmp_path: Path, kind: str
) -> None:
    path = tmp_path / "here"
    of_kind(path, kind)
    zvcore.copy(path, url, storage_options=s3.options)
    counting = together()
    counting.only = r"\d$"  # opening asks for several documents at once
    found = zvcore.references(url, storage_options=s3.options)["refs"]
    assert counting.enough
    wanted = zvcore.references(path)["refs"]
    assert [*found] == [*wanted]
    assert [value[1:] for value in found.values()] == [value[1:] for value in wanted.values()]


@pytest.mark.parametrize("kind", ["shards", "precomputed"])
def test_shards_that_were_gathered_are_written_together(s3: S3, url: str, together: type[Together], kind: str) -> None:
    shape: tuple[int, ...] = (16, 16, 16)
    options: dict[str, Any] = {**KINDS["shards"]}
    if kind == "precomputed":
        shape, options = (16, 16, 16, 1), {"format": "precomputed", "chunks": (4, 4, 4), "sharding": SHARDS}
    array = zvcore.create(url, shape=shape, dtype="u2", storage_options=s3.options, **options)
    values = np.random.default_rng(1).integers(1, 999, shape).astype("u2")
    with array.shard_writer() as writer:
        for first in range(0, 8, 2):
            counting = together()
            writer[first : first + 2] = values[first : first + 2]
        assert kind != "shards" or (counting.enough and writer.flushed == 32)  # of two layers, all at once
        writer[8:, 1:] = values[8:, 1:]
        counting = together()
    assert counting.enough
    values[8:, :1] = 0
    assert np.array_equal(array[...], values)


def test_progress_is_told_by_one_thread(s3: S3, url: str, tmp_path: Path) -> None:
    zvcore.copy(whole(tmp_path, "zarr3"), url, storage_options=s3.options)
    told: list[tuple[int, int]] = []

    def tell(done: int, total: int) -> None:
        told.append((done, threading.get_ident()))

    zvcore.verify(url, progress=tell, storage_options=s3.options)
    assert [done for done, _ in told] == sorted(done for done, _ in told) and told[-1][0] >= 64
    assert len({thread for _, thread in told}) == 1


def test_skeletons_in_files(s3: S3, url: str, proxy: Proxy, together: type[Together]) -> None:
    store, wanted = open_store(url, "w", s3.options), skeletons()
    counting = together()
    precomputed.write_skeletons(store, wanted)
    assert counting.enough
    found = precomputed.Skeletons(store, "r+")
    counting = together()
    assert same(found.get_many(wanted), wanted)
    assert counting.enough
    counting = together()
    assert same(dict(found.items()), wanted)
    assert counting.enough
    assert [len(one.vertices) for one in found.values()] == [POINTS] * len(wanted)
    counting = together()
    assert zvcore.verify(store).ok
    assert counting.enough
    # Of two of one id, the later one stays, as it does where one follows the other.
    counting = together()
    found.update([*wanted.items(), (7, wanted[8])])
    assert counting.enough and np.array_equal(found[7].vertices, wanted[8].vertices)
    proxy.forget()
    found.delete(range(1, 20))
    assert len(proxy.seen()) < 5
    assert found.ids().tolist() == [20, 21, 22, 23]


def test_a_skeleton_that_cannot_be_written_leaves_none(s3: S3, url: str, proxy: Proxy) -> None:
    store = open_store(url, "w", s3.options)

    def fail(request: Request) -> int | None:
        return 403 if request.method == "PUT" and request.path.partition("?")[0].endswith("/7") else None

    proxy.spoil = fail
    with pytest.raises(zvcore.errors.ZvcoreError, match="7"):
        precomputed.write_skeletons(store, skeletons())
    proxy.spoil = None
    assert [*store.list()] == []


def test_meshes_in_shards(s3: S3, url: str, proxy: Proxy, tmp_path: Path) -> None:
    """Their fragments lie one behind the other, between the manifests."""
    pytest.importorskip("DracoPy")
    rng = np.random.default_rng(2)
    faces = np.array([[0, 1, 2], [0, 2, 3]], np.uint32)
    meshes = {id: (rng.uniform(0, 999, (4, 3)).astype("f4"), faces) for id in range(1, 200)}
    precomputed.write_meshes(tmp_path / "here", meshes, sharding={**SHARDS, "shard_bits": 0, "data_encoding": "raw"})
    zvcore.copy(tmp_path / "here", url, storage_options=s3.options)
    there = open_store(url, "r+", s3.options)
    proxy.forget()
    assert zvcore.verify(there).ok
    assert len(proxy.seen()) < 30
    here = open_store(tmp_path / "here", "r+")
    for at in (9_000, 10_000, 15_000):
        damage(here, "0.shard", at)
        damage(there, "0.shard", at)
    wanted, found = zvcore.verify(here), zvcore.verify(there)
    assert wanted.problems and found.problems == wanted.problems and found.counts == wanted.counts


def test_legacy_meshes(s3: S3, url: str, together: type[Together]) -> None:
    store = open_store(url, "w", s3.options)
    faces = np.array([[0, 1, 2]], np.uint32)
    meshes = {id: (np.full((3, 3), id, "f4"), faces) for id in range(1, 24)}
    counting = together()
    assert precomputed.write_meshes(store, meshes, kind="legacy") == 23
    assert counting.enough
    found = precomputed.LegacyMeshes(store, "r+")
    counting = together()
    surfaces = found.get_many([*meshes, 99])
    assert counting.enough
    assert surfaces.keys() == meshes.keys() and all((surfaces[id].vertices == id).all() for id in meshes)
    counting = together()
    report = zvcore.verify(store)
    assert counting.enough and report.ok and report.counts["fragments"] == report.counts["meshes"] == 23
    store.delete("5:0:0")
    damage(store, "9:0", 0)
    assert sorted(problem.where for problem in zvcore.verify(store).problems) == ["5:0", "9:0"]


def test_annotations_in_files(s3: S3, url: str, together: type[Together]) -> None:
    store = open_store(url, "w", s3.options)
    points = np.random.default_rng(1).uniform(0, 100, (30, 3)).astype("f4")
    counting = together()
    precomputed.write_annotations(
        store, "point", {"point": points}, dimensions=dict.fromkeys("xyz", (1e-09, "m")), sharding=None
    )
    assert counting.enough
    assert np.array_equal(precomputed.Annotations(store).get_many(range(30))["point"], points)
    assert zvcore.verify(store).ok


def test_the_parts_of_an_object_of_zarr_vectors_come_together(s3: S3, url: str, proxy: Proxy) -> None:
    store = open_store(url, "w", s3.options)
    lines = [np.linspace(start, start + 30, 20)[:, None].repeat(3, 1).astype("f4") for start in range(8)]
    zvf.write_polylines(store, lines, chunk_shape=(50, 50, 50))
    level = zvf.open(store).level(0)
    assert np.array_equal(level.read_object(3), lines[3])
    proxy.forget()
    assert np.array_equal(level.read_object(4), lines[4])
    assert len(proxy.seen()) <= 6


def test_what_tells_the_format_is_asked_for_together(
    s3: S3, url: str, together: type[Together], tmp_path: Path
) -> None:
    of_kind(tmp_path / "here", "n5")
    zvcore.copy(tmp_path / "here", url, storage_options=s3.options)
    counting = together()
    counting.WANTED = 5
    assert zvcore.inspect(url, storage_options=s3.options)["format"] == "n5"
    assert counting.enough


def test_the_first_member_of_a_group_is_asked_for_together_with_the_copies(
    s3: S3, url: str, together: type[Together], tmp_path: Path
) -> None:
    group = zvcore.open(tmp_path / "here", "w", format="zarr2")
    group.create_array("a", shape=(4,), dtype="u1", chunks=(2,))[...] = 7
    zvcore.copy(tmp_path / "here", url, storage_options=s3.options)
    found = zvcore.open(url, storage_options=s3.options)
    counting = together()
    counting.WANTED = 2
    assert found["a"].shape == (4,)
    assert counting.enough
    counting = together()
    counting.WANTED = 2
    with pytest.raises(NotFoundError):
        found["b"]
    assert not counting.enough  # whether there are copies is known


@pytest.mark.parametrize("format", ["zarr3", "zarr2"])
def test_what_an_image_names_is_asked_for_together(s3: S3, url: str, proxy: Proxy, tmp_path: Path, format: str) -> None:
    zvcore.create(tmp_path / "one", format="zarr3", data=np.ones((16, 16, 16), "u1"), chunks=(4, 4, 4))
    zvcore.convert(tmp_path / "one", url, format=format, levels=3, storage_options=s3.options)
    under_way: list[int] = []
    now: set[str] = set()
    mark = {"zarr3": "zarr.json", "zarr2": ".zarray"}[format]

    def spoil(request: Request) -> None:
        # The first three that come are those that the image names: each waits a little for the others.
        if request.method == "GET" and re.search(rf"/[0-9]/{re.escape(mark)}$", request.key) and len(under_way) < 3:
            now.add(request.key)
            time.sleep(0.2)
            under_way.append(len(now))

    proxy.spoil = spoil
    assert zvcore.verify(url, storage_options=s3.options, threads=1).ok
    proxy.spoil = None
    assert under_way[0] >= 3
