"""Shard indexes against zarr-python's files, and against damage."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import zarr
from zarr.codecs import BytesCodec, Crc32cCodec, ShardingCodec

from zvcore.errors import CorruptDataError, MetadataError, UnsupportedError
from zvcore.zarr3.shard_index import MISSING, ShardIndexForm

if TYPE_CHECKING:
    from pathlib import Path

LITTLE = {"name": "bytes", "configuration": {"endian": "little"}}
CRC = {"name": "crc32c"}


@pytest.mark.parametrize("location", ["start", "end"])
@pytest.mark.parametrize("checksum", [True, False])
def test_indexes_that_zarr_python_wrote(tmp_path: Path, location: Any, checksum: bool) -> None:
    codec = ShardingCodec(
        chunk_shape=(2, 3),
        codecs=[BytesCodec()],
        index_codecs=[BytesCodec(), Crc32cCodec()] if checksum else [BytesCodec()],
        index_location=location,
    )
    array = zarr.create_array(
        tmp_path / "a", shape=(8, 9), chunks=(8, 9), dtype="u1", serializer=codec, compressors=None, fill_value=0
    )
    array[2:6, 3:9] = np.arange(1, 25).reshape(4, 6)
    form = ShardIndexForm((4, 3), checksums=int(checksum), location=location)
    raw = (tmp_path / "a" / "c" / "0" / "0").read_bytes()
    index = raw[: form.size] if location == "start" else raw[-form.size :]
    offsets, lengths = form.parse(index, len(raw))
    for chunk in np.ndindex(4, 3):
        at = int(np.ravel_multi_index(chunk, (4, 3)))
        if 1 <= chunk[0] <= 2 and 1 <= chunk[1] <= 2:
            data = raw[int(offsets[at]) : int(offsets[at] + lengths[at])]
            assert data == array[2 * chunk[0] : 2 * chunk[0] + 2, 3 * chunk[1] : 3 * chunk[1] + 3].tobytes()
        else:
            assert offsets[at] == lengths[at] == MISSING
    assert form.build(offsets, lengths) == index
    assert ShardIndexForm.from_json(form.to_json(), (4, 3)) == form


def test_every_byte_counts() -> None:
    form = ShardIndexForm((2,))
    raw = form.build([0, MISSING], [10, MISSING])
    form.parse(raw, form.size + 10)
    for i in range(len(raw)):
        bad = bytearray(raw)
        bad[i] ^= 1
        with pytest.raises(CorruptDataError, match="checksum"):
            form.parse(bad, form.size + 10)
        with pytest.raises(CorruptDataError, match="too small"):
            form.parse(raw[:i], form.size + 10)
    with pytest.raises(CorruptDataError, match="too small"):
        form.parse(raw, form.size - 1)


@pytest.mark.parametrize("location", ["start", "end"])
@pytest.mark.parametrize(
    ("offset", "length"), [(0, 11), (11, 0), (2**63, 1), (5, 2**64 - 3), (MISSING, 3), (3, MISSING), (MISSING - 1, 1)]
)
def test_entries_that_leave_the_data(location: Any, offset: int, length: int) -> None:
    form = ShardIndexForm((2,), location=location)
    shift = form.size if location == "start" and offset < 2**32 else 0
    raw = form.build([MISSING, offset + shift], [MISSING, length])
    with pytest.raises(CorruptDataError, match="leaves the shard's data") as caught:
        form.parse(raw, form.size + 10, key="c/0")
    assert caught.value.chunk == (1,)
    assert caught.value.key == "c/0"
    inside = form.build([MISSING, 10 + (form.size if location == "start" else 0)], [MISSING, 0])
    form.parse(inside, form.size + 10)
    if location == "start":
        with pytest.raises(CorruptDataError):
            form.parse(form.build([0, MISSING], [4, MISSING]), form.size + 10)


@pytest.mark.parametrize(
    ("configuration", "error"),
    [
        ({}, MetadataError),
        ({"index_codecs": []}, MetadataError),
        ({"index_codecs": "bytes"}, MetadataError),
        ({"index_codecs": [CRC]}, UnsupportedError),
        ({"index_codecs": [{"name": "bytes"}]}, MetadataError),
        ({"index_codecs": ["bytes"]}, MetadataError),
        ({"index_codecs": [LITTLE, {"name": "zstd"}]}, UnsupportedError),
        ({"index_codecs": [LITTLE, 3]}, UnsupportedError),
        ({"index_codecs": [LITTLE], "index_location": "middle"}, MetadataError),
    ],
)
def test_configurations_that_cannot_be(configuration: dict, error: type[Exception]) -> None:
    with pytest.raises(error):
        ShardIndexForm.from_json(configuration, (2,))


def test_a_shard_of_absurd_size_is_refused() -> None:
    with pytest.raises(MetadataError):
        ShardIndexForm.from_json({"index_codecs": [LITTLE]}, (2**20, 2**20))
