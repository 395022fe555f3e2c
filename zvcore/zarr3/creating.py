"""Making new Zarr v3 arrays."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

import zvcore.codecs
from zvcore import documents
from zvcore.boxes import CHUNK_BYTES, default_chunks, given_lengths, lengths_of, whole_number
from zvcore.choices import AUTO, chosen
from zvcore.codecs.single_values import stays_itself
from zvcore.documents import room
from zvcore.errors import CodecNotFoundError, MetadataError
from zvcore.stores.sole import make_first
from zvcore.zarr3.array import Zarr3Array, array_of
from zvcore.zarr3.attributes import Attributes
from zvcore.zarr3.composing import array_document, sharded_codecs
from zvcore.zarr3.dtypes import DataType, data_type_of
from zvcore.zarr3.filtered import Filtered
from zvcore.zarr3.metadata import DOCUMENT, ArrayMetadata, metadata_of
from zvcore.zarr3.sharding import refuse_write_mode
from zvcore.zarr3.telling import forget_below, tell_above

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zvcore.stores import Store

__all__ = ["begin_node", "create_array", "make_room"]

# What the size of an item of any length is taken for.
_ITEM_BYTES = 64
_INDEX_CODECS = [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}]


def create_array(
    store: Store,
    *,
    shape: Sequence[int] | int,
    dtype: Any,
    chunks: Sequence[Any] | int | None = None,
    shards: Sequence[Any] | int | None = None,
    codec: Any = AUTO,
    fill_value: Any = AUTO,
    attrs: Mapping[str, Any] | None = None,
    overwrite: bool = False,
    filters: Sequence[Any] | None = None,
    endian: str = "little",
    index_location: str = "end",
    index_codecs: Sequence[Any] | None = None,
    dimension_names: Sequence[str | None] | None = None,
    chunk_key_encoding: str | Mapping[str, Any] = "default",
    write_empty_chunks: bool = False,
    write_mode: str = "rewrite",
    order_in_shard: str = "C",
    dead_bytes_threshold: float = 0.5,
    through: Sequence[Store] = (),
) -> Zarr3Array:
    """Make an array at the root of the store.

    codec       bytes codecs of the (inner) chunks: a name, a configuration (also as it stands in a zarr.json), a Codec,
                a list of these; None for none
    filters     array-to-array codecs before them, such as {"name": "transpose", "configuration": {"order": [2, 1, 0]}}
    endian      byte order of the items
    through     the stores of the groups that it is made in
    chunks      their shape; along an axis also a list of lengths and of [length, count], for a rectilinear grid
    shards      the shape of what one object holds, a multiple of `chunks`; along an axis also such a list
    """
    shape = lengths_of(shape, "shape")
    data_type = data_type_of(dtype)
    if shards is not None:
        shards = given_lengths(shards, "shards")
    if chunks is None:
        chunks = _default_chunks(shape, data_type, shards)
    chunks = _shape(chunks, "chunks", shape, listed=shards is None)
    codecs = chunk_codecs(data_type, chosen(codec, "zstd"), filters, endian)
    outer = chunks
    if shards is not None:
        outer = _shape(shards, "shards", shape, listed=True)
        if any(isinstance(a, int) and a % b for a, b in zip(outer, chunks, strict=True)):
            raise MetadataError("the chunks must divide the shard", expected=outer, found=chunks)
        given = _INDEX_CODECS if index_codecs is None else list(index_codecs)
        codecs = sharded_codecs(chunks, codecs, {"index_codecs": given, "index_location": index_location})
    document = array_document(
        shape, data_type.json, outer, codecs, fill_value=_written_fill(data_type, fill_value),
        attributes=Attributes.checked(attrs or {}), chunk_key_encoding=chunk_key_encoding,
        dimension_names=dimension_names,
    )  # fmt: skip
    options: dict[str, Any] = {"write_empty_chunks": write_empty_chunks}
    if shards is not None:
        options["write_mode"] = write_mode
        options["order_in_shard"] = order_in_shard
        options["dead_bytes_threshold"] = dead_bytes_threshold
    # Read back before anything is written: what we write must be what we would accept.
    raw = documents.encode(document)
    metadata = metadata_of(raw, DOCUMENT)
    assert isinstance(metadata, ArrayMetadata)
    array = array_of(store, metadata, through=through, **options)
    refuse_write_mode(array.layout)
    if metadata.pipeline.innermost.filters:
        Filtered(metadata.pipeline.innermost).check_readable()
    begin_node(store, raw, overwrite, through, metadata)
    array.stands()
    return array


def _written_fill(data_type: DataType, given: Any) -> Any:
    """A fill value as metadata have it."""
    try:
        if given is AUTO or given is None:
            return data_type.write_fill(data_type.default_fill)
        if not stays_itself(given, data_type.dtype):
            raise ValueError("it would become another value")
        return data_type.write_fill(given)
    except (TypeError, ValueError, OverflowError) as error:
        raise MetadataError(f"not a fill value of {data_type.dtype}: {error}", found=repr(given)) from error


def make_room(store: Store, overwrite: bool, through: Sequence[Store] = (), array: ArrayMetadata | None = None) -> None:
    """Refuse to write over what is there, or remove it; `array`: for one that is described so."""
    chunks = None if array is None else (array.key_head, array.separator)
    if room.make_room(store, (DOCUMENT,), overwrite, chunks):
        forget_below(store, through)


def begin_node(
    store: Store,
    document: bytes,
    overwrite: bool,
    through: Sequence[Store],
    array: ArrayMetadata | None = None,
) -> None:
    """Make an array or a group here: of several who do so at once, one alone."""
    make_room(store, overwrite, through, array)
    if overwrite:
        store.put(DOCUMENT, document)
    else:
        make_first(store, DOCUMENT, document)
    tell_above(store, through)


def chunk_codecs(data_type: DataType, codec: Any, filters: Sequence[Any] | None, endian: str) -> list[Any]:
    """The codecs of one chunk, as metadata have them."""
    given = [] if codec is None else codec if isinstance(codec, (list, tuple)) else [codec]
    made = [_codec(one).for_dtype(data_type.dtype) for one in given]
    first: dict[str, Any]
    if data_type.kind == "text":
        first = {"name": "vlen-utf8"}
    elif data_type.kind == "bytes":
        first = {"name": "vlen-bytes"}
    else:
        first = {"name": "bytes", "configuration": {"endian": endian}}
    before = [one if isinstance(one, (dict, str)) else one.to_zarr3() for one in filters or ()]
    return [*before, first, *(one.to_zarr3() for one in made if not one.identity)]


def _codec(given: Any) -> zvcore.codecs.Codec:
    """A codec; one that is only named is the one that Zarr means by the name, where other formats mean another."""
    if isinstance(given, str):
        try:
            meant = zvcore.codecs.from_zarr3(given)
            # Under the name that others know it by, not under the one that was said.
            return meant if meant.name_in("zarr3") == given else type(meant).from_config(meant.config())
        except CodecNotFoundError:
            return zvcore.codecs.as_codec(given)
    if isinstance(given, dict) and given.keys() <= {"name", "configuration"} and "configuration" in given:
        return _told_codec(given)
    return zvcore.codecs.as_codec(given)


def _told_codec(given: dict[str, Any]) -> zvcore.codecs.Codec:
    """A codec as it stands in a zarr.json. What readers pass over, and keep, is refused from those who ask for one."""
    made = zvcore.codecs.from_zarr3(given)
    written = type(made).from_config(made.config()).to_zarr3()
    known = written.get("configuration", {}) if isinstance(written, dict) else {}
    for name in given["configuration"]:
        if name not in known:
            told = ", ".join(known) or "none"
            raise MetadataError(f"there is no parameter {name!r}", codec=given["name"], expected=told)
    return made


def _default_chunks(shape: tuple[int, ...], data_type: DataType, shards: Sequence[Any] | None) -> tuple[int, ...]:
    """Chunks of about a megabyte, as close to cubes as the array allows; with shards, ones that divide them."""
    size = data_type.dtype.itemsize if data_type.kind == "fixed" else _ITEM_BYTES
    if shards is None:
        return default_chunks(shape, size)
    if not all(isinstance(n, int) for n in shards):
        raise MetadataError("shards of different lengths need chunks=", found=shards)
    chunks = [max(1, n) for n in shards]
    while math.prod(chunks) * size > CHUNK_BYTES and max(chunks) > 1:
        axis = max(range(len(chunks)), key=lambda i: chunks[i])
        chunks[axis] = next(d for d in range(chunks[axis] // 2, 0, -1) if chunks[axis] % d == 0)
    return tuple(chunks)


def _shape(given: Sequence[Any] | int, what: str, shape: tuple[int, ...], listed: bool) -> tuple[Any, ...]:
    """A length for each axis; `listed`: or a list of them, which is looked at when the document is read back."""
    found: list[Any] = []
    for one in given_lengths(given, what):
        if listed and isinstance(one, (list, tuple, np.ndarray)):
            found.append([_run(part, what) for part in one])
        else:
            found.append(whole_number(one, what))
    if len(found) != len(shape) or any(isinstance(n, int) and n < 1 for n in found):
        raise MetadataError(f"{what} has a positive length for each axis", expected=f"{len(shape)} axes", found=given)
    return tuple(found)


def _run(part: Any, what: str) -> int | list[int]:
    """A length of a list of them, or (length, how often)."""
    if isinstance(part, (list, tuple)):
        return [whole_number(number, what) for number in part]
    return whole_number(part, what)
