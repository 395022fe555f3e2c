"""Chunks that a codec decodes two at a time: the same values, and the same errors, as one after the other."""

from __future__ import annotations

import ctypes
import gzip
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zvcore
from tests.codecs.tables import CORRUPT, OK, SPACE, capsule
from zvcore import codecs
from zvcore.codecs import CodecChain
from zvcore.engine import Keys, Sources, fetch, fetch_sound
from zvcore.errors import CorruptDataError
from zvcore.stores import LocalStore
from zvcore.testing.codecs import WITH_PLAIN

if TYPE_CHECKING:
    from pathlib import Path

SHAPE = (48, 96, 96)
VALUES = np.random.default_rng(7).integers(0, 40, SHAPE, np.uint16)
CHUNKS = (16, 16, 16)
COUNT = 3 * 6 * 6


class Paired:
    """The functions of a table that puts one byte before the values, and counts how they are decoded."""

    def __init__(self, status: int = OK) -> None:
        self.status = status
        self.alone: list[int] = []
        self.together: list[tuple[int, int]] = []

    def encode(self, cfg: Any, worker: Any, src: int, n: int, dst: int, cap: int, out_n: Any, err: Any) -> int:
        out_n[0] = n + 1
        if out_n[0] > cap:
            return SPACE
        ctypes.memset(dst, 0x11, 1)
        ctypes.memmove(dst + 1, src, n)
        return OK

    def decode(self, cfg: Any, worker: Any, src: int, n: int, dst: int, cap: int, out_n: Any, err: Any) -> int:
        self.alone.append(n)
        if ctypes.string_at(src, 1) != b"\x11":
            return CORRUPT
        out_n[0] = n - 1
        if out_n[0] > cap:
            return SPACE
        ctypes.memmove(dst, src + 1, n - 1)
        return OK

    def decode_two(self, cfg: Any, worker: Any, src: int, n: int, dst: int, size: int) -> int:
        sources, into = ((ctypes.c_void_p * 2).from_address(place) for place in (src, dst))
        lengths, sizes = ((ctypes.c_uint64 * 2).from_address(place) for place in (n, size))
        if self.status != OK or any(length != room + 1 for length, room in zip(lengths, sizes, strict=True)):
            return self.status or CORRUPT
        if any(ctypes.string_at(source, 1) != b"\x11" for source in sources):
            return CORRUPT
        for source, target, room in zip(sources, into, sizes, strict=True):
            ctypes.memmove(target, source + 1, room)
        self.together.append((lengths[0], lengths[1]))
        return OK

    def table(self, **fields: Any) -> Any:
        functions = {"encode": self.encode, "decode": self.decode, "bound": lambda cfg, n: n + 1}
        return capsule(**{**functions, "decode_two": self.decode_two, **fields})


def written(path: Path, codec: Any = "fake", **options: Any) -> Any:
    options = {"dtype": "u2", "chunks": CHUNKS, "codec": codec, **options}
    made = zvcore.create(path, format="zarr3", shape=SHAPE, **options)
    made[...] = VALUES
    return zvcore.open(path)


LAYOUTS = {"files": {}, "shards": {"shards": (48, 48, 48)}, "wide": {"chunks": (16, 16, 96)}}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_chunks_are_decoded_two_at_a_time_to_the_same_values(use_table, tmp_path, layout, threads):
    fake = Paired()
    use_table(fake.table())
    array = written(tmp_path, **LAYOUTS[layout])
    assert np.array_equal(array.read(threads=threads), VALUES)
    assert np.array_equal(array[5:40, 3:90:2, 7:77], VALUES[5:40, 3:90:2, 7:77])
    assert np.array_equal(array[20], VALUES[20])
    assert len(fake.together) > len(fake.alone)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_absent_chunks_between_are_filled(use_table, tmp_path, layout):
    use_table(Paired().table())
    options: dict[str, Any] = {"chunks": CHUNKS, **LAYOUTS[layout]}
    array = zvcore.create(tmp_path, format="zarr3", shape=SHAPE, dtype="u2", codec="fake", fill_value=9, **options)
    expected = np.full(SHAPE, 9, "u2")
    for begin in [(0, 0, 0), (0, 16, 32), (0, 16, 48), (32, 80, 80)]:
        box = tuple(slice(b, b + 16) for b in begin)
        array[box] = expected[box] = VALUES[box]
    for threads in (1, 2):
        assert np.array_equal(zvcore.open(tmp_path).read(threads=threads), expected)


def test_what_was_decoded_of_two_is_not_taken_for_another_chunk_where_the_one_beside_it_is_absent(use_table, tmp_path):
    """Four to a line of the result: the next two come to where the last two lay, and are as long when stored."""
    fake = Paired()
    use_table(fake.table())
    shape, chunks = (64, 128, 512), (32, 32, 16)
    expected = np.random.default_rng(8).integers(0, 256, shape, np.uint8)
    made = zvcore.create(tmp_path, format="zarr3", shape=shape, chunks=chunks, dtype="u1", codec="fake", fill_value=9)
    made[...] = expected
    for position in [(0, 0, 3), (0, 1, 2), (1, 2, 30), (1, 3, 31)]:
        (tmp_path / "c" / "/".join(map(str, position))).unlink()
        expected[tuple(slice(p * n, p * n + n) for p, n in zip(position, chunks, strict=True))] = 9
    for threads in (1, 2):
        assert np.array_equal(zvcore.open(tmp_path).read(threads=threads), expected)
    assert len(fake.together) > len(fake.alone)


def test_a_codec_that_cannot_decode_two_of_them_is_asked_for_each(use_table, tmp_path):
    fake = Paired(CORRUPT)
    use_table(fake.table())
    assert np.array_equal(written(tmp_path)[...], VALUES)
    assert len(fake.alone) == COUNT


def test_tables_that_end_before_it_are_not_asked(use_table, tmp_path):
    fake = Paired()
    use_table(fake.table(struct_size=WITH_PLAIN))
    assert np.array_equal(written(tmp_path)[...], VALUES)
    assert (len(fake.alone), fake.together) == (COUNT, [])


def test_the_broken_one_of_two_is_named(use_table, tmp_path):
    use_table(Paired().table())
    written(tmp_path)
    broken = tmp_path / "c" / "1" / "2" / "3"
    broken.write_bytes(b"\x22" + broken.read_bytes()[1:])
    for threads in (1, 2):
        with pytest.raises(CorruptDataError) as caught:
            zvcore.open(tmp_path).read(threads=threads)
        assert (caught.value.key, caught.value.chunk) == ("c/1/2/3", (1, 2, 3))
    assert [problem.where for problem in zvcore.verify(tmp_path).problems] == ["c/1/2/3"]


def test_what_another_codec_made_before_it_is_decoded_in_turn(use_table, tmp_path):
    fake = Paired()
    use_table(fake.table(decoded_hint=lambda cfg, src, n: n - 1))
    array = written(tmp_path, ["zstd", "fake"])
    assert np.array_equal(array[...], VALUES)
    assert fake.together


@pytest.mark.parametrize("target", [{}, {"shards": (48, 48, 48)}, {"chunks": (32, 32, 32)}, {"chunks": (8, 16, 16)}])
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_conversions_decode_two_at_a_time(use_table, tmp_path, target, threads):
    fake = Paired()
    use_table(fake.table())
    written(tmp_path / "a")
    zvcore.convert(tmp_path / "a", tmp_path / "b", format="zarr3", codec="zstd", threads=threads, **target)
    assert np.array_equal(zvcore.open(tmp_path / "b")[...], VALUES)
    assert len(fake.together) > len(fake.alone)


@pytest.mark.parametrize("chunks", [CHUNKS, (48, 48, 48)])
@pytest.mark.parametrize("number", ["1/2/3", "1/2/4"])
def test_the_broken_one_of_two_is_named_by_conversions(use_table, tmp_path, chunks, number):
    use_table(Paired().table())
    written(tmp_path / "a")
    broken = tmp_path / "a" / "c" / number
    broken.write_bytes(broken.read_bytes()[:-1])
    with pytest.raises(CorruptDataError) as caught:
        zvcore.convert(tmp_path / "a", tmp_path / "b", format="zarr3", codec="zstd", chunks=chunks)
    assert caught.value.key == f"c/{number}"


@pytest.mark.parametrize("layout", ["files", "shards"])
@pytest.mark.parametrize("target", [{"chunks": (32, 32, 96)}, {"chunks": (20, 30, 70)}])
def test_conversions_fill_absent_chunks_between_those_that_make_up_one_of_theirs(use_table, tmp_path, layout, target):
    """Each two that are decoded lie where the last two lay, and are as long when stored."""
    fake = Paired()
    use_table(fake.table())
    made = zvcore.create(
        tmp_path / "a",
        format="zarr3",
        shape=SHAPE,
        dtype="u2",
        codec="fake",
        fill_value=9,
        chunks=CHUNKS,
        **LAYOUTS[layout],
    )
    expected = np.full(SHAPE, 9, "u2")
    for number in range(COUNT):
        if number % 7 in (0, 1, 3, 4, 6):
            box = tuple(slice(16 * p, 16 * p + 16) for p in np.unravel_index(number, (3, 6, 6)))
            made[box] = expected[box] = VALUES[box]
    zvcore.convert(tmp_path / "a", tmp_path / "b", format="zarr3", codec="zstd", threads=2, **target)
    assert np.array_equal(zvcore.open(tmp_path / "b")[...], expected)
    assert fake.together


@pytest.mark.parametrize("format", ["n5", "zarr2", "zarr3"])
def test_gzip_of_others_is_read_next_to_ours(tmp_path, format):
    """Streams of two members, between others of one."""
    if format == "n5":
        root = zvcore.open(tmp_path, "w", format="n5")
        array = root.create_dataset("a", shape=SHAPE, chunks=CHUNKS, dtype="u2", codec="gzip")
        path = tmp_path / "a"
    else:
        array = zvcore.create(tmp_path, format=format, shape=SHAPE, chunks=CHUNKS, dtype="u2", codec="gzip")
        path = tmp_path
    array[...] = VALUES
    files = sorted(found for found in path.rglob("*") if found.is_file() and ".json" not in found.name)
    files = [found for found in files if found.name not in (".zarray", ".zattrs", ".zgroup")]
    header = 16 if format == "n5" else 0
    for file in files[::3]:
        data = file.read_bytes()
        plain = gzip.decompress(data[header:])
        half = len(plain) // 2
        members = gzip.compress(plain[:half], 1) + gzip.compress(plain[half:], 9)
        file.write_bytes(data[:header] + members)
    for threads in (1, 2):
        assert np.array_equal(zvcore.open(path).read(threads=threads), VALUES)


def forms(value: bytes) -> list[bytes]:
    """A value as one member, and as two, of which the end of the stream says the size of only the last."""
    half = len(value) // 2
    return [gzip.compress(value, 6), gzip.compress(value[:half], 1) + gzip.compress(value[half:], 9)]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("sizes_known", [False, True])
@pytest.mark.parametrize("layout", ["one object", "an object each"])
def test_byte_strings_of_gzip_are_decoded_two_at_a_time(
    tmp_path: Path, threads: int, sizes_known: bool, layout: str
) -> None:
    """Where their sizes are not known, the ends of their streams say them: which may lie."""
    rng = np.random.default_rng(9)
    values = [bytes(rng.integers(0, rng.integers(2, 200), rng.integers(0, 3000), "u1")) for _ in range(300)]
    # More than is decoded in advance.
    values[17] = bytes(5 << 20)
    stored = [forms(value)[row % 3 == 0] for row, value in enumerate(values)]
    broken = {40: stored[40][:-1], 41: stored[41][:-4] + b"\1\0\0\0", 90: b"", 121: stored[121][:-5] + b"?" * 5}
    store = LocalStore(tmp_path)
    for bad in ({}, broken):
        streams = [bad.get(row, stream) for row, stream in enumerate(stored)]
        sources = laid_down(store, streams, together=layout == "one object")
        expected = np.array([*map(len, values)], np.uint64) if sizes_known else None
        chain = CodecChain((codecs.get("gzip"),))
        found, faults = fetch_sound(store, sources, chain, count=len(values), expected=expected, threads=threads)
        assert sorted(row for row, _ in faults) == sorted(bad)
        assert all(isinstance(error, CorruptDataError) for _, error in faults)
        assert [None if one is None else bytes(one) for one in found] == [
            None if row in bad else value for row, value in enumerate(values)
        ]


@pytest.mark.parametrize("together", [False, True])
def test_of_byte_strings_whose_sizes_are_known_most_come_two_at_a_time(use_table, tmp_path, together):
    fake = Paired()
    use_table(fake.table())
    values = [bytes([row]) * (row + 1) for row in range(100)]
    store = LocalStore(tmp_path)
    sources = laid_down(store, [b"\x11" + value for value in values], together=together)
    sizes = np.array([*map(len, values)], np.uint64)
    found = fetch(store, sources, CodecChain((codecs.get("fake"),)), count=len(values), expected=sizes, threads=2)
    assert [bytes(one) for one in found if one is not None] == values
    assert len(fake.together) > len(fake.alone)


def laid_down(store: LocalStore, streams: list[bytes], *, together: bool) -> Sources:
    lengths = np.array([*map(len, streams)], np.uint64)
    if together:
        store.put("all", b"".join(streams))
        offsets = np.concatenate([[0], np.cumsum(lengths[:-1])]).astype(np.uint64)
        return Sources(Keys.of(["all"]), np.zeros(len(streams), np.int32), offsets, lengths)
    for row, stream in enumerate(streams):
        store.put(str(row), stream)
    return Sources(Keys.of([str(row) for row in range(len(streams))]))
