"""What CloudVolume has compressed in buckets under plain names, with `Content-Encoding: gzip`."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zvcore
from zvcore import codecs, precomputed
from zvcore.errors import CorruptDataError, UnsupportedError
from zvcore.stores import MemoryStore, open_store
from zvcore.stores.base import UnlistedError
from zvcore.stores.late_writes import settle

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

SHAPE = (70, 45, 33)


class Unlisted(MemoryStore):
    """Objects as web servers have them."""

    def list(self, prefix: str = "") -> Iterator[str]:
        raise UnlistedError("no lists", key=prefix)

    def list_dir(self, prefix: str = "") -> Any:
        raise UnlistedError("no lists", key=prefix)


def values_of(dtype: str) -> np.ndarray[Any, Any]:
    return np.random.default_rng(1).integers(0, 200, SHAPE).astype(dtype)


def in_bucket(
    folder: Path, kind: type[MemoryStore] = MemoryStore, *, plain: tuple[str, ...] = (), packer: str = "gzip"
) -> MemoryStore:
    """All files of a folder but documents packed, under their own names; those in `plain` as they are."""
    settle()
    store = kind()
    source = open_store(folder)
    for name in source.list():
        data = bytes(source.get(name) or b"")
        as_it_is = name.rpartition("/")[2] in ("info", *plain)
        store.put(name, data if as_it_is else bytes(codecs.get(packer).encode(data)))
    return store


@pytest.mark.parametrize("packer", ["gzip", "zstd"])
@pytest.mark.parametrize("kind", [MemoryStore, Unlisted])
@pytest.mark.parametrize(
    ("dtype", "options"),
    [
        ("uint8", {}),
        ("uint16", {}),
        ("uint64", {"encoding": "compressed_segmentation"}),
        ("uint8", {"encoding": "png"}),
    ],
)
def test_chunks_are_read(
    tmp_path: Path, kind: type[MemoryStore], packer: str, dtype: str, options: dict[str, Any]
) -> None:
    values = values_of(dtype)
    zvcore.create(
        tmp_path, format="precomputed", data=values, chunks=(32, 16, 16), codec="raw", resolution=(1, 1, 1), **options
    )
    store = in_bucket(tmp_path, kind, packer=packer)
    np.testing.assert_array_equal(zvcore.open(store)["1_1_1"][5:30, 20:30, 3:9, 0], values[5:30, 20:30, 3:9])
    array = zvcore.open(store)["1_1_1"]
    np.testing.assert_array_equal(array[..., 0], values)
    np.testing.assert_array_equal(array[40:50, 3, :, 0], values[40:50, 3])
    blocks = array.read_blocks([(0, 0, 0, 0), (2, 2, 2, 0)])
    np.testing.assert_array_equal(blocks[1][..., 0], values[64:, 32:, 32:])
    if kind is MemoryStore:
        report = zvcore.verify(store)
        assert report.ok and report.counts["files"] == 27
        assert zvcore.verify(store, fast=True).ok


class Watched(MemoryStore):
    """Keeps what is asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    def get_many(self, keys: Iterable[str]) -> Iterator[bytes | memoryview | None]:
        keys = [*keys]
        self.asked += keys
        return super().get_many(keys)

    def sizes(self, keys: Iterable[str]) -> list[int | None]:
        keys = [*keys]
        self.asked += keys
        return super().sizes(keys)


@pytest.mark.parametrize("ending", ["", ".gz", ".br"])
@pytest.mark.parametrize("gzipped", [True, False])
def test_the_first_chunk_comes_with_the_answer_to_how_chunks_are_called(
    tmp_path: Path, ending: str, gzipped: bool
) -> None:
    """In one round of requests; of buckets that are copies of folders, too."""
    values = values_of("uint16")
    values[32:64] = 0
    zvcore.create(
        tmp_path, format="precomputed", data=values, chunks=(32, 16, 16), resolution=(1, 1, 1),
        codec="gzip" if gzipped else "raw",
    )  # fmt: skip
    settle()
    compress = {"": bytes, ".gz": gzip.compress}.get(ending) or pytest.importorskip("brotli").compress
    store = Watched()
    files = open_store(tmp_path)
    for name in files.list():
        data = bytes(files.get(name) or b"")
        if name != "info":
            data = compress(gzip.decompress(data) if gzipped else data)
        store.put(name if name == "info" else name.removesuffix(".gz") + ending, data)
    array = zvcore.open(store)["1_1_1"]
    store.asked.clear()
    np.testing.assert_array_equal(array[3:9, 17:20, 18:20, 0], values[3:9, 17:20, 18:20])
    assert sorted(store.asked) == [f"1_1_1/0-32_16-32_16-32{end}" for end in ("", ".br", ".gz")]
    np.testing.assert_array_equal(array[..., 0], values)
    array = zvcore.open(store)["1_1_1"]
    assert not array[40:42, 3, 3, 0].any()
    np.testing.assert_array_equal(array[70 - 3 :, 3:4, 3:4, 0], values[70 - 3 :, 3:4, 3:4])
    np.testing.assert_array_equal(array[..., 0], values)


def test_a_first_chunk_in_an_empty_bucket() -> None:
    store = Watched()
    array = zvcore.create(store, format="precomputed", shape=SHAPE, dtype="uint16", chunks=(32, 16, 16))
    other = zvcore.open(store)[0]
    assert not other[:3, 0, 0].any() and not other[:3, 0, 0].any()
    array[:3, 0, 0] = 7
    assert (other[:3, 0, 0] == 7).all()


@pytest.mark.parametrize("kind", [MemoryStore, Unlisted])
def test_some_chunks_may_be_plain_and_others_absent(tmp_path: Path, kind: type[MemoryStore]) -> None:
    values = values_of("uint16")
    values[:32] = 0
    array = zvcore.create(
        tmp_path, format="precomputed", shape=SHAPE, dtype="uint16", chunks=(32, 16, 16), codec="raw",
        resolution=(1, 1, 1),
    )  # fmt: skip
    array[32:, ..., 0] = values[32:]
    store = in_bucket(tmp_path, kind, plain=("64-70_32-45_32-33",))
    np.testing.assert_array_equal(zvcore.open(store)["1_1_1"][..., 0], values)


def test_values_that_begin_like_gzip_are_values(tmp_path: Path) -> None:
    values = values_of("uint8")
    values[:3, 0, 0] = list(b"\x1f\x8b\x08")
    zvcore.create(
        tmp_path, format="precomputed", data=values, chunks=(32, 16, 16), codec="raw", resolution=(1, 1, 1)
    )  # fmt: skip
    settle()
    every = tuple(path.name for path in (tmp_path / "1_1_1").iterdir())
    for plain in ((), every):
        store = in_bucket(tmp_path, plain=plain)
        np.testing.assert_array_equal(zvcore.open(store)["1_1_1"][..., 0][:32], values[:32])


def test_damage_is_told_and_writing_refused(tmp_path: Path) -> None:
    values = values_of("uint8")
    zvcore.create(
        tmp_path, format="precomputed", data=values, chunks=(32, 16, 16), codec="raw", resolution=(1, 1, 1)
    )  # fmt: skip
    store = in_bucket(tmp_path)
    with pytest.raises(UnsupportedError, match="Content-Encoding"):
        zvcore.open(store, mode="r+")["1_1_1"][:32] = 5
    np.testing.assert_array_equal(zvcore.open(store)["1_1_1"][..., 0], values)
    name = "1_1_1/32-64_16-32_0-16"
    bad = bytearray(store.get(name) or b"")
    bad[len(bad) // 2] ^= 4
    store.put(name, bytes(bad))
    with pytest.raises(CorruptDataError) as caught:
        zvcore.open(store)["1_1_1"][...]
    assert caught.value.key == name
    (problem,) = zvcore.verify(store).problems
    assert name in str(problem)


def test_conversions_unpack(tmp_path: Path) -> None:
    values = values_of("uint8")
    zvcore.create(
        tmp_path / "a", format="precomputed", data=values, chunks=(32, 16, 16), codec="raw", resolution=(1, 1, 1)
    )
    store = in_bucket(tmp_path / "a")
    conversions: dict[str, dict[str, Any]] = {"b": {"format": "precomputed", "codec": "raw"}, "c": {"format": "zarr3"}}
    for name, options in conversions.items():
        assert zvcore.convert(zvcore.open(store)["1_1_1"], tmp_path / name, ome=False, **options).ok
        made = zvcore.open(tmp_path / name)
        made = made["1_1_1"] if name == "b" else made
        np.testing.assert_array_equal(np.squeeze(made[...]), values if name == "b" else values.T)
        assert zvcore.verify(tmp_path / name).ok


def test_skeletons_and_meshes_are_read(tmp_path: Path) -> None:
    skeleton = precomputed.Skeleton(
        np.arange(30, dtype="f4").reshape(10, 3), np.array([(i, i + 1) for i in range(9)], "u4")
    )
    precomputed.write_skeletons(tmp_path / "skeletons", {7: skeleton})
    store = in_bucket(tmp_path / "skeletons")
    found = zvcore.open(store)[7]
    np.testing.assert_array_equal(found.vertices, skeleton.vertices)
    assert zvcore.verify(store).ok and zvcore.verify(store, fast=True).ok
    surface = precomputed.Surface(np.eye(3, dtype="f4") * 9, np.array([[0, 1, 2]]))
    precomputed.write_meshes(tmp_path / "legacy", {7: surface}, kind="legacy")
    store = in_bucket(tmp_path / "legacy")
    np.testing.assert_array_equal(np.sort(zvcore.open(store)[7].vertices, 0), np.sort(surface.vertices, 0))
    assert zvcore.verify(store).ok and zvcore.verify(store, fast=True).ok


def in_folder(store: MemoryStore, folder: Path) -> Path:
    """What any program that copies files makes of a bucket."""
    for name in store.list():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(store.get(name) or b"")
    return folder


@pytest.mark.parametrize(
    ("dtype", "options"),
    [("uint8", {}), ("uint64", {"encoding": "compressed_segmentation"}), ("uint8", {"encoding": "png"})],
)
def test_copies_in_folders_are_read(tmp_path: Path, dtype: str, options: dict[str, Any]) -> None:
    values = values_of(dtype)
    values[:32] = 0
    array = zvcore.create(
        tmp_path / "a", format="precomputed", shape=SHAPE, dtype=dtype, chunks=(32, 16, 16), codec="raw",
        resolution=(1, 1, 1), **options,
    )  # fmt: skip
    array[32:, ..., 0] = values[32:]
    copy = in_folder(in_bucket(tmp_path / "a"), tmp_path / "copy")
    array = zvcore.open(copy)["1_1_1"]
    np.testing.assert_array_equal(array[..., 0], values)
    np.testing.assert_array_equal(array.read_blocks([(2, 2, 2, 0)])[0][..., 0], values[64:, 32:, 32:])
    report = zvcore.verify(copy)
    assert report.ok and report.counts["files"] == 18
    assert zvcore.verify(copy, fast=True).ok
    before = {path: path.read_bytes() for path in copy.rglob("*-*")}
    with pytest.raises(UnsupportedError, match="Content-Encoding"):
        zvcore.open(copy, mode="r+")["1_1_1"][32:64] = 5
    assert {path: path.read_bytes() for path in copy.rglob("*-*")} == before
    assert zvcore.convert(array, tmp_path / "b", format="zarr3", ome=False).ok
    np.testing.assert_array_equal(np.squeeze(zvcore.open(tmp_path / "b")[...]), values.T)


def test_damage_in_such_copies_is_told(tmp_path: Path) -> None:
    zvcore.create(
        tmp_path / "a", format="precomputed", data=values_of("uint8"), chunks=(32, 16, 16), codec="raw",
        resolution=(1, 1, 1),
    )  # fmt: skip
    copy = in_folder(in_bucket(tmp_path / "a"), tmp_path / "copy")
    bad = copy / "1_1_1" / "32-64_16-32_0-16"
    bad.write_bytes(bad.read_bytes()[:-9])
    with pytest.raises(CorruptDataError) as caught:
        zvcore.open(copy)["1_1_1"][...]
    assert caught.value.key == "1_1_1/32-64_16-32_0-16"
    (problem,) = zvcore.verify(copy).problems
    assert "32-64_16-32_0-16" in str(problem)


def test_new_chunks_beside_plain_ones_stay_plain(tmp_path: Path) -> None:
    values = values_of("uint8")
    values[:3, 0, 0] = list(b"\x1f\x8b\x08")
    array = zvcore.create(
        tmp_path, format="precomputed", shape=SHAPE, dtype="uint8", chunks=(32, 16, 16), codec="raw",
        resolution=(1, 1, 1),
    )  # fmt: skip
    array[:32, ..., 0] = values[:32]
    again = zvcore.open(tmp_path, mode="r+")["1_1_1"]
    again[16:, ..., 0] = values[16:]
    np.testing.assert_array_equal(zvcore.open(tmp_path)["1_1_1"][..., 0], values)
    settle()
    assert zvcore.verify(tmp_path).ok
    assert (tmp_path / "1_1_1" / "0-32_0-16_0-16").stat().st_size == 32 * 16 * 16


def test_skeletons_and_meshes_in_such_copies_are_read(tmp_path: Path) -> None:
    edges = np.array([(i, i + 1) for i in range(9)], "u4")
    skeleton = precomputed.Skeleton(np.arange(30, dtype="f4").reshape(10, 3), edges)
    precomputed.write_skeletons(tmp_path / "skeletons", {7: skeleton})
    copy = in_folder(in_bucket(tmp_path / "skeletons"), tmp_path / "copy")
    np.testing.assert_array_equal(zvcore.open(copy)[7].vertices, skeleton.vertices)
    assert zvcore.verify(copy).ok and zvcore.verify(copy, fast=True).ok
    surface = precomputed.Surface(np.eye(3, dtype="f4") * 9, np.array([[0, 1, 2]]))
    precomputed.write_meshes(tmp_path / "legacy", {7: surface}, kind="legacy")
    copy = in_folder(in_bucket(tmp_path / "legacy"), tmp_path / "meshes")
    np.testing.assert_array_equal(np.sort(zvcore.open(copy)[7].vertices, 0), np.sort(surface.vertices, 0))
    assert zvcore.verify(copy).ok and zvcore.verify(copy, fast=True).ok
