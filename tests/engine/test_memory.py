"""Reads that may take only so much memory besides their result."""

from __future__ import annotations

import threading
import weakref
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zvcore
from zvcore import codecs
from zvcore.codecs import Codec
from zvcore.engine import streaming
from zvcore.stores import MemoryStore
from zvcore.transfer import reading

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

SHAPE, CHUNKS = (64, 64, 64), (16, 16, 16)
CHUNK_BYTES = 16**3 * 2
VALUES = np.arange(64**3, dtype="u2").reshape(SHAPE)


class Far(MemoryStore):
    """As if it lay behind a network. Counts the bytes that it has given and that somebody still holds."""

    def __init__(self) -> None:
        super().__init__()
        self.held = self.most = 0
        self._turn = threading.Lock()

    def parts_ahead(self) -> int:
        return 8

    def _given(self, data: memoryview | None) -> memoryview | None:
        if data is None:
            return None
        copy = np.frombuffer(bytearray(data), np.uint8)
        with self._turn:
            self.held += len(copy)
            self.most = max(self.most, self.held)
        weakref.finalize(copy, self._given_back, len(copy))
        return memoryview(copy)

    def _given_back(self, nbytes: int) -> None:
        with self._turn:
            self.held -= nbytes

    def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]], stamp: Any = None) -> Any:
        parts = super().get_ranges(key, ranges, stamp=stamp)
        return None if parts is None else [self._given(part) for part in parts]

    def get_many(self, keys: Iterable[str]) -> Iterator[Any]:
        return iter([self._given(data) for data in super().get_many(keys)])


class AtOnce:
    """Instead of `Ahead`: what is asked for is there at once, so what is held does not depend on threads."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self._result = function()

    def result(self) -> Any:
        return self._result

    def give_up(self) -> None:
        pass


@pytest.mark.parametrize("shards", [None, (32, 32, 32), (64, 64, 64)])
@pytest.mark.parametrize("few", [1, 2, 5, 16])
@pytest.mark.parametrize("remote", [True, False])
def test_no_more_is_fetched_ahead_than_there_is_memory_for(
    monkeypatch: pytest.MonkeyPatch, shards: tuple[int, ...] | None, few: int, remote: bool
) -> None:
    monkeypatch.setattr(Far, "remote", remote)
    monkeypatch.setattr(streaming, "_PART_BYTES", CHUNK_BYTES)
    monkeypatch.setattr(streaming, "Ahead", AtOnce)
    store = Far()
    array = zvcore.create(store, format="zarr3", shape=SHAPE, dtype="u2", chunks=CHUNKS, shards=shards, codec=None)
    array[...] = VALUES
    assert np.array_equal(array.read(), VALUES)
    unlimited, store.most = store.most, 0
    # Half of it is for what is fetched ahead.
    memory = 2 * few * CHUNK_BYTES
    assert np.array_equal(array.read(memory=memory), VALUES)
    assert store.most <= few * CHUNK_BYTES < unlimited
    assert store.held == 0


class Watched(Codec):
    """A codec that notes in which threads it decodes."""

    name = "watched"
    threads: set[int] = set()

    def decode(self, data: Any, out: Any = None, max_size: int | None = None) -> Any:
        self.threads.add(threading.get_ident())
        return bytes(data)

    def encode(self, data: Any) -> bytes:
        return bytes(data)


def test_fewer_threads_decode_where_memory_is_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Watched, "threads", set())
    codecs.register("watched", Watched)
    array = zvcore.create(tmp_path / "a", format="zarr3", shape=SHAPE, dtype="u2", chunks=CHUNKS, codec=Watched())
    array[...] = VALUES
    Watched.threads.clear()
    assert np.array_equal(array.read(threads=4, memory=1), VALUES)
    assert Watched.threads == {threading.get_ident()}


def test_what_only_python_can_decode_is_read_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    array = zvcore.create(tmp_path / "a", format="zarr3", shape=(64, 64), dtype="T", chunks=(8, 8))
    texts = np.array([[f"{i}, {j}" for j in range(64)] for i in range(64)], np.dtypes.StringDType())
    array[...] = texts
    counts: list[int] = []
    fetch = reading.fetch_chunks
    monkeypatch.setattr(reading, "fetch_chunks", lambda chunks, work: counts.append(len(chunks)) or fetch(chunks, work))
    assert np.array_equal(array.read(), texts)
    assert counts == [64]
    steps: list[tuple[int, int]] = []
    nbytes = 2 * 10 * 64 * array.dtype.itemsize
    assert np.array_equal(array.read(memory=nbytes, progress=lambda *step: steps.append(step)), texts)
    assert counts[1:] == [10] * 6 + [4]
    assert steps[-1] == (64, 64)


@pytest.mark.parametrize("memory", [1, 10_000, 10**6, 10**12])
@pytest.mark.parametrize("shards", [None, (32, 32, 32)])
def test_any_limit_reads_the_same(tmp_path: Path, memory: int, shards: Any) -> None:
    array = zvcore.create(
        tmp_path / "a", format="zarr3", shape=SHAPE, dtype="u2", chunks=CHUNKS, shards=shards, codec="zstd"
    )
    array[...] = VALUES
    for _ in range(2):
        assert np.array_equal(array.read(memory=memory), VALUES)
        assert np.array_equal(array.read((3, slice(5, 60, 2)), memory=memory), VALUES[3, 5:60:2])


def test_limits_that_are_none() -> None:
    array = zvcore.create(MemoryStore(), format="zarr3", shape=(4,), dtype="u1", chunks=(2,))
    for wrong in ({"memory": 0}, {"memory": -1}, {"threads": 0}):
        with pytest.raises(ValueError, match="must be at least 1"):
            array.read(**wrong)
