"""Numbers as zfp packs them, in a container of their own: the encoding `zfpc`."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Self

import zfpc

from zvcore.codecs import param
from zvcore.errors import MetadataError
from zvcore.precomputed.encodings import ChunkEncoding, wrong_data
from zvcore.precomputed.guarded import GuardedChunk, another_chunk

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np

    from zvcore.codecs import Codec

__all__ = ["Zfpc", "ZfpcChunk"]

_UNSET = -1.0
_NUMBERS = ("rate", "precision", "tolerance")
_CORRELATED = "zfpc_correlated_dims"
# The mark, a version, a byte of flags, four sizes.
_HEADER = struct.Struct("<4sBBIIII")


class ZfpcChunk(GuardedChunk):
    name = "zfpc"

    correlated: tuple[int, ...] = param((1, 1, 1, 1))
    rate: float = param(_UNSET)
    precision: float = param(_UNSET)
    tolerance: float = param(_UNSET)

    def check_header(self, data: memoryview) -> None:
        if len(data) < _HEADER.size:
            raise another_chunk(f"at least {_HEADER.size} bytes", len(data))
        mark, _, _, *sizes = _HEADER.unpack_from(data)
        if (mark, *sizes) != (b"zfpc", *self.shape):
            raise another_chunk((b"zfpc", *self.shape), (mark, *sizes))

    def _encode(self, data: memoryview) -> bytes:
        correlated = [bool(axis) for axis in self.correlated]
        return bytes(zfpc.compress(self._voxels(data), correlated, self.tolerance, self.precision, self.rate))


class Zfpc(ChunkEncoding):
    name = "zfpc"
    members = (*(f"zfpc_{name}" for name in _NUMBERS), _CORRELATED)
    compressed = True

    def __init__(self, numbers: Mapping[str, Any], correlated: Any = (True,) * 4) -> None:
        for name, value in numbers.items():
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                raise MetadataError(f"zfpc_{name} is wrong", expected="a number", found=repr(value))
        if not isinstance(correlated, (list, tuple)) or [type(one) for one in correlated] != [bool] * 4:
            raise MetadataError(f"{_CORRELATED} is wrong", expected="four booleans", found=repr(correlated))
        self.numbers = {name: float(value) for name, value in numbers.items() if value != _UNSET}
        if len(self.numbers) > 1:
            raise MetadataError("of zfpc_rate, zfpc_precision and zfpc_tolerance one can be given", found=self.numbers)
        self.correlated = tuple(correlated)

    @classmethod
    def from_scale(cls, scale: Mapping[str, Any]) -> Self:
        given = {name: scale[f"zfpc_{name}"] for name in _NUMBERS if f"zfpc_{name}" in scale}
        return cls(given, scale.get(_CORRELATED, (True,) * 4))

    def to_scale(self) -> dict[str, Any]:
        found: dict[str, Any] = {f"zfpc_{name}": value for name, value in self.numbers.items()}
        return found if all(self.correlated) else {**found, _CORRELATED: list(self.correlated)}

    @property
    def lossy(self) -> bool:
        return bool(self.numbers)

    def check(self, dtype: np.dtype[Any], channels: int) -> None:
        # Integers come back as floats, and large ones as others.
        if dtype.kind != "f":
            raise wrong_data(self.name, "data type", "float32", dtype)

    def codecs(self, shape: tuple[int, int, int, int], dtype: np.dtype[Any]) -> Sequence[Codec]:
        correlated = tuple(int(one) for one in self.correlated)
        return (ZfpcChunk(shape=shape, dtype=dtype.name, correlated=correlated, **self.numbers),)
