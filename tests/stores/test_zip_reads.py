"""Chunks of an archive on this machine, which threads read from its file."""

from __future__ import annotations

import os
import zipfile
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import zarr
import zarr.storage

import zvcore
from zvcore.errors import ConflictError, CorruptDataError, NotFoundError
from zvcore.stores.zip_store import ZipStore

if TYPE_CHECKING:
    from pathlib import Path

VALUES = np.random.default_rng(1).integers(0, 60000, (40, 40, 40), "u2")


def made(path: Path, **options: Any) -> Path:
    store = zarr.storage.ZipStore(path, mode="w")
    zarr.create_array(store=store, shape=VALUES.shape, dtype="u2", chunks=(8, 8, 8), **options)[...] = VALUES
    store.close()
    return path


def begin_of(path: Path, name: str) -> int:
    with zipfile.ZipFile(path) as archive:
        entry = archive.getinfo(name)
        raw = path.read_bytes()[entry.header_offset : entry.header_offset + 30]
    return entry.header_offset + 30 + int.from_bytes(raw[26:28], "little") + int.from_bytes(raw[28:30], "little")


def overwritten(path: Path, at: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(data)


@pytest.mark.parametrize("shards", [None, (16, 16, 16)])
@pytest.mark.parametrize("compressors", [None, "auto"])
def test_all_and_parts(tmp_path: Path, shards: Any, compressors: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    path = made(tmp_path / "a.zip", shards=shards, compressors=compressors)
    array = zvcore.open(path)
    asked = []
    in_file = ZipStore.in_file

    def noting(self: ZipStore, keys: Any, stamps: Any) -> Any:
        found = in_file(self, keys, stamps)
        asked.append(found is not None)
        return found

    monkeypatch.setattr(ZipStore, "in_file", noting)
    for key in (np.s_[...], np.s_[5], np.s_[:, :, 3], np.s_[3:37, 9:10, 20:39], np.s_[4:6, 4:6, 4:6], np.s_[::3]):
        np.testing.assert_array_equal(array[key], VALUES[key])
    assert asked
    assert all(asked)
    np.testing.assert_array_equal(array.vindex[[1, 39], [2, 30], [3, 20]], VALUES[[1, 39], [2, 30], [3, 20]])


def test_what_is_packed_or_not_there_is_asked_for(tmp_path: Path) -> None:
    plain = made(tmp_path / "a.zip")
    with zipfile.ZipFile(plain) as old, zipfile.ZipFile(tmp_path / "b.zip", "w") as new:
        for number, name in enumerate(old.namelist()):
            if name == "c/2/2/2":
                continue
            new.writestr(name, old.read(name), zipfile.ZIP_DEFLATED if number % 3 else zipfile.ZIP_STORED)
    wanted = VALUES.copy()
    wanted[16:24, 16:24, 16:24] = 0
    np.testing.assert_array_equal(zvcore.open(tmp_path / "b.zip")[...], wanted)
    with zipfile.ZipFile(plain) as old, zipfile.ZipFile(tmp_path / "c.zip", "w") as new:
        for name in old.namelist():
            if name != "c/2/2/2":
                new.writestr(name, old.read(name))
    np.testing.assert_array_equal(zvcore.open(tmp_path / "c.zip")[...], wanted)


@pytest.mark.parametrize("compressors", [None, "auto"])
def test_a_damaged_chunk_is_named(tmp_path: Path, compressors: Any) -> None:
    path = made(tmp_path / "a.zip", compressors=compressors)
    at = begin_of(path, "c/1/2/3")
    overwritten(path, at + 30, bytes([path.read_bytes()[at + 30] ^ 1]))
    array = zvcore.open(path)
    # Also where another part of the chunk is wanted.
    for key in (np.s_[...], np.s_[8:16, 16:24], np.s_[15, 23, 24:32], np.s_[15]):
        with pytest.raises(CorruptDataError, match="checksum") as caught:
            array[key]
        assert "c/1/2/3" in str(caught.value)
        assert caught.value.codec == "crc32"
    np.testing.assert_array_equal(array[16:], VALUES[16:])
    assert not zvcore.verify(path).ok


def test_an_index_that_reaches_out_of_its_entry_is_not_followed(tmp_path: Path) -> None:
    """What lies behind it is another shard."""
    path = tmp_path / "a.zip"
    store = zarr.storage.ZipStore(path, mode="w")
    sharding = zarr.codecs.ShardingCodec(chunk_shape=(8, 8, 8), index_codecs=[zarr.codecs.BytesCodec()])
    zarr.create(store=store, shape=VALUES.shape, dtype="u2", chunks=(16, 16, 16), codecs=[sharding])[...] = VALUES
    store.close()
    with zipfile.ZipFile(path) as archive:
        size = archive.getinfo("c/0/0/0").file_size
    index = begin_of(path, "c/0/0/0") + size - 8 * 16
    array = zvcore.open(path)
    np.testing.assert_array_equal(array[:16, :16, :16], VALUES[:16, :16, :16])
    for offset in (size - 512, size, size + 1, 1 << 40, (1 << 64) - 512):
        overwritten(path, index, offset.to_bytes(8, "little"))
        os.utime(path, ns=(0, offset % 10**9 + 1))
        with pytest.raises(CorruptDataError):
            zvcore.open(path)[:16, :16, :16]


def test_an_archive_that_is_replaced_or_removed(tmp_path: Path) -> None:
    path = made(tmp_path / "a.zip")
    array = zvcore.open(path)
    np.testing.assert_array_equal(array[...], VALUES)
    store = zarr.storage.ZipStore(tmp_path / "b.zip", mode="w")
    zarr.create_array(store=store, shape=VALUES.shape, dtype="u2", chunks=(8, 8, 8))[...] = VALUES + np.uint16(1)
    store.close()
    os.replace(tmp_path / "b.zip", path)
    np.testing.assert_array_equal(array[...], VALUES + np.uint16(1))
    path.unlink()
    with pytest.raises(NotFoundError):
        zvcore.open(path)


SHARDS = (16, 16, 16)
KINDS = [{"compressors": None}, {"compressors": "auto"}, {"shards": SHARDS, "compressors": None}, {"shards": SHARDS}]
PARTS = (np.s_[...], np.s_[5], np.s_[:, :, 3], np.s_[4:12, 4:12, 4:12], np.s_[3, 4, 5], np.s_[::3])


def known(array: Any, values: Any) -> None:
    """All that reads leave behind for the next ones is there."""
    for _ in range(3):
        for key in PARTS:
            np.testing.assert_array_equal(array[key], values[key])


@pytest.mark.parametrize("options", KINDS, ids=str)
def test_what_was_read_is_not_asked_for_again(
    tmp_path: Path, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    array = zvcore.open(made(tmp_path / "a.zip", **options))
    known(array, VALUES)

    def refused(*given: Any) -> Any:
        raise AssertionError(given)

    for name in ("in_file", "get", "get_many", "get_ranges", "get_ranges_many"):
        monkeypatch.setattr(ZipStore, name, refused)
    known(array, VALUES)
    np.testing.assert_array_equal(array.vindex[[1, 39], [2, 30], [3, 20]], VALUES[[1, 39], [2, 30], [3, 20]])


@pytest.mark.parametrize("options", KINDS, ids=str)
@pytest.mark.parametrize("in_place", [False, True])
def test_another_version_of_what_was_read(tmp_path: Path, options: dict[str, Any], in_place: bool) -> None:
    path = made(tmp_path / "a.zip", **options)
    array = zvcore.open(path)
    known(array, VALUES)
    # Written from behind, and without one of the objects: each lies elsewhere by now.
    other = VALUES + np.uint16(1)
    store = zarr.storage.ZipStore(tmp_path / "b.zip", mode="w")
    made_anew = zarr.create_array(store=store, shape=VALUES.shape, dtype="u2", chunks=(8, 8, 8), **options)
    for first in range(32, -1, -16):
        made_anew[first : first + 16] = other[first : first + 16] if first != 16 else 0
    store.close()
    other[16:32] = 0
    if in_place:
        path.write_bytes((tmp_path / "b.zip").read_bytes())
    else:
        os.replace(tmp_path / "b.zip", path)
    known(array, other)


@pytest.mark.parametrize("options", KINDS, ids=str)
def test_what_was_read_and_is_written_by_this_process(tmp_path: Path, options: dict[str, Any]) -> None:
    path = made(tmp_path / "a.zip", **options)
    array, writer = zvcore.open(path), zvcore.open(path, "r+")
    known(array, VALUES)
    expected = VALUES.copy()
    for step in (slice(0, 8), slice(8, 16)):
        writer[step] = 7
        expected[step] = 7
        # Before others see it, and after.
        known(array, expected)
        writer.store.finish()
        known(array, expected)
    np.testing.assert_array_equal(zarr.open_array(zarr.storage.ZipStore(path, mode="r"))[...], expected)


@pytest.mark.parametrize("options", KINDS[:2], ids=str)
def test_damage_of_what_was_read_is_named(tmp_path: Path, options: dict[str, Any]) -> None:
    path = made(tmp_path / "a.zip", **options)
    array = zvcore.open(path)
    known(array, VALUES)
    at = begin_of(path, "c/1/2/3")
    overwritten(path, at + 30, bytes([path.read_bytes()[at + 30] ^ 1]))
    for key in (np.s_[...], np.s_[8:16, 16:24], np.s_[15, 23, 24:32], np.s_[15]):
        with pytest.raises(CorruptDataError, match="checksum") as caught:
            array[key]
        assert "c/1/2/3" in str(caught.value)


@pytest.mark.parametrize("gone", [False, True])
def test_the_document_of_what_was_read(tmp_path: Path, gone: bool) -> None:
    path = made(tmp_path / "a.zip")
    array = zvcore.open(path)
    known(array, VALUES)
    if gone:
        path.unlink()
    else:
        store = zarr.storage.ZipStore(path, mode="w")
        zarr.create_array(store=store, shape=VALUES.shape, dtype="f2", chunks=(8, 8, 8))[...] = 1
        store.close()
    for key in PARTS:
        with pytest.raises((ConflictError, NotFoundError)):
            array[key]


def test_of_arrays_of_very_many_chunks_nothing_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    writer = zvcore.create(path, format="zarr3", shape=(3000, 1000, 1000), dtype="u1", chunks=(1, 1, 1), codec=None)
    writer[2:4, 5, 6] = 7
    writer.store.finish()
    array = zvcore.open(path)
    for _ in range(3):
        assert array[0:5, 5, 6].tolist() == [0, 0, 7, 7, 0]
        assert array[3, 5, 6] == 7
