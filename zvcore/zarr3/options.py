"""The options of new arrays of Zarr v3, for type checkers: `zvcore.zarr3.creating.create_array` tells of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from zvcore.options import Creation, OneCodec, Opening

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["ArrayOptions", "OpenOptions"]


class ArrayOptions(Creation, total=False):
    # Along an axis also a list of lengths, and of [length, count].
    chunks: Sequence[int | Sequence[int | Sequence[int]]] | int | None
    shards: Sequence[int | Sequence[int | Sequence[int]]] | int | None
    filters: Sequence[OneCodec] | None
    endian: Literal["little", "big"]
    index_location: Literal["start", "end"]
    index_codecs: Sequence[str | Mapping[str, Any]] | None
    dimension_names: Sequence[str | None] | None
    chunk_key_encoding: str | Mapping[str, Any]
    write_empty_chunks: bool
    write_mode: Literal["rewrite", "append", "inplace"]
    order_in_shard: Literal["C", "morton"]
    dead_bytes_threshold: float


class OpenOptions(Opening, total=False):
    """What arrays that are there are opened with."""

    threads: int | None
    write_empty_chunks: bool
    write_mode: Literal["rewrite", "append", "inplace"]
    order_in_shard: Literal["C", "morton"]
    dead_bytes_threshold: float
