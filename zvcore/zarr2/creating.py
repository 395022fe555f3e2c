"""Making new Zarr v2 arrays."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

import zvcore.codecs
from zvcore import documents
from zvcore.boxes import default_chunks, lengths_of
from zvcore.choices import AUTO, chosen
from zvcore.codecs.single_values import stays_itself
from zvcore.documents import room
from zvcore.errors import CodecNotFoundError, LostMetadataWarning, MetadataError
from zvcore.stores.sole import making
from zvcore.zarr2.array import Zarr2Array
from zvcore.zarr2.attributes import Attributes
from zvcore.zarr2.consolidated import forget_below, tell_above
from zvcore.zarr2.dtypes import OBJECT_CODECS, DataType, data_type_of, is_unsaid_nan, parse_data_type
from zvcore.zarr2.metadata import ARRAY, ATTRIBUTES, DOCUMENT, GROUP, ArrayMetadata, write_document

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zvcore.codecs import Codec
    from zvcore.stores import Store

__all__ = ["begin_node", "create_array"]

# What the size of an item of any length is taken for.
_ITEM_BYTES = 64


def create_array(
    store: Store,
    *,
    shape: Sequence[int] | int,
    dtype: Any,
    chunks: Sequence[int] | int | None = None,
    codec: Any = AUTO,
    fill_value: Any = AUTO,
    attrs: Mapping[str, Any] | None = None,
    overwrite: bool = False,
    filters: Sequence[Any] | None = None,
    order: str = "C",
    endian: str | None = None,
    dimension_separator: str = ".",
    dimension_names: Sequence[str] | None = None,
    write_empty_chunks: bool = False,
    through: Sequence[Store] = (),
) -> Zarr2Array:
    """Make an array at the root of the store.

    codec                the compressor: a name, numcodecs' `{"id": ...}`, a Codec; of a list, the last, and filters
                         before it; None for none
    filters              what stands before the compressor, in the same spellings
    fill_value           None: what is not stored has no value, and all chunks are stored
    order                "C" or "F": how items lie in chunks
    endian               "little" or "big"; that of the dtype unless it is given
    dimension_separator  between the numbers in the names of chunks; with "/" they lie in folders
    dimension_names      what xarray calls the axes
    through              the stores of the groups that it is made in
    """
    shape = lengths_of(shape, "shape")
    data_type, codecs = _typed(dtype, endian, _listed(filters), chosen(codec, "zstd"))
    if chunks is None:
        chunks = default_chunks(shape, data_type.dtype.itemsize if data_type.kind == "fixed" else _ITEM_BYTES)
    before, compressor = _spelled(codecs, data_type)
    values = {
        "shape": shape,
        "chunks": [*lengths_of(chunks, "chunks")],
        "dtype": data_type.json,
        "compressor": compressor,
        "fill_value": _written_fill(data_type, fill_value),
        "order": order,
        "filters": before or None,
        "separator": dimension_separator,
    }
    document = {"zarr_format": 2, **ARRAY.dump(values)}
    user = Attributes.checked({**Attributes.checked(attrs or {}), **_named(dimension_names, len(shape))})
    # Read back before anything is written: what we write must be what we would accept.
    metadata = ArrayMetadata.parse(document, DOCUMENT)
    array = Zarr2Array(store, metadata, write_empty_chunks=write_empty_chunks, through=through, told=user)
    array.layout.prepared  # noqa: B018 - what the engine cannot do is told now
    begin_node(store, DOCUMENT, document, user, overwrite, through, metadata.separator)
    array.stands()
    return array


def begin_node(
    store: Store,
    name: str,
    document: Mapping[str, Any],
    user: Mapping[str, Any],
    overwrite: bool,
    through: Sequence[Store],
    separator: str = "",
) -> None:
    """Make an array or a group here, with these attributes: of several who do so at once, one alone.

    `separator`: for an array, that of the numbers of its chunks.
    """
    make_room(store, overwrite, through, separator)
    with nullcontext(partial(store.put, name)) if overwrite else making(store, name) as put:
        # First what goes without the other: an array is there when its document is.
        if user:
            write_document(store, ATTRIBUTES, user)
            tell_above(store, ATTRIBUTES, through)
        put(documents.encode(document))
    tell_above(store, name, through)


def make_room(store: Store, overwrite: bool, through: Sequence[Store] = (), separator: str = "") -> None:
    """Refuse to write over what is there, or remove it."""
    if room.make_room(store, (DOCUMENT, GROUP), overwrite, ("", separator) if separator else None):
        forget_below(store, through)


def _listed(given: Any) -> list[Any]:
    return [] if given is None else list(given) if isinstance(given, (list, tuple)) else [given]


def _typed(dtype: Any, endian: str | None, filters: list[Any], codec: Any) -> tuple[DataType, list[Codec]]:
    """(the data type, the codecs in the order of encoding; of numbers without any, the identity)."""
    made = [_codec(one) for one in filters]
    compressors = [_codec(one) for one in _listed(codec)]
    names = [one.to_zarr2()["id"] for one in (*made, *compressors) if not one.identity]
    if names and names[0] in OBJECT_CODECS and dtype not in (str, bytes) and np.dtype(dtype).kind == "O":
        return parse_data_type("|O", names), [*made, *compressors]
    data_type, first = data_type_of(dtype, endian)
    if first is not None and first["id"] not in names[:1]:
        made.insert(0, _codec(first))
    return data_type, [*made, *compressors]


def _codec(given: Any) -> Codec:
    """A codec; one that is only named is the one that Zarr v2 means by the name, where other formats mean another."""
    if isinstance(given, str):
        try:
            meant = zvcore.codecs.from_zarr2({"id": given})
            # Under the name that others know it by, and with the effort that zvcore takes.
            return meant if meant.kind != "bytes" else _named_so(meant)
        except CodecNotFoundError:
            return zvcore.codecs.as_codec(given)
    if hasattr(given, "get_config") and hasattr(given, "codec_id"):
        given = given.get_config()
    if isinstance(given, Mapping) and "id" in given and "name" not in given:
        return zvcore.codecs.from_zarr2(given)
    return zvcore.codecs.as_codec(given)


def _named_so(meant: Codec) -> Codec:
    """A codec of which only the name was given, with its own defaults in place of numcodecs'."""
    own = {parameter.name: parameter.default for parameter in meant.parameters if parameter.name in meant.encoding_only}
    return type(meant).from_config({**meant.config(), **own})


def _spelled(codecs: list[Codec], data_type: DataType) -> tuple[list[dict[str, Any]], dict[str, Any] | None]:
    """(the filters, the compressor) as documents have them."""
    entering = data_type.stored
    written: list[dict[str, Any]] = []
    kinds: list[str] = []
    for codec in codecs:
        if codec.identity:
            continue
        settled = codec if entering.kind in "TO" else codec.for_dtype(entering)
        written.append(settled.to_zarr2())
        kinds.append(codec.kind)
    # A codec that only makes sense of arrays is a filter for every reader.
    if written and kinds[-1] == "bytes":
        return written[:-1], written[-1]
    return written, None


def _written_fill(data_type: DataType, given: Any) -> Any:
    """A fill value as documents have it."""
    fill_value = data_type.default_fill if given is AUTO else given
    if given is AUTO and data_type.kind == "fixed" and data_type.dtype.kind in "mM":
        fill_value = 0
    try:
        if fill_value is not None and not stays_itself(fill_value, data_type.dtype):
            raise ValueError("it would become another value")
        written = data_type.write_fill(fill_value)
    except (TypeError, ValueError, OverflowError) as error:
        raise MetadataError(f"not a fill value of {data_type.dtype}: {error}", found=repr(fill_value)) from error
    if data_type.kind == "fixed" and is_unsaid_nan(fill_value, data_type.dtype):
        bits = np.asarray(fill_value, data_type.dtype).tobytes()[::-1].hex()
        told = f"the bits of the fill value NaN (0x{bits}) are not carried: Zarr v2 has one NaN"
        warnings.warn(told, LostMetadataWarning, stacklevel=2)
    return written


def _named(names: Sequence[str] | None, rank: int) -> dict[str, Any]:
    """The attribute by which xarray knows the names of axes."""
    from zvcore.zarr2.attributes import DIMENSIONS

    if names is None:
        return {}
    if len(names) != rank or not all(isinstance(name, str) for name in names):
        raise MetadataError("dimension_names has a name for each axis", expected=f"{rank} names", found=repr(names))
    return {DIMENSIONS: list(names)}
