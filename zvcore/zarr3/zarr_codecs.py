"""Codecs of zarr-python that decode with ours, for its own pipeline.

numcodecs believes what a stream says of its length: of a blosc chunk that was cut, it decodes whatever lies behind it
in memory. Our codecs hold such claims against the bytes that are there, and bound what a stream may unpack to.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from zarr.abc.codec import BytesBytesCodec
from zarr.codecs._v2 import V2Codec
from zarr.core.buffer import cpu

import zvcore.codecs
from zvcore.errors import ZvcoreError

if TYPE_CHECKING:
    from zarr.abc.codec import Codec as ZarrCodec
    from zarr.core.array_spec import ArraySpec
    from zarr.core.buffer import Buffer

__all__ = ["decoding_with_ours"]


def decoding_with_ours(codec: ZarrCodec) -> ZarrCodec:
    """This codec, or one that differs from it only in what decodes: where we have one that does it in C."""
    if isinstance(codec, V2Codec):
        filters = None if codec.filters is None else tuple(map(_of_version_2, codec.filters))
        return replace(codec, filters=filters, compressor=_of_version_2(codec.compressor))
    if isinstance(codec, BytesBytesCodec) and type(codec).__module__.startswith("zarr."):
        ours = _ours(codec.to_dict())
        return codec if ours is None else BytesCodec(codec, ours)
    return codec


def _of_version_2(theirs: Any) -> Any:
    if not type(theirs).__module__.startswith("numcodecs."):
        return theirs
    configuration = dict(theirs.get_config())
    ours = _ours({"name": f"numcodecs.{configuration.pop('id', None)}", "configuration": configuration})
    return theirs if ours is None else NumcodecsCodec(theirs, ours)


def _ours(written: Any) -> zvcore.codecs.Codec | None:
    try:
        codec = zvcore.codecs.from_zarr3(written)
    except ZvcoreError:
        return None
    return codec if codec.native else None


@dataclass(frozen=True)
class NumcodecsCodec:
    """A compressor or filter of a Zarr v2 array."""

    theirs: Any
    ours: zvcore.codecs.Codec

    @property
    def codec_id(self) -> str:
        return str(self.theirs.codec_id)

    def get_config(self) -> Any:
        return self.theirs.get_config()

    def encode(self, data: Any) -> Any:
        return self.theirs.encode(data)

    def decode(self, data: Any, out: Any = None) -> Any:
        return self.ours.decode(data, out)


@dataclass(frozen=True)
class BytesCodec(BytesBytesCodec):
    """A codec of a Zarr v3 array."""

    theirs: BytesBytesCodec
    ours: zvcore.codecs.Codec

    @property
    def is_fixed_size(self) -> bool:  # type: ignore[override]
        return self.theirs.is_fixed_size

    def to_dict(self) -> Any:
        return self.theirs.to_dict()

    def evolve_from_array_spec(self, array_spec: ArraySpec) -> BytesCodec:
        return replace(self, theirs=self.theirs.evolve_from_array_spec(array_spec))

    def resolve_metadata(self, chunk_spec: ArraySpec) -> ArraySpec:
        return self.theirs.resolve_metadata(chunk_spec)

    def validate(self, **what: Any) -> None:
        self.theirs.validate(**what)

    def compute_encoded_size(self, input_byte_length: int, chunk_spec: ArraySpec) -> int:
        return self.theirs.compute_encoded_size(input_byte_length, chunk_spec)

    async def _encode_single(self, chunk_data: Buffer, chunk_spec: ArraySpec) -> Buffer | None:
        return await self.theirs._encode_single(chunk_data, chunk_spec)

    async def _decode_single(self, chunk_data: Buffer, chunk_spec: ArraySpec) -> Buffer:
        if not isinstance(chunk_data, cpu.Buffer):
            return await self.theirs._decode_single(chunk_data, chunk_spec)
        decoded = await asyncio.to_thread(self.ours.decode, chunk_data.as_numpy_array())
        return chunk_spec.prototype.buffer.from_bytes(decoded)
