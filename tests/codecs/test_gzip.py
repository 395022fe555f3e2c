"""The gzip codec against the standard library."""

from __future__ import annotations

import gzip
import zlib

import numpy as np
import pytest

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
