"""Segment labels packed block by block: the encoding `compressed_segmentation`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Self

from zvcore.codecs import Codec, param
from zvcore.errors import MetadataError
from zvcore.precomputed import _labels
from zvcore.precomputed.encodings import ChunkEncoding, wrong_data

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np

__all__ = ["CompressedSegmentation", "PackedLabels"]

BLOCK = "compressed_segmentation_block_size"


class PackedLabels(Codec):
    """Packs the labels of one chunk whose shape is known; `zvcore.kernels.compressed_segmentation` does the work."""

    name = "compressed_segmentation"

    shape: tuple[int, ...] = param((1, 1, 1, 1))
    block_size: tuple[int, ...] = param((8, 8, 8))
    itemsize: int = param(4, choices=(4, 8))

    def __zv_codec__(self) -> Any:
        return _labels.codec_table(self.shape, self.block_size, self.itemsize)


class CompressedSegmentation(ChunkEncoding):
    name = "compressed_segmentation"
    members = (BLOCK,)
    defaults: ClassVar[Mapping[str, Any]] = {BLOCK: [8, 8, 8]}

    def __init__(self, block_size: Sequence[int] = (8, 8, 8)) -> None:
        self.block_size = tuple(int(size) for size in block_size)
        # Larger blocks would make one block of a small chunk take many times the chunk's memory.
        if len(self.block_size) != 3 or any(not 0 < size <= 1024 for size in self.block_size):
            raise MetadataError(f"{BLOCK} is wrong", expected="three sizes from 1 to 1024", found=list(block_size))

    @classmethod
    def from_scale(cls, scale: Mapping[str, Any]) -> Self:
        block = scale.get(BLOCK)
        if not isinstance(block, list) or any(isinstance(size, bool) or not isinstance(size, int) for size in block):
            raise MetadataError(f"{BLOCK} is missing or wrong", expected="three integers", found=repr(block))
        return cls(block)

    def to_scale(self) -> dict[str, Any]:
        return {BLOCK: list(self.block_size)}

    def check(self, dtype: np.dtype[Any], channels: int) -> None:
        if dtype.kind != "u" or dtype.itemsize not in (4, 8):
            raise wrong_data(self.name, "data type", "uint32 or uint64", dtype)

    def codecs(self, shape: tuple[int, int, int, int], dtype: np.dtype[Any]) -> Sequence[Codec]:
        return (PackedLabels(shape=shape, block_size=self.block_size, itemsize=dtype.itemsize),)
