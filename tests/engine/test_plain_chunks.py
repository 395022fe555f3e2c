"""Chunks that a codec could not make smaller, and that lie in what is stored as they are: nothing is decoded."""

from __future__ import annotations

import ctypes
import os
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zvcore
from tests.codecs.tables import CORRUPT, OK, SPACE, UNKNOWN, answering, capsule
from zvcore import codecs
from zvcore.errors import CorruptDataError
from zvcore.testing.codecs import WITH_PARTS

if TYPE_CHECKING:
    from pathlib import Path

HEADER = 24
SHAPE = (64, 256, 512)  # large enough for neighbours to be moved together
VALUES = np.random.default_rng(5).integers(0, 256, SHAPE, np.uint8)


class Wrapped:
    """The functions of a table that puts a header before the bytes as they are, and counts what it decodes."""

    def __init__(self, at: int = HEADER) -> None:
        self.at = at
        self.decodings: list[int] = []

    @property
    def decoded(self) -> int:
        return len(self.decodings)

    def encode(self, cfg: Any, worker: Any, src: int, n: int, dst: int, cap: int, out_n: Any, err: Any) -> int:
        out_n[0] = n + HEADER
        if out_n[0] > cap:
            return SPACE
        ctypes.memset(dst, 0xEE, HEADER)
        ctypes.memmove(dst + HEADER, src, n)
        return OK

    def decode(self, cfg: Any, worker: Any, src: int, n: int, dst: int, cap: int, out_n: Any, err: Any) -> int:
        # Threads append at once, which loses none also where no global lock keeps them apart, as adding one would.
        self.decodings.append(n)
        out_n[0] = n - HEADER
        if out_n[0] > cap:
            return SPACE
        ctypes.memmove(dst, src + HEADER, n - HEADER)
        return OK

    def plain_at(self, cfg: Any, src: int, n: int, size: int) -> int:
        return self.at

    def table(self, **fields: Any) -> Any:
        functions = {"encode": self.encode, "decode": self.decode, "bound": lambda cfg, n: n + HEADER}
        return capsule(**{**functions, "plain_at": self.plain_at, **fields})


def written(path: Path, codec: Any = "fake", **options: Any) -> Any:
    options = {"dtype": "u1", "chunks": (32, 32, 32), "shards": (64, 64, 128), "codec": codec, **options}
    made = zvcore.create(path, format="zarr3", shape=SHAPE, **options)
    made[...] = VALUES
    return zvcore.open(path)


def test_such_chunks_are_taken_from_where_they_lie(use_table, tmp_path):
    fake = Wrapped()
    use_table(fake.table())
    array = written(tmp_path)
    assert np.array_equal(array[...], VALUES)
    assert np.array_equal(array[3:40, 1:100:3, 5:300], VALUES[3:40, 1:100:3, 5:300])
    assert fake.decoded == 0


@pytest.mark.parametrize("at", [UNKNOWN, HEADER + 1, 2**63, 2**64 - HEADER])
def test_a_place_that_is_not_in_what_is_stored_is_not_believed(use_table, tmp_path, at):
    fake = Wrapped(at)
    use_table(fake.table())
    assert np.array_equal(written(tmp_path)[...], VALUES)
    assert fake.decoded == VALUES.size // 32**3


def test_a_codec_that_finds_something_wrong_is_asked_to_decode_and_says_what(use_table, tmp_path):
    fake = Wrapped(UNKNOWN)
    use_table(fake.table())
    written(tmp_path)
    use_table(fake.table(decode=answering(CORRUPT, message=b"this is why\0")))
    with pytest.raises(CorruptDataError, match="this is why"):
        zvcore.open(tmp_path)[...]


def test_tables_that_end_before_it_are_not_asked(use_table, tmp_path):
    fake = Wrapped()
    use_table(fake.table(struct_size=WITH_PARTS))
    assert np.array_equal(written(tmp_path)[...], VALUES)
    assert fake.decoded == VALUES.size // 32**3


def test_what_another_codec_wrapped_is_decoded(use_table, tmp_path):
    fake = Wrapped()
    use_table(fake.table())
    array = written(tmp_path, ["fake", "crc32c"])
    assert np.array_equal(array[...], VALUES)
    assert fake.decoded == VALUES.size // 32**3


def test_values_of_the_other_byte_order_are_swapped_on_the_way(use_table, tmp_path):
    fake = Wrapped()
    use_table(fake.table())
    array = written(tmp_path, dtype=">u2")
    assert np.array_equal(array[...], VALUES)
    assert fake.decoded == 0


def test_such_chunks_of_blosc_are_converted_and_copied_as_others_are(tmp_path):
    codec = codecs.get("blosc", cname="lz4", shuffle="noshuffle")
    array = written(tmp_path / "a", codec)
    assert len(array.read_encoded((0, 0, 0))) == 32**3 + 16
    zvcore.convert(tmp_path / "a", tmp_path / "b", format="zarr3", codec="zstd")
    assert np.array_equal(zvcore.open(tmp_path / "b")[...], VALUES)


def test_a_chunk_of_any_size_is_not_too_large_for_itself(tmp_path: Path) -> None:
    zvcore.create(tmp_path / "a", format="zarr2", shape=(4,), dtype="u1", chunks=(2**61,), codec=None)
    (tmp_path / "a" / "0").touch()
    os.truncate(tmp_path / "a" / "0", 20 << 20)
    # Eight times its size is nothing, counted in 64 bits.
    with pytest.raises(CorruptDataError, match=f"wrong size .expected {2**61} bytes, found {20 << 20}"):
        zvcore.open(tmp_path / "a")[...]
