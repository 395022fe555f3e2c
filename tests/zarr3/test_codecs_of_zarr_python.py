"""Codecs that are in zarr-python's registry alone: arrays with them are read and written by zvcore too."""

from __future__ import annotations

import pickle
import zlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import zarr
from zarr.abc.codec import ArrayArrayCodec, ArrayBytesCodec, BytesBytesCodec
from zarr.core.dtype import UInt16
from zarr.registry import register_codec

import zvcore
from zvcore.codecs import from_zarr3
from zvcore.codecs.zarr_python import ZarrPythonCodec
from zvcore.errors import CodecNotFoundError, CorruptDataError, MetadataError, UnsupportedError

if TYPE_CHECKING:
    from pathlib import Path

VALUES = np.arange(200, dtype="u4").reshape(20, 10)
# Elsewhere, such classes come from distributions with entry points.
pytestmark = pytest.mark.filterwarnings("ignore::zarr.errors.ZarrUserWarning")


@dataclass(frozen=True)
class Less(ArrayArrayCodec):
    """Items of 16 bits, smaller by so much."""

    by: int = 0
    is_fixed_size = True

    @classmethod
    def from_dict(cls, data: Any) -> Less:
        return cls(**data.get("configuration", {}))

    def to_dict(self) -> Any:
        return {"name": "test.less", "configuration": {"by": self.by}}

    def resolve_metadata(self, chunk_spec: Any) -> Any:
        if chunk_spec.dtype.to_native_dtype() == np.dtype("f8"):
            raise ValueError("no floats")
        return replace(chunk_spec, dtype=UInt16(), fill_value=0)

    def compute_encoded_size(self, input_byte_length: int, chunk_spec: Any) -> int:
        return input_byte_length // 2

    async def _encode_single(self, chunk_data: Any, chunk_spec: Any) -> Any:
        values = chunk_data.as_numpy_array()
        return chunk_spec.prototype.nd_buffer.from_numpy_array((values - self.by).astype("u2"))

    async def _decode_single(self, chunk_data: Any, chunk_spec: Any) -> Any:
        values = chunk_data.as_numpy_array().astype(chunk_spec.dtype.to_native_dtype()) + self.by
        return chunk_spec.prototype.nd_buffer.from_numpy_array(values.astype("u4"))


@dataclass(frozen=True)
class Backwards(ArrayBytesCodec):
    """The bytes of all items from the last to the first."""

    is_fixed_size = True

    @classmethod
    def from_dict(cls, data: Any) -> Backwards:
        return cls()

    def to_dict(self) -> Any:
        return {"name": "test.backwards"}

    def compute_encoded_size(self, input_byte_length: int, chunk_spec: Any) -> int:
        return input_byte_length

    async def _encode_single(self, chunk_data: Any, chunk_spec: Any) -> Any:
        return chunk_spec.prototype.buffer.from_bytes(chunk_data.as_numpy_array().tobytes()[::-1])

    async def _decode_single(self, chunk_data: Any, chunk_spec: Any) -> Any:
        values = np.frombuffer(chunk_data.to_bytes()[::-1], chunk_spec.dtype.to_native_dtype())
        return chunk_spec.prototype.nd_buffer.from_numpy_array(values.reshape(chunk_spec.shape))


@dataclass(frozen=True)
class Deflated(BytesBytesCodec):
    """zlib by another name."""

    is_fixed_size = False

    @classmethod
    def from_dict(cls, data: Any) -> Deflated:
        return cls()

    def to_dict(self) -> Any:
        return {"name": "test.deflated"}

    def compute_encoded_size(self, input_byte_length: int, chunk_spec: Any) -> int:
        raise NotImplementedError

    async def _encode_single(self, chunk_data: Any, chunk_spec: Any) -> Any:
        return chunk_spec.prototype.buffer.from_bytes(zlib.compress(chunk_data.to_bytes()))

    async def _decode_single(self, chunk_data: Any, chunk_spec: Any) -> Any:
        return chunk_spec.prototype.buffer.from_bytes(zlib.decompress(chunk_data.to_bytes()))


register_codec("test.less", Less)
register_codec("test.backwards", Backwards)
register_codec("test.deflated", Deflated)

# What zarr-python is given, for each kind.
KINDS: dict[str, dict[str, Any]] = {
    "array": {"filters": [Less(3)], "compressors": None},
    "serializer": {"serializer": Backwards(), "compressors": None},
    "bytes": {"compressors": [Deflated()]},
    "all": {"filters": [Less(3)], "serializer": Backwards(), "compressors": [Deflated()]},
}


def made(path: Path, kind: str, shards: Any = None) -> Any:
    options: Any = {"shape": (20, 10), "chunks": (6, 4), "shards": shards, "dtype": "u4", "fill_value": 3}
    array = zarr.create_array(path, **options, **KINDS[kind])
    array[...] = VALUES + 3
    return array


@pytest.mark.parametrize("shards", [None, (12, 8)])
@pytest.mark.parametrize("kind", KINDS)
def test_both_ways_with_zarr_python(tmp_path: Path, kind: str, shards: Any) -> None:
    theirs = made(tmp_path, kind, shards)
    ours = zvcore.open(tmp_path, mode="r+")
    assert (ours[...] == VALUES + 3).all()
    assert (ours[3:17, ::3] == VALUES[3:17, ::3] + 3).all()
    ours[2:9, 1:5] = 77
    expected = VALUES + 3
    expected[2:9, 1:5] = 77
    assert (theirs[...] == expected).all()
    assert zvcore.verify(tmp_path).ok
    assert (pickle.loads(pickle.dumps(ours))[...] == expected).all()


@pytest.mark.parametrize("kind", KINDS)
def test_the_pipeline_leaves_them_to_zarr_python_and_says_so(tmp_path: Path, kind: str) -> None:
    made(tmp_path, kind)
    with zarr.config.set({"codec_pipeline.path": "zvcore.zarr3.CodecPipeline"}):
        array: Any = zarr.open_array(tmp_path)
        assert (array[...] == VALUES + 3).all()
        said = zvcore.zarr3.explain(array)
    assert "test." in said["reason"]


def test_damage_is_an_error_that_says_where(tmp_path: Path) -> None:
    made(tmp_path, "bytes")
    (tmp_path / "c" / "1" / "1").write_bytes(b"not deflated")
    with pytest.raises(CorruptDataError, match="deflated") as caught:
        zvcore.open(tmp_path)[...]
    assert (caught.value.key, caught.value.chunk) == ("c/1/1", (1, 1))
    made(tmp_path / "b", "serializer")
    (tmp_path / "b" / "c" / "0" / "2").write_bytes(b"four")
    with pytest.raises(CorruptDataError, match="backwards"):
        zvcore.open(tmp_path / "b")[...]


def test_what_they_refuse_is_an_error_of_ours(tmp_path: Path) -> None:
    with pytest.raises(MetadataError, match="less"):
        from_zarr3({"name": "test.less", "configuration": {"by": 3, "more": 4}})
    with pytest.raises(MetadataError, match="no floats"):
        filters = [{"name": "test.less", "configuration": {}}]
        zvcore.create(tmp_path, format="zarr3", shape=(4,), dtype="f8", chunks=(2,), filters=filters)[...] = 1
    with pytest.raises(UnsupportedError, match="N5"):
        from_zarr3({"name": "test.deflated"}).to_n5()
    with pytest.raises(CodecNotFoundError, match="unknown"):
        from_zarr3({"name": "test.unknown"})


def test_they_are_made_by_name_and_say_what_they_are() -> None:
    codec: Any = from_zarr3({"name": "test.less", "configuration": {"by": 3}})
    assert isinstance(codec, ZarrPythonCodec)
    assert codec.to_zarr3() == {"name": "test.less", "configuration": {"by": 3}}
    assert codec == from_zarr3(codec.to_zarr3())
    assert codec.decodes_alike(from_zarr3(codec.to_zarr3()))
    assert not codec.native
