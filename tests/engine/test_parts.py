"""One large chunk that several threads decode, where its codec can decode parts."""

from __future__ import annotations

import ctypes
import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zvcore
from tests.codecs.tables import CORRUPT, OK, answering, capsule
from tests.processes import PATIENCE
from zvcore import codecs
from zvcore.errors import CorruptDataError
from zvcore.testing.codecs import FIRST_VERSION

if TYPE_CHECKING:
    from pathlib import Path

SIDE = 1024
VALUES = np.random.default_rng(5).integers(0, 2**16, (2 * SIDE, SIDE), np.uint16)
PART = 1 << 18


class Parts:
    """The functions of a table whose streams are the bytes as they are, and what they were called for."""

    def __init__(self, part: int = PART, status: int = OK) -> None:
        self.part = part
        self.status = status
        self.begun: list[int] = []
        self.threads: set[int] = set()
        self.two_are_here = threading.Event()
        self.two_are_here.set()

    def wait_for_a_second(self) -> None:
        self.two_are_here.clear()

    def part_size(self, cfg: Any, src: int, n: int, size: int) -> int:
        return self.part if n == size else 0

    def decode_part(self, cfg: Any, worker: Any, src: int, n: int, begin: int, dst: int, size: int) -> int:
        self.threads.add(threading.get_ident())
        if len(self.threads) > 1:
            self.two_are_here.set()
        assert self.two_are_here.wait(PATIENCE)
        self.begun += range(begin, begin + size, self.part)
        ctypes.memmove(dst, src + begin, size)
        return self.status

    def table(self, **fields: Any) -> Any:
        return capsule(part_size=self.part_size, decode_part=self.decode_part, **fields)


def written(path: Path, codec: Any = "fake", values: Any = VALUES, **options: Any) -> Any:
    """Two chunks of 2 MiB."""
    shape, chunks = VALUES.shape, (SIDE, SIDE)
    made = zvcore.create(path, format="zarr3", shape=shape, dtype="u2", chunks=chunks, codec=codec, **options)
    made[...] = values
    return zvcore.open(path)


def test_a_large_chunk_is_decoded_by_all_threads_that_have_nothing_else_to_do(use_table, tmp_path):
    parts = Parts()
    use_table(parts.table())
    array = written(tmp_path)
    parts.wait_for_a_second()
    assert np.array_equal(array.read(slice(0, SIDE), threads=2), VALUES[:SIDE])
    assert sorted(parts.begun) == [*range(0, 2 * SIDE**2, PART)]
    assert len(parts.threads) == 2


def test_a_chunk_of_a_shard_that_was_read_before_is_decoded_by_several_threads_too(use_table, tmp_path):
    parts = Parts()
    use_table(parts.table())
    array = written(tmp_path, shards=VALUES.shape)
    for _ in range(3):
        parts.begun.clear()
        assert np.array_equal(array.read(slice(0, SIDE), threads=2), VALUES[:SIDE])
        assert sorted(parts.begun) == [*range(0, 2 * SIDE**2, PART)]


def test_one_thread_as_many_chunks_as_threads_and_small_chunks_are_decoded_whole(use_table, tmp_path):
    parts = Parts()
    use_table(parts.table())
    array = written(tmp_path / "large")
    assert np.array_equal(array.read(slice(0, SIDE), threads=1), VALUES[:SIDE])
    assert np.array_equal(array.read(..., threads=2), VALUES)
    small = zvcore.create(tmp_path / "small", format="zarr3", shape=(600, 600), dtype="u2", codec="fake")
    small[...] = VALUES[:600, :600]
    assert np.array_equal(small.read(..., threads=2), VALUES[:600, :600])
    assert parts.begun == []


@pytest.mark.parametrize("part", [0, 2 * SIDE**2, 2**63, 3 * SIDE, 2 * SIDE**2 - 1])
def test_parts_of_any_size_give_the_chunk(use_table, tmp_path, part):
    parts = Parts(part)
    use_table(parts.table())
    array = written(tmp_path)
    assert np.array_equal(array.read(slice(0, SIDE), threads=4), VALUES[:SIDE])
    assert sorted(parts.begun) == ([] if not 0 < part < 2 * SIDE**2 else [*range(0, 2 * SIDE**2, part)])


def test_where_a_part_cannot_be_decoded_the_codec_is_asked_for_the_whole_and_says_why(use_table, tmp_path):
    parts = Parts(status=CORRUPT)
    use_table(parts.table())
    array = written(tmp_path)
    assert np.array_equal(array.read(slice(0, SIDE), threads=2), VALUES[:SIDE])
    use_table(parts.table(decode=answering(CORRUPT, message=b"this is why\0")))
    array = zvcore.open(tmp_path)
    with pytest.raises(CorruptDataError, match="this is why"):
        array.read(slice(0, SIDE), threads=2)
    assert parts.begun


def test_what_follows_a_table_of_the_first_version_is_not_called(use_table, tmp_path):
    parts = Parts()
    use_table(parts.table(struct_size=FIRST_VERSION))
    array = written(tmp_path)
    assert np.array_equal(array.read(slice(0, SIDE), threads=2), VALUES[:SIDE])
    assert parts.begun == []


def test_threads_that_get_no_worker_leave_their_share_to_the_others(use_table, tmp_path):
    parts = Parts()
    use_table(parts.table())
    written(tmp_path)
    workers = iter([7])
    use_table(parts.table(worker_new=lambda cfg: next(workers, None), worker_free=lambda worker: None))
    array = zvcore.open(tmp_path)
    assert np.array_equal(array.read(slice(0, SIDE), threads=4), VALUES[:SIDE])
    assert sorted(parts.begun) == [*range(0, 2 * SIDE**2, PART)]


@pytest.mark.parametrize("cname", ["lz4", "zstd", "blosclz", "zlib"])
@pytest.mark.parametrize("shuffle", ["noshuffle", "shuffle", "bitshuffle"])
def test_blocks_of_blosc_are_such_parts(tmp_path, cname, shuffle):
    codec = codecs.get("blosc", cname=cname, clevel=5, shuffle=shuffle, typesize=2)
    smooth = (VALUES >> 9).astype("u2")
    zvcore.create(tmp_path, format="zarr3", shape=VALUES.shape, dtype="u2", chunks=VALUES.shape, codec=codec)[...] = (
        smooth
    )
    for _ in range(3):
        assert np.array_equal(zvcore.open(tmp_path).read(..., threads=3), smooth)


def test_a_damaged_block_of_blosc_is_told_as_if_one_thread_had_decoded_it(tmp_path):
    codec = codecs.get("blosc", cname="zstd", clevel=1, shuffle="shuffle", typesize=2)
    written(tmp_path, codec, VALUES >> 9)
    path = tmp_path / "c/0/0"
    stored = bytearray(path.read_bytes())
    stored[len(stored) // 2 : len(stored) // 2 + 4000] = bytes(4000)
    path.write_bytes(stored)
    said = []
    for threads in (1, 2):
        with pytest.raises(CorruptDataError) as caught:
            zvcore.open(tmp_path).read(slice(0, SIDE), threads=threads)
        said.append(str(caught.value))
    assert said[0] == said[1]
