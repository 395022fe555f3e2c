"""The options of new arrays of Zarr v2, for type checkers: `zvcore.zarr2.creating.create_array` tells of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from zvcore.options import BoxedCreation, Codecs, Opening

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["ArrayOptions", "OpenOptions"]


class ArrayOptions(BoxedCreation, total=False):
    filters: Codecs
    order: Literal["C", "F"]
    endian: Literal["little", "big"] | None
    dimension_separator: Literal[".", "/"]
    dimension_names: Sequence[str] | None
    write_empty_chunks: bool


class OpenOptions(Opening, total=False):
    """What arrays that are there are opened with."""

    threads: int | None
    write_empty_chunks: bool
