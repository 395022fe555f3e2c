"""Shards within shards: only what is needed is read, and what is broken stays alone."""

from __future__ import annotations

import gzip
import json
import struct
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import zarr
from zarr.codecs import BytesCodec, Crc32cCodec, GzipCodec, ShardingCodec

import zvcore
from zvcore.errors import ConflictError, CorruptDataError, OutOfMemoryError, ZvcoreError
from zvcore.kernels.crc32c import crc32c
from zvcore.stores import MemoryStore, open_store
from zvcore.zarr3.sharding import ShardLayout

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SHAPE = (50, 44)
DATA = np.random.default_rng(1).integers(1, 999, SHAPE, np.uint16)
INDEX = {"index_codecs": [BytesCodec(), Crc32cCodec()]}


def make(path: Path, location: Any = "end") -> None:
    """Shards of 32 x 24, in them shards of 16 x 12, in them shards of 8 x 6, in them chunks of 4 x 3."""
    serializer: Any = None
    for inner in ((4, 3), (8, 6), (16, 12)):
        codecs = [BytesCodec(), GzipCodec()] if serializer is None else [serializer]
        serializer = ShardingCodec(chunk_shape=inner, codecs=codecs, index_location=location, **INDEX)
    array = zarr.create_array(
        path, shape=SHAPE, dtype="u2", chunks=(32, 24), serializer=serializer, compressors=None, filters=None
    )
    array[...] = DATA
    array[0:16, 12:24] = 0


EXPECTED = DATA.copy()
EXPECTED[0:16, 12:24] = 0


@pytest.mark.parametrize("location", ["start", "end"])
def test_chunks_are_found_without_reading_shards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, location: Any
) -> None:
    make(tmp_path / "a", location)
    memory = MemoryStore()
    for file in (tmp_path / "a").rglob("*"):
        if file.is_file():
            memory.put(str(file.relative_to(tmp_path / "a")), file.read_bytes())

    def refuse(*_: Any) -> None:
        raise AssertionError("a whole shard was read")

    monkeypatch.setattr("zvcore.zarr3.sharding.locate_whole", refuse)
    rng = np.random.default_rng(2)
    for array in (zvcore.open(tmp_path / "a"), zvcore.open(memory)):
        assert len(array.layout.levels) == 3
        assert np.array_equal(array[...], EXPECTED)
        for _ in range(40):
            low = [int(rng.integers(0, bound)) for bound in SHAPE]
            key = tuple(slice(at, int(rng.integers(at, bound)) + 1) for at, bound in zip(low, SHAPE, strict=True))
            assert np.array_equal(array[key], EXPECTED[key])


def test_only_the_indexes_and_the_chunk_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path / "a")
    memory = MemoryStore()
    for file in (tmp_path / "a").rglob("*"):
        if file.is_file():
            memory.put(str(file.relative_to(tmp_path / "a")), file.read_bytes())
    array = zvcore.open(memory)
    nbytes: list[int] = []

    def count(name: str, size_of: Callable[[Any], int]) -> None:
        plain = getattr(MemoryStore, name)

        def counted(*arguments: Any, **options: Any) -> Any:
            found = plain(*arguments, **options)
            nbytes.append(size_of(found))
            return found

        monkeypatch.setattr(MemoryStore, name, counted)

    count("get", len)
    count("get_ranges", lambda parts: sum(map(len, parts)))
    assert np.array_equal(array[0:4, 0:3], EXPECTED[0:4, 0:3])
    # Three indexes of four entries and a checksum, and one chunk of 24 bytes in gzip.
    assert 3 * 68 + 20 < sum(nbytes) < 3 * 68 + 80


def entry(raw: bytes, stop: int, slot: int) -> tuple[int, int]:
    """(offset, length) in the index of four entries that ends there."""
    found: tuple[int, int] = struct.unpack_from("<QQ", raw, stop - 68 + 16 * slot)
    return found


def test_a_broken_inner_index_is_reported_and_harms_only_its_own_chunks(tmp_path: Path) -> None:
    make(tmp_path / "a")
    file = tmp_path / "a" / "c" / "0" / "0"
    raw = bytearray(file.read_bytes())
    # The inner shard at (1, 0) of the outermost, in it the one at (0, 1).
    outer, size = entry(raw, len(raw), 2)
    middle, inner_size = entry(raw, outer + size, 1)
    at = outer + middle + inner_size - 68
    raw[at] ^= 1
    file.write_bytes(raw)
    array = zvcore.open(tmp_path / "a")
    with pytest.raises(CorruptDataError, match="checksum") as caught:
        array[16:20, 6:9]
    assert (caught.value.key, caught.value.offset, caught.value.length) == ("c/0/0", at, 68)
    assert np.array_equal(array[16:24, 0:6], EXPECTED[16:24, 0:6])
    assert np.array_equal(array[0:16], EXPECTED[0:16])


def test_an_inner_shard_that_cannot_hold_its_index(tmp_path: Path) -> None:
    make(tmp_path / "a")
    file = tmp_path / "a" / "c" / "0" / "0"
    raw = bytearray(file.read_bytes())
    outer, _ = entry(raw, len(raw), 2)
    struct.pack_into("<QQ", raw, len(raw) - 68 + 32, outer, 60)
    raw[-4:] = crc32c(bytes(raw[-68:-4])).to_bytes(4, "little")
    file.write_bytes(raw)
    with pytest.raises(CorruptDataError, match="too small for its index") as caught:
        zvcore.open(tmp_path / "a")[16:20, 6:9]
    assert (caught.value.offset, caught.value.length) == (outer, 60)


def test_a_shard_that_is_replaced_between_two_indexes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path / "a")
    array = zvcore.open(tmp_path / "a")
    writer = zvcore.open(tmp_path / "a", mode="r+")
    find = ShardLayout.index
    replaced = []

    def index(layout: ShardLayout, key: str, fresh: bool = True) -> Any:
        found = find(layout, key, fresh)
        if layout is array.layout and not replaced:
            replaced.append(key)
            writer[16:32, 0:12] = 7
        return found

    monkeypatch.setattr(ShardLayout, "index", index)
    assert (array[16:32, 0:12] == 7).all()
    assert replaced


def test_parts_are_written_and_encoded_chunks_read(tmp_path: Path) -> None:
    make(tmp_path / "a")
    array = zvcore.open(tmp_path / "a", mode="r+")
    expected = EXPECTED.copy()
    expected[3:19, 5:30] = 3
    array[3:19, 5:30] = 3
    assert np.array_equal(zvcore.open(tmp_path / "a")[...], expected)
    assert np.array_equal(zarr.open_array(tmp_path / "a")[...], expected)
    assert gzip.decompress(array.read_encoded((9, 0))) == expected[36:40, 0:3].tobytes()
    assert zvcore.verify(open_store(str(tmp_path / "a"), "r")).ok


@pytest.mark.parametrize("error", [OutOfMemoryError, ConflictError])
def test_a_repair_drops_no_shard_because_its_indexes_could_not_be_read_just_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[ZvcoreError]
) -> None:
    make(tmp_path / "a")
    shard = tmp_path / "a/c/0/0"
    data = bytearray(shard.read_bytes())
    data[3] ^= 0xFF  # of the first chunk
    shard.write_bytes(data)

    def fail(*_: Any) -> None:
        raise error("not now")

    with monkeypatch.context() as patch:
        patch.setattr(ShardLayout, "locate_whole", fail)
        with pytest.raises(error, match="not now"):
            zvcore.repair(tmp_path / "a")
    assert shard.read_bytes() == data
    assert zvcore.repair(tmp_path / "a").counts["chunks dropped"] == 1


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("behind", [[], ["crc32c"]])
def test_a_shard_without_axes_is_looked_after_as_any_other(tmp_path: Path, depth: int, behind: list[str]) -> None:
    path = str(tmp_path / "a.zarr")
    index = [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}]
    codecs: list[Any] = [{"name": "bytes", "configuration": {"endian": "little"}}]
    for _ in range(depth):
        within = {"chunk_shape": [], "codecs": codecs, "index_codecs": index}
        codecs = [{"name": "sharding_indexed", "configuration": within}, *({"name": name} for name in behind)]
    zvcore.create(path, format="zarr3", shape=(), dtype="uint16", chunks=(), codec=None)
    document = tmp_path / "a.zarr" / "zarr.json"
    document.write_text(json.dumps({**json.loads(document.read_text()), "codecs": codecs}))
    zvcore.open(path, "r+")[...] = 7
    report = zvcore.verify(path)
    assert report.status == "sound" and report.counts["chunks"] == 1
    zvcore.compact(path)
    zvcore.repair(path)
    assert zvcore.open(path)[()] == 7
    stored = tmp_path / "a.zarr" / "c"
    broken = bytearray(stored.read_bytes())
    broken[-1] ^= 1  # a checksum: that of the outermost index, or of the shard
    stored.write_bytes(broken)
    assert zvcore.verify(path).status == "damaged"
    assert zvcore.repair(path).losses
    assert zvcore.verify(path).status == "sound" and zvcore.open(path)[()] == 0
