"""When filters of two formats make the same bytes of the same items."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zvcore.codecs.base import Codec

__all__ = ["plainly_filtered"]

# Parameters of filters that name the type of the items that come in.
_ENTERING = ("dtype", "decode_dtype")


def plainly_filtered(filters: Sequence[Codec], dtype: np.dtype[Any]) -> tuple[Any, ...] | None:
    """What makes little-endian items of these types, where all who know the filters agree on it; else None.

    Formats differ in what a filter does to items of another type, or of another byte order, than it says that it takes.
    """
    said: list[Any] = [dtype.str]
    for codec in filters:
        form = getattr(codec, "encoded_form", None)
        config = codec.for_dtype(dtype).config()
        types = [np.dtype(value) for name, value in config.items() if name in _ENTERING and isinstance(value, str)]
        if codec.kind != "array" or form is None or any(one != dtype.newbyteorder("<") for one in types):
            return None
        if getattr(codec, "moves_only", False):
            # What becomes of the items depends on the shape of the chunk.
            return None
        dtype = form(dtype, (1,))[0]
        if dtype.byteorder == ">":
            return None
        said.append((codec.name, sorted((name, repr(value)) for name, value in config.items()), dtype.str))
    return tuple(said)
