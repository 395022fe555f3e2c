"""Floats as fpzip packs them: the encodings `fpzip`, and `kempressed`, which loses their last digits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import fpzip  # noqa: F401 - not here to be encoded with, but so that a missing library is told at once
import numpy as np

from zvcore.codecs import param
from zvcore.errors import MetadataError
from zvcore.precomputed.encodings import wrong_data
from zvcore.precomputed.guarded import encode_guarded
from zvcore.precomputed.guarded_encoding import GuardedChunk, GuardedEncoding

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Fpzip", "FpzipChunk", "Kempressed", "KempressedChunk"]

PRECISION = "fpzip_precision"


class FpzipChunk(GuardedChunk):
    name = "fpzip"

    precision: int = param(0, low=0, high=64)

    def _encode(self, data: memoryview) -> bytes:
        return encode_guarded(self.name, self._voxels(data), {"precision": self.precision})


class KempressedChunk(GuardedChunk):
    name = "kempressed"

    def _encode(self, data: memoryview) -> bytes:
        return encode_guarded(self.name, self._voxels(data), {})


class Fpzip(GuardedEncoding):
    name = "fpzip"
    chunk = FpzipChunk
    kinds = "f"
    holds = "float32"
    members = (PRECISION,)
    compressed = True

    def __init__(self, precision: Any = 0) -> None:
        if isinstance(precision, bool) or not isinstance(precision, int) or not 0 <= precision <= 64:
            raise MetadataError(f"{PRECISION} is wrong", expected="an integer from 0 to 64", found=repr(precision))
        self.precision = precision

    @classmethod
    def from_scale(cls, scale: Mapping[str, Any]) -> Self:
        return cls(scale.get(PRECISION, 0))

    def to_scale(self) -> dict[str, Any]:
        return {PRECISION: self.precision} if self.precision else {}

    @property
    def lossy(self) -> bool:
        return self.precision > 0

    @property
    def parameters(self) -> Mapping[str, Any]:
        return {"precision": self.precision}


class Kempressed(GuardedEncoding):
    name = "kempressed"
    chunk = KempressedChunk
    kinds = "f"
    holds = "float32"
    compressed = True
    lossy = True

    def check(self, dtype: np.dtype[Any], channels: int) -> None:
        if dtype != np.float32:
            raise wrong_data(self.name, "data type", self.holds, dtype)
