"""Arrays of Zarr v2 in zarr-python as arrays of v3: their chunks are the same bytes, under other words.

Where no words of v3 say the same (big-endian items behind a filter), codecs of bytes stand in front of the compressors
that no document names. Bytes in front of a filter of arrays have nothing like it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import zvcore.codecs
from zvcore.codecs.filters import plainly_filtered
from zvcore.errors import UnsupportedError
from zvcore.zarr3.composing import array_document
from zvcore.zarr3.dtypes import data_type_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

    from zvcore.codecs import Codec

__all__ = ["as_version_3"]


def as_version_3(metadata: Any) -> tuple[dict[str, Any], tuple[Codec, ...]]:
    """The document of v3 that describes the chunks of an array of v2, whose metadata zarr-python has, and the codecs of
    bytes in front of its compressors that no document names.
    """
    stored = metadata.dtype.to_native_dtype()
    if stored.hasobject or stored.kind == "T":
        raise UnsupportedError("Zarr v2 arrays of objects work by zarr-python's own pipeline")
    dtype = stored.newbyteorder("=")
    data_type = data_type_of(dtype)
    made = [_codec(one) for one in (*(metadata.filters or ()), metadata.compressor) if one is not None]
    filters = [codec for codec in made if codec.kind == "array"]
    if [codec.kind for codec in made] != ["array"] * len(filters) + ["bytes"] * (len(made) - len(filters)):
        raise UnsupportedError("codecs of Zarr v2 in an order that v3 has not")
    unnamed: tuple[Codec, ...] = ()
    if filters and not stored.isnative:
        unnamed = _as_bytes(filters, stored)
    elif filters and plainly_filtered(filters, dtype) is None:
        raise UnsupportedError("filters of Zarr v2 that do something else to these items in v3")
    rank = len(metadata.shape)
    turned = metadata.order == "F" and rank > 1
    axes = [{"name": "transpose", "configuration": {"order": [*range(rank)][::-1]}}] if turned else []
    big = not _is_little(stored)
    if big and stored != stored.newbyteorder(">"):
        raise UnsupportedError("records whose fields lie in different byte orders work by zarr-python's own pipeline")
    codecs = [
        *axes,
        *(codec.to_zarr3() for codec in filters if not unnamed),
        {"name": "bytes", "configuration": {"endian": "big" if big else "little"}},
        *(codec.for_dtype(dtype).to_zarr3() for codec in made[len(filters) :] if not codec.identity),
    ]
    fill = data_type.default_fill if metadata.fill_value is None else metadata.fill_value
    document = array_document(
        metadata.shape, data_type.json, metadata.chunks, codecs, fill_value=data_type.write_fill(fill),
        chunk_key_encoding={"name": "v2", "configuration": {"separator": metadata.dimension_separator}},
    )  # fmt: skip
    return document, unnamed


def _as_bytes(filters: Sequence[Codec], dtype: np.dtype[Any]) -> tuple[Codec, ...]:
    """Filters of big-endian items, done to their bytes."""
    found = []
    for codec in filters:
        one = codec.as_bytes(dtype)
        form = getattr(codec, "encoded_form", None)
        if one is None or form is None:
            raise UnsupportedError("a filter of big-endian items that only Python can run", codec=codec.name)
        found.append(one)
        dtype = form(dtype, (1,))[0]
    return tuple(found)


def _is_little(dtype: np.dtype[Any]) -> bool:
    return dtype.newbyteorder("<") == dtype


def _codec(theirs: Any) -> Codec:
    """One of numcodecs; what somebody else has written under its names is not known here."""
    if not type(theirs).__module__.startswith("numcodecs."):
        raise UnsupportedError(f"the codec {type(theirs).__module__}.{type(theirs).__qualname__} is not known here")
    return zvcore.codecs.from_zarr2(theirs.get_config())
