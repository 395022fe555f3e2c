"""The gzip codec against the standard library."""

from __future__ import annotations

import gzip
import threading
import zlib
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zvcore import codecs
from zvcore.errors import CorruptDataError, MetadataError

DATA = bytes(np.random.default_rng(1).integers(0, 20, 70_000, "u1"))


@pytest.mark.parametrize("level", range(-1, 10))
@pytest.mark.parametrize("data", [b"", b"x", DATA])
def test_stdlib_reads_what_is_written(level: int, data: bytes) -> None:
    plain = codecs.get("gzip", level=level).encode(data)
    assert (plain[:2], plain[4:8]) == (b"\x1f\x8b", bytes(4)), "a gzip member without a time"
    assert gzip.decompress(plain) == data
    assert zlib.decompress(codecs.get("gzip", level=level, use_zlib=True).encode(data)) == data


@pytest.mark.parametrize("use_zlib", [False, True])
@pytest.mark.parametrize("level", range(10))
def test_one_codec_takes_values_of_all_sizes_in_any_order(level: int, use_zlib: bool) -> None:
    codec = codecs.get("gzip", level=level, use_zlib=use_zlib)
    for size in (1000, 70_000, 40, 4096, 4097, 0, 4095, 33_000, 1, 4096):
        stream = codec.encode(DATA[:size])
        assert zlib.decompress(stream, zlib.MAX_WBITS | (0 if use_zlib else 16)) == DATA[:size]


@pytest.mark.parametrize(("size", "most"), [(60, 1.1), (1000, 1.04), (4096, 1.04)])
def test_small_values_take_hardly_more_space_than_with_the_standard_library(size: int, most: float) -> None:
    # Coordinates of skeletons: what is repeated lies here and there. Older libdeflates find less in 60 bytes.
    values = np.cumsum(np.random.default_rng(2).integers(-3, 4, (50, size // 4)), 1).astype("<f4")
    ours = sum(len(codecs.get("gzip", level=6).encode(value)) for value in values)
    theirs = sum(len(gzip.compress(value.tobytes(), 6)) for value in values)
    assert ours <= most * theirs


@pytest.mark.parametrize("level", range(1, 10))
@pytest.mark.parametrize("symbols", [2, 3, 16, 17, 23])
def test_codes_of_all_lengths(level: int, symbols: int) -> None:
    # Each symbol as often as the two before it together: with 17 and more the rarest would need too long codes.
    counts = [1, 1]
    while len(counts) < symbols:
        counts.append(counts[-1] + counts[-2])
    rng = np.random.default_rng(symbols)
    values = rng.permutation(np.repeat(rng.permutation(256)[:symbols].astype("u1"), counts))
    for data in (values.tobytes(), values[:4096].tobytes(), values[:600].tobytes()):
        assert gzip.decompress(codecs.get("gzip", level=level).encode(data)) == data


@pytest.mark.parametrize("level", range(4, 10))
def test_noise_beside_what_repeats(level: int) -> None:
    rng = np.random.default_rng(level)
    noise, rows = rng.poisson(300, 60_000).astype("<u2").tobytes(), np.repeat(rng.integers(0, 9, 500), 90).tobytes()
    codec = codecs.get("gzip", level=level)
    for parts in ((noise, rows), (rows, noise), (noise[:5000], rows, noise, rows)):
        data = b"".join(parts)
        stream = codec.encode(data)
        assert gzip.decompress(stream) == data
        # What was judged to be noise says nothing of what comes after it, nor of the next value.
        assert len(stream) <= 1.02 * sum(len(codec.encode(part)) for part in parts)
        assert codec.encode(data) == stream


@pytest.mark.parametrize("level", range(1, 10))
def test_noise_in_which_nothing_is_found(level: int) -> None:
    """What is passed over in noise makes nothing else larger: not what comes after it, and not what lies between."""
    rng = np.random.default_rng(level)
    noise = np.clip(rng.normal(120, 25, 260_000), 0, 255).astype("u1").tobytes()
    text = b" ".join(b"%d micrometres" % n for n in rng.integers(0, 999, 3000))
    codec = codecs.get("gzip", level=level)
    mixed = b"".join(noise[n : n + 20_000] + text[n % 9000 :][:4000] for n in range(0, 240_000, 20_000))
    # Slices that stand in for lost ones, and one that is all there is.
    slices = b"".join(noise[n : n + 4096] * (2 if n % 32_768 == 0 else 1) for n in range(0, 160_000, 4096))
    # What is repeated lies further back than what is looked at first.
    table = rng.random(10_000)[rng.integers(0, 10_000, 40_000)].tobytes()
    for data, most in (
        (noise, 1), (noise[:20_000], 1), (table, 1.03), (noise + text, 1.01), (text + noise, 1.01), (mixed, 1.01),
        (slices, 1.02), (noise[:9000] * 9, 1.1), (noise[:70_000] * 2, 1.01),
    ):  # fmt: skip
        stream = codec.encode(data)
        assert gzip.decompress(stream) == data
        assert len(stream) <= most * len(zlib.compress(data, level, 31))
        assert codecs.get("gzip", level=level).encode(data) == stream


def test_level_minus_one_is_six() -> None:
    assert codecs.get("gzip", level=-1).encode(DATA) == codecs.get("gzip", level=6).encode(DATA)
    assert codecs.get("gzip", level=-1).to_n5()["level"] == -1
    assert codecs.get("gzip", level=-1).to_zarr3() == {"name": "gzip", "configuration": {"level": 6}}


def test_members_are_one_stream() -> None:
    stream = gzip.compress(DATA) + gzip.compress(b"") + gzip.compress(b"end")
    codec = codecs.get("gzip")
    assert codec.decode(stream) == DATA + b"end"
    out = bytearray(len(DATA) + 3)
    assert codec.decode(stream, out=out) is out
    assert out == DATA + b"end"
    with pytest.raises(CorruptDataError, match="after the end"):
        codecs.from_neuroglancer("gzip").decode(stream)


def test_sniff_takes_either_framing() -> None:
    codec = codecs.get("gzip", sniff=True)
    assert codec.decode(zlib.compress(DATA)) == codec.decode(gzip.compress(DATA)) == DATA
    with pytest.raises(CorruptDataError):
        codecs.get("gzip").decode(zlib.compress(DATA))


@pytest.mark.parametrize("level", [-2, 10, "6", True, None, 1.5])
def test_wrong_levels(level: object) -> None:
    with pytest.raises(MetadataError, match=r"'level'.*from -1 to 9"):
        codecs.from_n5({"type": "gzip", "level": level}, "a/attributes.json")


# -- published streams ----------------------------------------------------------------------------------------------

SIX = bytes.fromhex("000100020003000400050006")
PUBLISHED = {
    "the N5 specification": "1f8b08000000000000006360646062606660616065600300aaea6dbf0c000000",
    "Java 4.0.2": "1f8b08000000000000ff6360646062606660616065600300aaea6dbf0c000000",
    "commons-compress, two members": (
        "1f8b08000000000000ff6360646062600600c70d2f1606000000"
        "1f8b08000000000000ff6360616065600300bd60eaab06000000"
    ),
}  # fmt: skip
JAVA_ZLIB = bytes.fromhex("785e636064606260666061606560030000670016")


@pytest.mark.parametrize("stored", PUBLISHED.values(), ids=PUBLISHED)
def test_published_gzip(stored: str) -> None:
    codec = codecs.get("gzip")
    assert codec.decode(bytes.fromhex(stored)) == SIX
    assert codec.decode(bytes.fromhex(stored), out=bytearray(12)) == SIX
    assert codecs.get("gzip", sniff=True).decode(bytes.fromhex(stored)) == SIX


def test_published_zlib() -> None:
    assert codecs.get("gzip", use_zlib=True).decode(JAVA_ZLIB) == SIX
    assert codecs.get("gzip", sniff=True).decode(JAVA_ZLIB) == SIX
    with pytest.raises(CorruptDataError):
        codecs.get("gzip").decode(JAVA_ZLIB)


def test_golden_bytes() -> None:
    """What zvcore writes stays as it is, as long as libdeflate's own choices do: no time, no name, system unknown."""
    stored = codecs.get("gzip").encode(SIX)
    assert stored[:10].hex() == "1f8b08000000000000ff"
    assert stored[-8:].hex() == "aaea6dbf0c000000"
    assert codecs.get("gzip", use_zlib=True).encode(SIX)[:2].hex() == "789c"
    assert codecs.get("gzip").encode(DATA) == codecs.get("gzip").encode(DATA)


def test_optional_header_fields() -> None:
    body = gzip.compress(DATA)[10:]
    for flags, fields in ((0x08, b"name\0"), (0x10, b"comment\0"), (0x04, b"\x03\x00abc"), (0x01, b"")):
        assert codecs.get("gzip").decode(bytes([0x1F, 0x8B, 8, flags, 1, 2, 3, 4, 0, 3]) + fields + body) == DATA


# -- malformed ------------------------------------------------------------------------------------------------------

GOOD = gzip.compress(DATA)
MALFORMED = {
    "nothing": b"",
    "one byte": b"\x1f",
    "a header alone": GOOD[:10],
    "cut off in the data": GOOD[: len(GOOD) // 2],
    "without its size": GOOD[:-4],
    "without its end": GOOD[:-8],
    "one byte short": GOOD[:-1],
    "another checksum": GOOD[:-8] + bytes([GOOD[-8] ^ 1]) + GOOD[-7:],
    "another size": GOOD[:-1] + bytes([GOOD[-1] ^ 1]),
    "another method": GOOD[:2] + b"\x07" + GOOD[3:],
    "reserved flags": GOOD[:3] + b"\xe0" + GOOD[4:],
    "a name without an end": GOOD[:3] + b"\x08" + b"x" * 6,
    "a block of type 3": GOOD[:10] + b"\x07" + GOOD[11:],
    "zeros behind": GOOD + bytes(8),
    "a byte behind": GOOD + b"\x1f",
    "half a member behind": GOOD + GOOD[: len(GOOD) // 2],
    "text": b"zvcore" * 10,
    "zlib": zlib.compress(DATA),
}


@pytest.mark.parametrize("stored", MALFORMED.values(), ids=MALFORMED)
def test_malformed(stored: bytes) -> None:
    codec: Any
    for codec in (codecs.get("gzip"), codecs.from_neuroglancer("gzip"), codecs.get("gzip", use_zlib=True)):
        if codec.use_zlib and stored == MALFORMED["zlib"]:
            continue
        for options in ({}, {"max_size": len(DATA)}, {"out": bytearray(len(DATA))}):
            with pytest.raises(CorruptDataError, match=r"^gzip: "):
                codec.decode(stored, **options)


def test_a_false_size() -> None:
    """The last four bytes are a hint: neither memory nor a result is taken from them."""
    member = gzip.compress(b"")
    for size in (1, 1 << 20, 2**31, 2**32 - 1):
        with pytest.raises(CorruptDataError):
            codecs.get("gzip").decode(member[:-4] + size.to_bytes(4, "little"))
    # Of several members, only the last one's size is at the end.
    assert codecs.get("gzip").decode(gzip.compress(bytes(1 << 20)) + member) == bytes(1 << 20)
    assert codecs.get("gzip").decode(gzip.compress(bytes(1 << 20)) * 20) == bytes(20 << 20)


class Plain(type(codecs.get("gzip"))):  # type: ignore[misc]
    """By the standard library."""

    def __zv_codec__(self) -> None:
        return None


@given(st.binary(max_size=300), st.integers(-1, 9), st.booleans(), st.data())
def test_native_and_standard_library_agree(data: bytes, level: int, use_zlib: bool, draw: st.DataObject) -> None:
    native, plain = (codecs.get("gzip").replace(level=level, use_zlib=use_zlib), Plain(level=level, use_zlib=use_zlib))
    data *= draw.draw(st.sampled_from([1, 1, 50]))
    stored = native.encode(data)
    assert plain.decode(stored) == native.decode(plain.encode(data)) == data
    damaged = bytearray(stored + stored)[: draw.draw(st.integers(0, 2 * len(stored)))]
    for at in draw.draw(st.lists(st.integers(0, max(0, len(damaged) - 1)), max_size=3)):
        if damaged:
            damaged[at] ^= 1 << draw.draw(st.integers(0, 7))
    results = []
    for codec in (native, plain):
        try:
            results.append(codec.decode(damaged, max_size=1 << 20))
        except CorruptDataError:
            results.append(None)
    assert results[0] == results[1]


@given(
    st.binary(min_size=1, max_size=40),
    st.lists(st.tuples(st.integers(1, 600), st.integers(3, 700)), max_size=40),
    st.binary(max_size=20),
)
def test_matches_of_all_offsets_and_lengths_are_copied_up_to_the_last_byte(
    begin: bytes, copies: list[tuple[int, int]], end: bytes
) -> None:
    data = bytearray(begin)
    for offset, length in copies:
        piece = data[-offset:]
        data += (piece * (length // len(piece) + 1))[:length]
    data += end
    codec = codecs.get("gzip")
    stored = gzip.compress(bytes(data), 9)
    # Behind the result lies what must stay as it is.
    out = np.full(len(data) + 300, 7, np.uint8)
    codec.decode(stored, out=out[: len(data)])
    assert bytes(out[: len(data)]) == bytes(data)
    assert set(out[len(data) :].tolist()) == {7}
    assert bytes(codec.decode(stored)) == bytes(data)


@given(
    st.integers(0, 70_000),
    st.integers(1, 12),
    st.sampled_from([1, 2, 4, 8]),
    st.integers(1, 400),
    st.sampled_from(range(10)),
    st.integers(0, 2**32 - 1),
)
def test_labels_of_any_size_come_back_from_every_level(
    size: int, ids: int, item: int, run: int, level: int, seed: int
) -> None:
    """Runs of ids, in rows like those before: matches of all lengths, to the last byte and over a window's end."""
    generator = np.random.default_rng(seed)
    known = generator.integers(0, 2**63, ids, np.uint64).view(np.uint8).reshape(ids, 8)[:, :item]
    row = np.repeat(generator.integers(0, ids, 40), generator.integers(1, run + 1, 40))
    labels = np.resize(row, size // item + 1)
    changed = generator.integers(0, len(labels), len(labels) // 300)
    labels[changed] = generator.integers(0, ids, len(changed))
    data = known[labels].tobytes()[:size]
    stored = codecs.get("gzip", level=level).encode(data)
    assert gzip.decompress(stored) == data
    assert bytes(codecs.get("gzip").decode(stored)) == data


def test_ten_threads_share_one_codec() -> None:
    codec = codecs.get("gzip")
    chunks = [bytes(np.random.default_rng(i).integers(0, 9, 20_000 + i, "u1")) for i in range(10)]
    stored = [gzip.compress(chunk) for chunk in chunks]
    barrier = threading.Barrier(10)

    def work(first: int) -> bool:
        barrier.wait()
        turns = [k % 10 for k in range(first, first + 30)]
        decoded = all(codec.decode(stored[i]) == chunks[i] for i in turns)
        return decoded and all(gzip.decompress(codec.encode(chunks[i])) == chunks[i] for i in turns)

    with ThreadPoolExecutor(10) as pool:
        assert all(pool.map(work, range(10)))
