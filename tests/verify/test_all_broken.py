"""Where all chunks are broken, verifying costs little more than where all are sound, and tells the same of each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zvcore
from zvcore.engine import fetching
from zvcore.errors import CorruptDataError, StoreError, ZvcoreError
from zvcore.n5.array import N5Array
from zvcore.n5.verification import Checker
from zvcore.report import _MOST_SHARED, Problem, Report, What, _shared
from zvcore.stores import MemoryStore

if TYPE_CHECKING:
    from pathlib import Path

COUNT = 3000
FORMATS: dict[str, dict[str, Any]] = {
    "zarr2": {"shape": (COUNT,), "chunks": (1,), "codec": "gzip"},
    "zarr3": {"shape": (COUNT,), "chunks": (1,), "codec": "zstd"},
    "n5": {"shape": (COUNT,), "chunks": (1,), "codec": "gzip"},
    "precomputed": {"shape": (COUNT, 1, 1), "chunks": (1, 1, 1)},
}


def full(path: Path | MemoryStore, format: str, **options: Any) -> Any:
    array = zvcore.create(path, format=format, dtype="u2", **{**FORMATS[format], **options})
    array[...] = np.arange(1, array.size + 1, dtype="u2").reshape(array.shape)
    return array


def chunk_files(path: Path) -> list[Path]:
    documents = ("zarr.json", ".zarray", "attributes.json", "info", ".zattrs")
    return sorted(one for one in path.rglob("*") if one.is_file() and one.name not in documents)


@pytest.mark.parametrize("format", FORMATS)
def test_broken_chunks_are_found_many_at_a_time(tmp_path: Path, format: str, monkeypatch: pytest.MonkeyPatch) -> None:
    full(tmp_path / "a", format)
    for one in chunk_files(tmp_path / "a"):
        one.write_bytes(b"")
    calls = []

    def counted(work: Any) -> Any:
        def call(*given: Any, **named: Any) -> Any:
            calls.append(work)
            return work(*given, **named)

        return call

    monkeypatch.setattr(fetching, "fetch_chunks", counted(fetching.fetch_chunks))
    monkeypatch.setattr(N5Array, "read_block", counted(N5Array.read_block))
    problems = zvcore.verify(tmp_path / "a").problems
    assert len({one.where for one in problems}) == len(problems) == COUNT
    assert all(one.damage and one.kind in (What.DATA, What.SIZE) for one in problems)
    # Two dozen batches or so, where each broken chunk once was a batch of its own.
    assert len(calls) < COUNT / 30
    # A million problems would otherwise be a million times the same sentence in memory.
    assert all(one.what is problems[0].what for one in problems)
    assert not hasattr(problems[0], "__dict__")


def damaged(data: bytes, rng: np.random.Generator) -> bytes:
    """Bytes that are cut off, longer, or other ones, and as they are in one of six cases."""
    kind, at = int(rng.integers(6)), int(rng.integers(len(data)))
    if kind == 1:
        return data[:at]
    if kind == 2:
        return data + b"\1"
    if kind == 3:
        return bytes([*data[:at], data[at] ^ 1 << int(rng.integers(8)), *data[at + 1 :]])
    if kind == 4:
        # Of a block of N5: another mode, rank or extent.
        at = int(rng.integers(min(len(data), 12)))
        return bytes([*data[:at], int(rng.integers(4)), *data[at + 1 :]])
    return b"" if kind == 5 else data


@pytest.mark.parametrize("codec", [None, "gzip", "zstd", "lz4"])
def test_blocks_looked_at_together_are_told_as_each_on_its_own(tmp_path: Path, codec: str | None) -> None:
    array = full(tmp_path / "a", "n5", shape=(26, 9), chunks=(4, 2), codec=codec)
    rng = np.random.default_rng(5)
    files = chunk_files(tmp_path / "a")
    good = {one: one.read_bytes() for one in files}
    for _ in range(20):
        for one, data in good.items():
            one.write_bytes(damaged(data, rng))
        found = zvcore.verify(tmp_path / "a", threads=2).problems
        checker = Checker(zvcore.open(tmp_path / "a"), Report())
        keys = sorted(str(one.relative_to(tmp_path / "a")) for one in files)
        alone = [checker.block(key, tuple(map(int, key.split("/")))) for key in keys]
        assert found == [one for one in alone if one is not None]
        assert {one.chunk for one in found} < {tuple(map(int, key.split("/"))) for key in keys}
    assert array.shape == (26, 9)


@pytest.mark.parametrize(
    ("format", "options"),
    [
        ("zarr3", {"shape": (64, 64), "chunks": (4, 4), "shards": (32, 32), "codec": "crc32c"}),
        ("zarr3", {"shape": (64, 64), "chunks": (4, 4), "shards": (32, 32), "codec": "zstd"}),
        ("zarr3", {"shape": (64, 64), "chunks": (4, 4), "codec": "zstd"}),
        ("precomputed", {"shape": (32, 32, 2), "chunks": (4, 4, 2), "shards": (16, 16, 2), "codec": "gzip"}),
        ("precomputed", {"shape": (32, 32, 2), "chunks": (4, 4, 2), "codec": "gzip"}),
    ],
    ids=["checksums", "shards", "chunks", "volume shards", "volume"],
)
def test_what_is_told_to_be_broken_is_what_cannot_be_read(tmp_path: Path, format: str, options: dict[str, Any]) -> None:
    array = full(tmp_path / "a", format, **options)
    rng = np.random.default_rng(6)
    good = {one: one.read_bytes() for one in chunk_files(tmp_path / "a")}
    some = 0
    for _ in range(12):
        for one, data in good.items():
            hurt = bytearray(data)
            # Neighbours among them: they are read together.
            for at in rng.integers(0, len(hurt) // 2, size=int(rng.integers(len(hurt) // 80 + 2))):
                hurt[at : at + 12] = bytes(12)
            one.write_bytes(hurt)
        told = {one.chunk for one in zvcore.verify(tmp_path / "a", threads=2).problems if one.fatal}
        if not all(isinstance(one, int) or (isinstance(one, tuple) and len(one) == len(array.shape)) for one in told):
            continue  # an index is broken
        unreadable = set()
        for position in np.ndindex(tuple(-(-n // m) for n, m in zip(array.shape, array.chunks, strict=True))):
            try:
                array.read(tuple(slice(i * n, (i + 1) * n) for i, n in zip(position, array.chunks, strict=True)))
            except ZvcoreError:
                unreadable.add(position)
        # Sharded volumes name chunks by their ids.
        assert told == unreadable or (len(told) == len(unreadable) and any(isinstance(one, int) for one in told))
        some += len(told)
    assert some


class Silent(MemoryStore):
    """Does not answer for one of its objects, in the ways that are named."""

    key = ""
    ways: tuple[str, ...] = ()

    def _ask(self, way: str, keys: list[str]) -> None:
        if way in self.ways and self.key in keys:
            raise StoreError("the server is gone", key=self.key)

    def get(self, key: str, *given: Any, **named: Any) -> Any:
        self._ask("get", [key])
        return super().get(key, *given, **named)

    def get_many(self, keys: Any, *given: Any, **named: Any) -> Any:
        asked = list(keys)
        self._ask("get_many", asked)
        return super().get_many(asked, *given, **named)

    def sizes(self, keys: Any) -> Any:
        asked = list(keys)
        self._ask("sizes", asked)
        return super().sizes(asked)


@pytest.mark.parametrize("ways", [("get", "get_many"), ("get", "get_many", "sizes")])
@pytest.mark.parametrize("format", ["n5", "zarr3"])
def test_a_chunk_that_the_store_does_not_answer_for_hides_no_others(format: str, ways: tuple[str, ...]) -> None:
    store = Silent()
    full(store, format, shape=(6,))
    keys = sorted(key for key in store.list() if key.rpartition("/")[2].isdecimal())
    store.put(keys[0], b"no such thing")
    store.put(keys[4], b"no such thing")
    store.key, store.ways = keys[2], ways
    report = zvcore.verify(store)
    assert [(one.where, one.kind) for one in report.problems] == [
        (keys[0], What.DATA), (keys[2], What.STORE), (keys[4], What.DATA),
    ]  # fmt: skip
    assert 6 in report.counts.values()


def test_words_that_others_choose_are_shared_but_not_kept() -> None:
    for number in range(20000):
        Problem.of(CorruptDataError("wrong", expected=f"{number} bytes", found="x" * 2000 + str(number)))
    assert len(_shared) <= _MOST_SHARED and all(len(one) < 1000 for one in _shared)
    _shared.clear()  # which else may happen between the two
    same = [Problem.of(CorruptDataError("wrong", found="".join(["so", "me"]))) for _ in range(2)]
    assert same[0].what is same[1].what and same[0].found is same[1].found
