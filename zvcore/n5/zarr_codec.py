"""`n5_default` for zarr-python: N5 blocks as the chunks of a Zarr v3 array.

Installed with zvcore it is found by its entry point. Where zarr-n5 is installed too, whose codec has the same name,
`zarr.config.set({"codecs.n5_default": "zvcore.n5.zarr_codec.N5Default"})` chooses this one.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from zarr.abc.codec import ArrayBytesCodec
from zarr.registry import register_codec

import zvcore.codecs
from zvcore.cached import cached_property
from zvcore.codecs import CodecChain
from zvcore.engine import Keys, Selection, Sources
from zvcore.engine.chunks import Chunks
from zvcore.engine.form import Form
from zvcore.engine.prepared import Prepared
from zvcore.engine.read import read_chunks
from zvcore.engine.sinks import Gathered
from zvcore.engine.work import Work
from zvcore.engine.write import encode_chunks
from zvcore.errors import MetadataError, UnsupportedError
from zvcore.layout import ChunkForm
from zvcore.n5._framing import framing

if TYPE_CHECKING:
    from typing import Self

    from zarr.core.array_spec import ArraySpec
    from zarr.core.buffer import Buffer, NDBuffer

__all__ = ["N5Default"]

_FRAMING = framing()


@dataclass(frozen=True)
class N5Default(ArrayBytesCodec):
    """An array of N5's blocks in default mode. `codecs` are a full transposition, big-endian bytes, one compression."""

    codecs: tuple[Any, ...]

    is_fixed_size = False

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        configuration = data.get("configuration")
        inner = configuration.get("codecs") if isinstance(configuration, dict) else None
        if data.get("name") != "n5_default" or not isinstance(inner, (list, tuple)):
            raise MetadataError("n5_default has a configuration with codecs", found=repr(data))
        codec = cls(tuple(inner))
        codec._check(None, None)
        return codec

    def to_dict(self) -> dict[str, Any]:
        return {"name": "n5_default", "configuration": {"codecs": list(self.codecs)}}

    def _check(self, ndim: int | None, itemsize: int | None) -> None:
        names = [one if isinstance(one, str) else one.get("name") for one in self.codecs]
        if names[:2] != ["transpose", "bytes"] or len(names) > 3:
            raise MetadataError("n5_default holds transpose, bytes, and at most one compression", found=names)
        order = self.codecs[0].get("configuration", {}).get("order") if isinstance(self.codecs[0], dict) else None
        if not isinstance(order, (list, tuple)) or list(order) != list(range(len(order)))[::-1]:
            raise MetadataError("n5_default transposes all axes", found=repr(order))
        if ndim is not None and len(order) != ndim:
            raise MetadataError("n5_default transposes all axes", expected=ndim, found=len(order))
        endian = self.codecs[1].get("configuration", {}).get("endian") if isinstance(self.codecs[1], dict) else None
        if endian not in (None, "big") or (endian is None and itemsize is not None and itemsize > 1):
            raise MetadataError("n5_default has big-endian items", found=repr(endian))

    @cached_property
    def chain(self) -> CodecChain:
        return CodecChain([zvcore.codecs.from_zarr3(one) for one in self.codecs[2:]])

    def evolve_from_array_spec(self, array_spec: ArraySpec) -> Self:
        dtype = array_spec.dtype.to_native_dtype()
        if dtype.kind not in "iuf" or dtype.itemsize not in (1, 2, 4, 8) or (dtype.kind == "f" and dtype.itemsize == 2):
            raise UnsupportedError("N5 has no such data type", found=dtype)
        self._check(len(array_spec.shape), dtype.itemsize)
        return self

    def _form(self, spec: ArraySpec) -> tuple[Form, Selection]:
        dtype = spec.dtype.to_native_dtype().newbyteorder("=")
        axes = tuple(reversed(range(len(spec.shape))))
        form = ChunkForm(spec.shape, dtype, bool(np.little_endian), axes, edge="framed", padded=True)
        # Also what lies beyond a cropped block is the fill value.
        return Form(form, spec.shape, spec.fill_value, _FRAMING), Selection.basic(..., spec.shape)

    def _decode(self, data: memoryview, spec: ArraySpec) -> npt.NDArray[Any]:
        form, selection = self._form(spec)
        out = np.empty(spec.shape, spec.dtype.to_native_dtype().newbyteorder("="), order="F")
        position = np.zeros((1, len(spec.shape)), np.int64)
        sources = Sources(keys=Keys.of(["block"]), blobs=[data])
        read_chunks(Chunks(Prepared(form, (self.chain,)), position, sources), selection, out, Work(1))
        return out

    def _encode(self, values: npt.NDArray[Any], spec: ArraySpec) -> memoryview:
        form, selection = self._form(spec)
        values = np.asarray(values, spec.dtype.to_native_dtype().newbyteorder("="))
        position = np.zeros((1, len(spec.shape)), np.int64)
        gathered = Gathered(1)
        gathered.store_empty = True
        encode_chunks(Chunks(Prepared(form, (self.chain,)), position), selection, values, gathered, Work(1))
        block = gathered.chunks[0]
        assert block is not None
        return block

    async def _decode_single(self, chunk_data: Buffer, chunk_spec: ArraySpec) -> NDBuffer:
        data = memoryview(chunk_data.to_bytes())
        values = await asyncio.to_thread(self._decode, data, chunk_spec)
        return chunk_spec.prototype.nd_buffer.from_numpy_array(values)

    async def _encode_single(self, chunk_data: NDBuffer, chunk_spec: ArraySpec) -> Buffer | None:
        values = chunk_data.as_numpy_array()
        return chunk_spec.prototype.buffer.from_bytes(bytes(await asyncio.to_thread(self._encode, values, chunk_spec)))

    def compute_encoded_size(self, input_byte_length: int, chunk_spec: ArraySpec) -> int:
        raise NotImplementedError("how large a compressed block is shows only when it is made")


# For programs that import this module where the entry point is not found, as in an environment installed before it.
register_codec("n5_default", N5Default)
