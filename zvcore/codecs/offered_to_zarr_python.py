"""Codecs of zvcore as zarr-python's registry of Zarr v3 holds them.

`zvcore.codecs.zarr_python` brings codecs in, this module takes them out.
"""

from __future__ import annotations

import asyncio
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from zarr.abc.codec import BytesBytesCodec
from zarr.errors import UnknownCodecError
from zarr.registry import get_codec_class, register_codec

from zvcore.codecs.offered import Offered, name_among, offered_class

if TYPE_CHECKING:
    from typing import Self

    from zarr.core.array_spec import ArraySpec
    from zarr.core.buffer import Buffer

    from zvcore.codecs.base import Codec

__all__ = ["class_of", "register"]


class OfferedCodec(Offered, BytesBytesCodec):
    """A codec of zvcore with its parameters: `Runs.for_zarr_python(longest=100)`."""

    def __init__(self, **parameters: Any) -> None:
        self._hold(self.codec_class(**parameters))

    def _hold(self, codec: Codec) -> None:
        # zarr-python's base class is frozen.
        object.__setattr__(self, "codec", codec)
        object.__setattr__(self, "is_fixed_size", codec.encoded_size(0) is not None)

    @classmethod
    def of(cls, codec: Codec) -> Self:
        made = cls.__new__(cls)
        made._hold(codec)
        return made

    @classmethod
    def from_dict(cls, data: Any) -> Self:
        return cls.of(cls.codec_class.from_zarr3(data))

    def to_dict(self) -> Any:
        return self.codec.to_zarr3()

    def evolve_from_array_spec(self, array_spec: ArraySpec) -> Self:
        return self.of(self.codec.for_dtype(array_spec.dtype.to_native_dtype()))

    def compute_encoded_size(self, input_byte_length: int, chunk_spec: ArraySpec) -> int:
        size = self.codec.encoded_size(input_byte_length)
        if size is None:
            raise NotImplementedError(f"{self.codec.name}: how long a stream becomes depends on what it holds")
        return size

    # zarr-python calls these two where it needs no event loop.
    def _decode_sync(self, chunk_data: Buffer, chunk_spec: ArraySpec) -> Buffer:
        return chunk_spec.prototype.buffer.from_bytes(self.codec.decode(chunk_data.as_numpy_array()))

    def _encode_sync(self, chunk_data: Buffer, chunk_spec: ArraySpec) -> Buffer | None:
        return chunk_spec.prototype.buffer.from_bytes(self.codec.encode(chunk_data.as_numpy_array()))

    async def _decode_single(self, chunk_data: Buffer, chunk_spec: ArraySpec) -> Buffer:
        return await asyncio.to_thread(self._decode_sync, chunk_data, chunk_spec)

    async def _encode_single(self, chunk_data: Buffer, chunk_spec: ArraySpec) -> Buffer | None:
        return await asyncio.to_thread(self._encode_sync, chunk_data, chunk_spec)

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild, (self.codec,))


@lru_cache(maxsize=256)
def class_of(cls: Any) -> type[OfferedCodec]:
    """The class for zarr-python, which finds it again as an attribute of the codec's own."""
    made: type[OfferedCodec] = offered_class(cls, "for_zarr_python", name_among(cls, "zarr3"), (OfferedCodec,))
    return made


def _rebuild(codec: Codec) -> OfferedCodec:
    cls: Any = type(codec)
    return class_of(cls).of(codec)


def register(cls: Any) -> str | None:
    """Make the codec known; returns its name in Zarr v3, or None if there is nothing to do."""
    name = name_among(cls, "zarr3")
    if name is None:
        return None
    try:
        get_codec_class(name)
    except (UnknownCodecError, KeyError):  # before zarr-python 3.2 the latter
        register_codec(name, class_of(cls))
        return name
    return None
