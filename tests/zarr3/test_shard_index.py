"""Shard indexes against zarr-python's files, and against damage."""

from __future__ import annotations

import pickle
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import zarr
from zarr.codecs import BytesCodec, Crc32cCodec, ShardingCodec

import zvcore
from zvcore.errors import CodecNotFoundError, CorruptDataError, MetadataError, UnsupportedError
from zvcore.zarr3._entries import look_up
from zvcore.zarr3.shard_index import MISSING, Index, ShardIndexForm

if TYPE_CHECKING:
    from pathlib import Path

LITTLE = {"name": "bytes", "configuration": {"endian": "little"}}
CRC = {"name": "crc32c"}
TRANSPOSE = {"name": "transpose", "configuration": {"order": [1, 0]}}


def numcodec(name: str, **configuration: Any) -> dict[str, Any]:
    return {"name": f"numcodecs.{name}", "configuration": configuration}


# Chains beyond bytes and crc32c, and how many bytes each makes of the index of a shard of 4 x 3 chunks (192 bytes).
GENERAL: dict[str, tuple[list[Any], int]] = {
    "transposed": ([{"name": "transpose", "configuration": {"order": [2, 0, 1]}}, LITTLE, CRC], 196),
    "transposed big": (
        [
            {"name": "transpose", "configuration": {"order": [1, 2, 0]}},
            {"name": "bytes", "configuration": {"endian": "big"}},
        ],
        192,
    ),
    "old name": ([{"name": "endian", "configuration": {"endian": "little"}}, CRC], 196),
    "checksum of numcodecs": ([LITTLE, numcodec("crc32"), CRC], 200),
    "shuffled": ([LITTLE, numcodec("shuffle", elementsize=8), CRC], 196),
    "filtered": ([numcodec("delta", dtype="<u8"), LITTLE, CRC], 196),
}


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


def test_the_index_of_one_chunk_may_lie_at_any_address() -> None:
    form = ShardIndexForm((1,))
    raw = memoryview(b"x" + form.build([3], [10]))[1:]
    for column in form.read(raw):
        assert column.flags.aligned and column.flags.owndata


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
        ({"index_codecs": [LITTLE, 3]}, MetadataError),
        ({"index_codecs": [TRANSPOSE]}, MetadataError),
        ({"index_codecs": [{"name": "transpose", "configuration": {"order": [0]}}, LITTLE]}, MetadataError),
        ({"index_codecs": [{"name": "vlen-bytes"}]}, MetadataError),
        (
            {
                "index_codecs": [
                    {
                        "name": "sharding_indexed",
                        "configuration": {"chunk_shape": [1, 1], "codecs": [LITTLE], "index_codecs": [LITTLE]},
                    }
                ]
            },
            UnsupportedError,
        ),
        ({"index_codecs": [LITTLE, {"name": "no such codec"}]}, CodecNotFoundError),
        ({"index_codecs": [LITTLE], "index_location": "middle"}, MetadataError),
    ],
)
def test_configurations_that_cannot_be(configuration: dict, error: type[Exception]) -> None:
    with pytest.raises(error):
        ShardIndexForm.from_json(configuration, (2,))


def test_a_shard_of_absurd_size_is_refused() -> None:
    with pytest.raises(MetadataError):
        ShardIndexForm.from_json({"index_codecs": [LITTLE]}, (2**20, 2**20))


@pytest.mark.parametrize("location", ["start", "end"])
@pytest.mark.parametrize("name", GENERAL)
def test_other_codecs_of_fixed_size(name: str, location: Any) -> None:
    codecs, size = GENERAL[name]
    form = ShardIndexForm.from_json({"index_codecs": codecs, "index_location": location}, (4, 3))
    assert form.size == size
    assert form.to_json() == {"index_codecs": codecs, "index_location": location}
    again = pickle.loads(pickle.dumps(form))
    assert again == form == ShardIndexForm.from_json(form.to_json(), (4, 3))
    assert hash(again) == hash(form)
    shift = size if location == "start" else 0
    offsets = np.array([shift + 10 * i if i % 3 else MISSING for i in range(12)], np.uint64)
    lengths = np.array([i if i % 3 else MISSING for i in range(12)], np.uint64)
    raw = form.build(offsets, lengths)
    assert len(raw) == size
    found = form.parse(raw, size + 130)
    np.testing.assert_array_equal(found[0], offsets)
    np.testing.assert_array_equal(found[1], lengths)
    for cut in (raw[:-1], b"", raw + b"x"):
        with pytest.raises(CorruptDataError, match="too small"):
            form.parse(cut, size + 130)
    if CRC in codecs:
        for i in range(0, size, 7):
            bad = bytearray(raw)
            bad[i] ^= 1
            with pytest.raises(CorruptDataError, match="c/0") as caught:
                form.parse(bad, size + 130, key="c/0")
            assert caught.value.length == size
    with pytest.raises(CorruptDataError, match="leaves the shard's data") as caught:
        form.parse(raw, size + 110)
    assert caught.value.chunk == (3, 2)


@pytest.mark.filterwarnings("ignore:Numcodecs codecs are not")
@pytest.mark.parametrize("name", ["transposed", "transposed big", "checksum of numcodecs"])
@pytest.mark.parametrize("location", ["start", "end"])
def test_other_index_codecs_with_zarr_python(tmp_path: Path, name: str, location: str) -> None:
    values = np.arange(1, 17 * 14 + 1, dtype="u2").reshape(17, 14)
    ours = zvcore.create(
        tmp_path, format="zarr3", shape=(17, 14), dtype="u2", chunks=(2, 3), shards=(8, 9), codec="gzip",
        index_codecs=GENERAL[name][0], index_location=location,
    )  # fmt: skip
    ours[...] = values
    theirs = zarr.open_array(tmp_path, mode="r+")
    np.testing.assert_array_equal(theirs[...], values)
    theirs[3:9, 2:11] = values[3:9, 2:11] = 7
    ours[4, 5] = values[4, 5] = 8
    np.testing.assert_array_equal(ours[...], values)
    np.testing.assert_array_equal(theirs[...], values)


def test_places_of_several_shards_are_looked_up_in_their_indexes() -> None:
    one = Index(np.array([10, 20], np.uint64), np.array([1, 2], np.uint64), None, 0)
    other = Index(np.array([30], np.uint64), np.array([3], np.uint64), None, 0)
    which, slots = np.array([2, 0, 1, 0], np.int32), np.array([0, 1, 5, 0])
    offsets, lengths = np.full(4, 7, np.uint64), np.full(4, 8, np.uint64)
    look_up([one, None, other], which, slots, offsets, lengths)
    assert (offsets.tolist(), lengths.tolist()) == ([30, 20, 7, 10], [3, 2, 8, 1])
    for shard, slot in ((0, 2), (2, 1), (0, -1), (3, 0), (-1, 0)):
        with pytest.raises(IndexError, match="no place"):
            look_up([one, None, other], np.array([shard], np.int32), np.array([slot]), offsets[:1], lengths[:1])
    with pytest.raises(ValueError, match="lengths"):
        look_up([one], which, slots, offsets[:3], lengths)


def test_a_form_from_another_process_is_the_same() -> None:
    form = ShardIndexForm((2, 3), checksums=0)
    code = (
        "import pickle, sys; from zvcore.zarr3.shard_index import ShardIndexForm;"
        "form = ShardIndexForm((2, 3), checksums=0); hash(form); sys.stdout.buffer.write(pickle.dumps(form))"
    )
    other = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True).stdout
    assert {pickle.loads(other): 1}[form] == 1
