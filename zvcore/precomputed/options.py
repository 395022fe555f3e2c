"""The options of new volumes, for type checkers: `zvcore.precomputed.creating.create_volume` tells of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from zvcore.options import BoxedCreation, Opening

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zvcore.precomputed.encodings import ChunkEncoding
    from zvcore.precomputed.sharding_spec import ShardingSpec

__all__ = ["OpenOptions", "VolumeOptions"]


class EncodingOptions(BoxedCreation, total=False):
    """The parameters of the chunk encodings that come with zvcore. An encoding of others is given as an object."""

    encoding: str | ChunkEncoding
    lossless: bool
    compressed_segmentation_block_size: Sequence[int]
    jpeg_quality: int
    png_level: int
    jxl_quality: int
    jxl_effort: int
    jxl_decodingspeed: int
    fpzip_precision: int
    zfpc_rate: float
    zfpc_precision: float
    zfpc_tolerance: float
    zfpc_correlated_dims: Sequence[bool]


class VolumeOptions(EncodingOptions, total=False):
    shards: Sequence[int] | None
    voxel_offset: Sequence[int]
    resolution: Sequence[float]
    type: Literal["image", "segmentation"] | None
    key: str | None
    sharding: ShardingSpec | Mapping[str, Any] | str | None
    mesh: str | None
    skeletons: str | None
    segment_properties: str | None
    write_empty_chunks: bool


class OpenOptions(Opening, total=False):
    """What arrays that are there are opened with."""

    scale: int | str | None
    threads: int | None
    write_empty_chunks: bool
