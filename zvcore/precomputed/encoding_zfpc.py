"""Numbers as zfp packs them, in a container of their own: the encoding `zfpc`."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Self

import zfpc

from zvcore.codecs import param
from zvcore.errors import MetadataError
from zvcore.precomputed.guarded_encoding import GuardedChunk, GuardedEncoding

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Zfpc", "ZfpcChunk"]

_UNSET = -1.0
_NUMBERS = ("rate", "precision", "tolerance")
_CORRELATED = "zfpc_correlated_dims"


class ZfpcChunk(GuardedChunk):
    name = "zfpc"
    # The mark, a version, a byte of flags, four sizes.
    header = struct.Struct("<4sBBIIII")

    correlated: tuple[int, ...] = param((1, 1, 1, 1))
    rate: float = param(_UNSET)
    precision: float = param(_UNSET)
    tolerance: float = param(_UNSET)

    def facts(self, members: tuple[Any, ...]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        mark, _, _, *sizes = members
        return (b"zfpc", *self.shape), (mark, *sizes)

    def _encode(self, data: memoryview) -> bytes:
        correlated = [bool(axis) for axis in self.correlated]
        return bytes(zfpc.compress(self._voxels(data), correlated, self.tolerance, self.precision, self.rate))


class Zfpc(GuardedEncoding):
    """Integers would come back as floats, and large ones as others."""

    name = "zfpc"
    chunk = ZfpcChunk
    kinds = "f"
    holds = "float32"
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

    @property
    def parameters(self) -> Mapping[str, Any]:
        return {"correlated": tuple(int(one) for one in self.correlated), **self.numbers}
