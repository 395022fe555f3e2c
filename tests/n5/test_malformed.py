"""Broken blocks: each its own clear error, with file and offset, and no memory taken for what a header claims."""

import json
import resource

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import zvcore
from tests.examples import examples
from zvcore.errors import CorruptDataError, ZvcoreError
from zvcore.stores import MemoryStore

HEADER = "00000003000000010000000200000003"
RAW = HEADER + "000100020003000400050006"


def dataset(store, compression="raw", dtype="uint16", shape=(1, 2, 3), **options):
    document = {"dimensions": shape, "blockSize": shape, "dataType": dtype, "compression": {"type": compression}}
    store.put("attributes.json", json.dumps(document).encode())
    return zvcore.open(store, mode="r+", format="n5", **options)


GZIP = HEADER + "1f8b08000000000000006360646062606660616065600300aaea6dbf0c000000"
LZ4 = (
    HEADER
    + "4c5a34426c6f636b160c0000000c00000090258b060001000200030004000500064c5a34426c6f636b16000000000000000000000000"
)

# name: (compression, block, offset of the error, a part of its text)
TABLE = {
    "empty file": ("raw", "", 0, "cut short: expected at least 4 bytes, found 0"),
    "one byte": ("raw", "00", 1, "cut short"),
    "header cut": ("raw", HEADER[:-2], 15, "cut short: expected at least 16 bytes, found 15"),
    "unknown mode": ("raw", "0003" + RAW[4:], 0, "unknown block mode: expected 0, 1 or 2, found 3"),
    "two dimensions": ("raw", "0000" + "0002" + RAW[8:], 2, "number of dimensions: expected 3, found 2"),
    "65535 dimensions": ("raw", "0000ffff" + RAW[8:], 2, "expected 3, found 65535"),
    "object mode": ("raw", "0002000000030a141e", 0, "object mode.*read_block"),
    "variable length": ("raw", "0001" + HEADER[4:] + "00000002" + "00010002", 0, "2 elements for 6 places"),
    "variable length, cut": ("raw", "0001" + HEADER[4:] + "0000", 18, "expected at least 20 bytes, found 18"),
    "short payload": ("raw", RAW[:-2], 16, r"wrong size \(expected 12 bytes, found 11\)"),
    "no payload": ("raw", HEADER, 16, r"expected 12 bytes, found 0"),
    "trailing byte": ("raw", RAW + "00", 16, r"expected 12 bytes, found 13"),
    "terabytes": ("raw", "00000003" + 3 * "ffffffff" + RAW[32:], 0, "does not fit|more data than a block"),
    "gigabytes": ("raw", "00000003" + 3 * "00000fff" + RAW[32:], 0, "more data than a block of this array can hold"),
    "terabytes of gzip": ("gzip", "00000003" + 3 * "00100000" + GZIP[32:], 0, "does not fit|more data than a block"),
    "dimensions too small": ("gzip", "00000003000000010000000200000002" + GZIP[32:], 16, "long|size|8"),
    "dimensions too large": ("gzip", "00000003000000010000000200000004" + GZIP[32:], 16, "expected 16"),
    "gzip cut": ("gzip", GZIP[:-10], 16, "gzip"),
    "gzip checksum": ("gzip", GZIP.replace("aaea6dbf", "aaea6dbe"), 16, "gzip"),
    "gzip and more": ("gzip", GZIP + "00", 16, "gzip.*after the end"),
    "no gzip": ("gzip", RAW, 16, "gzip"),
    "lz4 checksum": ("lz4", LZ4.replace("90258b06", "91258b06"), 16, "lz4.*checksum"),
    "lz4 without end mark": ("lz4", LZ4[:-42], 16, "lz4.*end"),
    "lz4 of terabytes": ("lz4", LZ4.replace("0c0000000c000000", "0c000000ffffff7f"), 16, "lz4"),
    "no xz": ("xz", RAW, 16, "xz"),
    "no bzip2": ("bzip2", RAW, 16, "bzip2"),
    "no zstd": ("zstd", RAW, 16, "zstd"),
    "no blosc": ("blosc", RAW, 16, "blosc"),
}


@pytest.mark.parametrize("kind", ["memory", "files"])
@pytest.mark.parametrize("name", TABLE)
def test_table(name, kind, tmp_path):
    compression, block, offset, text = TABLE[name]
    store = MemoryStore() if kind == "memory" else zvcore.stores.LocalStore(tmp_path)
    array = dataset(store, compression)
    store.put("0/0/0", bytes.fromhex(block))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    reads = [lambda: array[...], lambda: array[0, 0, 0], lambda: array.__setitem__((0, 0, 0), 1)]
    if "object" not in name and name != "variable length":
        reads.append(lambda: array.read_block((0, 0, 0)))
    for read in reads:
        with pytest.raises(CorruptDataError, match=text) as caught:
            read()
        assert caught.value.key == "0/0/0"
        assert caught.value.chunk == (0, 0, 0)
        assert caught.value.offset == offset
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000
    # The block is as it was.
    assert bytes(store.get("0/0/0")).hex() == block
    # Whole blocks can be replaced without a look at what was there.
    array[...] = 4
    assert (array[...] == 4).all()


MODES = {
    "no values": (
        "uint16",
        "raw",
        "0001000300000001000000020000000300000002" + "0001",
        20,
        "expected 4 bytes, found 2",
    ),
    "trailing": (
        "uint16",
        "raw",
        "0001000300000001000000020000000300000001" + "000100",
        20,
        r"expected 2 bytes, found 3",
    ),
    "gigabytes": ("uint64", "raw", "00010003000000010000000200000003ffffffff" + "0001", 16, "more data than a block"),
    "gigabytes of gzip": (
        "uint8",
        "gzip",
        "000100030000000100000002000000037fffffff" + GZIP[32:],
        20,
        r"expected 2147483647 bytes, found 12",
    ),
    "strings without end": ("string", "raw", "000100030000000100000002000000030000000261" + "62", 20, "end with NUL"),
    "strings not UTF-8": ("string", "raw", "0001000300000001000000020000000300000002ff" + "00", 20, "not UTF-8"),
    "object cut": ("object", "raw", "0002000000040a141e", 6, "expected 4 bytes, found 3"),
    "object header cut": ("object", "raw", "000200", 3, "cut short"),
    "object of gigabytes": ("object", "raw", "0002ffffffff0a141e", 2, "more data than a block"),
}


@pytest.mark.parametrize("name", MODES)
def test_other_modes(name):
    dtype, compression, block, offset, text = MODES[name]
    store = MemoryStore()
    array = dataset(store, compression, dtype)
    store.put("0/0/0", bytes.fromhex(block))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(CorruptDataError, match=text) as caught:
        array.read_block((0, 0, 0))
    assert caught.value.key == "0/0/0"
    assert caught.value.chunk == (0, 0, 0)
    assert caught.value.offset == offset
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000


def test_trailing_bytes_when_asked():
    store = MemoryStore()
    dataset(store)
    store.put("0/0/0", bytes.fromhex(RAW + "ffff"))
    array = zvcore.open(store, format="n5", strict=False)
    assert array[...].ravel("F").tolist() == [1, 2, 3, 4, 5, 6]
    assert array.read_block((0, 0, 0)).ravel("F").tolist() == [1, 2, 3, 4, 5, 6]
    # What is missing is missing all the same.
    store.put("0/0/0", bytes.fromhex(RAW[:-2]))
    with pytest.raises(CorruptDataError, match="wrong size"):
        array[...]


def test_one_broken_block_among_many():
    store = MemoryStore()
    array = dataset(store, shape=(8, 8))
    document = array.get_attribute("")
    store.put("attributes.json", json.dumps({**document, "blockSize": [1, 1]}).encode())
    array = zvcore.open(store, mode="r+", format="n5")
    array[...] = 1
    store.put("3/5", b"\0\7")
    with pytest.raises(CorruptDataError) as caught:
        array[...]
    assert (caught.value.key, caught.value.chunk) == ("3/5", (3, 5))
    assert array[:3].all()


@examples(300)
@given(
    st.sampled_from(["raw", "gzip", "bzip2", "xz", "lz4", "blosc", "zstd"]),
    st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), min_size=1, max_size=4),
    st.integers(0, 40),
)
def test_damaged_anyhow(compression, changes, cut):
    """Any bytes give values or an error of ours."""
    store = MemoryStore()
    array = dataset(store, compression)
    array[...] = np.arange(6, dtype=np.uint16).reshape(1, 2, 3) + 1
    block = bytearray(store.get("0/0/0"))
    for at, value in changes:
        block[at % len(block)] = value
    store.put("0/0/0", bytes(block[: len(block) - cut]) if cut < len(block) else b"")
    for read in (lambda: array[...], lambda: array.read_block((0, 0, 0))):
        caught = None
        try:
            read()
        except ZvcoreError as error:
            caught = error
        assert caught is None or "0/0/0" in str(caught)
