"""Zarr v2 in conversions: groups of arrays, images as OME-Zarr 0.4."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from zvcore import codecs
from zvcore.errors import ZvcoreError
from zvcore.exchange.by_place import AxesByPlace
from zvcore.exchange.ome_writer import OmeWriter
from zvcore.exchange.stored import given_dtype, read_mask_value, stored_axes
from zvcore.exchange.target import chunk_shape, fill_value
from zvcore.zarr2.attributes import DIMENSIONS, Attributes, dimension_names
from zvcore.zarr2.consolidated import consolidate
from zvcore.zarr2.dtypes import is_unsaid_nan
from zvcore.zarr2.group import Zarr2Group, create_group
from zvcore.zarr2.metadata import CONSOLIDATED, DOCUMENT, DOCUMENTS, GROUP, ArrayMetadata, document_key

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zvcore.array import Array
    from zvcore.codecs.base import Codec
    from zvcore.converting.view import View
    from zvcore.exchange.target import Place, Target
    from zvcore.exchange.writer import ImageWriter
    from zvcore.images import Axes
    from zvcore.stores import Store

__all__ = ["Zarr2Exchange"]

# Of which items xarray masks those that equal the fill value.
_MASKED = "biufcSmM"
# How many chunks an array may have that are all stored, also those that hold nothing but 0.
_MOST_CHUNKS_STORED = 4096


class Zarr2Exchange(AxesByPlace):
    common_codecs = ("gzip", "zstd", "blosc", "bzip2")
    placing = frozenset({"transform", "multiscales", DIMENSIONS})
    keeps_no_fill = True
    names_all_axes = True
    ome_version = "0.4"
    documents = DOCUMENTS
    consolidated_member = CONSOLIDATED

    # --- as a source

    def is_consolidated(self, node: Any) -> bool:
        return isinstance(node, Zarr2Group) and node.store.exists(CONSOLIDATED)

    def other_members(self, attrs: Mapping[str, Any]) -> list[str]:
        # Attributes stand in a document of their own here.
        return sorted(attrs.foreign) if isinstance(attrs, Attributes) else []

    def filters_of(self, array: Array) -> list[Codec]:
        metadata = _metadata(array)
        kind = metadata.data_type.kind
        return [] if kind in ("text", "bytes") else metadata.pipeline.filters

    def separator_of(self, array: Array) -> str | None:
        return _metadata(array).separator

    def has_no_fill(self, array: Array) -> bool:
        return _metadata(array).undefined

    def masks_fill(self, array: Array) -> bool:
        # As xarray has it, for the arrays that it can open.
        named = dimension_names(array.attrs, array.ndim) is not None
        return named and not self.has_no_fill(array) and array.dtype.kind in _MASKED

    # --- as a destination

    def masks_made(self, options: Mapping[str, Any]) -> bool:
        filled = options.get("dimension_names") is not None and options.get("fill_value") is not None
        dtype = options["dtype"]
        return filled and dtype is not bytes and np.dtype(dtype).kind in _MASKED

    def array_options(self, view: View, target: Target, place: Place) -> dict[str, Any]:
        chunks = chunk_shape(view, target.chunks)
        undefined = (view.dtype is None and view.source.has_no_fill(view.array)) or _masks_nothing(view, place, chunks)
        fill = None if undefined else _missing(view)
        if view.value_dtype.kind == "f" and is_unsaid_nan(fill, view.value_dtype):
            fill = view.value_dtype.type(math.nan)  # what differs from it is stored, and told as a loss
        options: dict[str, Any] = {"dtype": given_dtype(view), "chunks": chunks, "fill_value": fill}
        options.update(self.codec_option(view, target))
        options.update(self.shard_option(view, target, chunks))
        options.update(self.placing_options(place.axes))
        # What images demand; arrays of this format keep what they have.
        same = view.source.format is self.format
        options["dimension_separator"] = _metadata(view.array).separator if same else "/"
        options.update(target.options)
        options["shape"] = place.shape or view.shape
        return options

    def placing_options(self, axes: Axes) -> dict[str, Any]:
        names = [axis.name for axis in axes]
        # Of a scalar too, which has none: xarray refuses a whole group for one array that does not say so.
        return {"dimension_names": names} if all(name is not None for name in names) else {}

    def arrangement(self, view: View, filters: list[Codec], big: bool) -> dict[str, Any]:
        axes = stored_axes(view)
        turned = len(axes) > 1 and axes == sorted(axes, reverse=True)
        return {"filters": filters, **({"order": "F"} if turned else {}), **({"endian": "big"} if big else {})}

    def has_spelling(self, codec: Codec) -> bool:
        try:
            return codec.identity or codecs.from_zarr2(codec.to_zarr2()).decodes_alike(codec)
        except ZvcoreError:
            return False

    spells = takes_filter = has_spelling

    def writer(self, store: Store, found: bool) -> ImageWriter:
        return Zarr2Writer(self.format, store, found)


def _metadata(array: Array) -> ArrayMetadata:
    metadata = getattr(array, "metadata", None)
    assert isinstance(metadata, ArrayMetadata)
    return metadata


def _masks_nothing(view: View, place: Place, chunks: tuple[int, ...]) -> bool:
    """Whether an array is to have no fill value, because xarray would take the values that equal it for missing.

    Then every chunk is stored, since programs disagree on what the others read as. So large arrays, which may be
    sparse, keep theirs, and a note tells what xarray makes of it.
    """
    if _is_coordinate(view, place):
        return True
    names = [axis.name for axis in place.axes]
    if isinstance(view.source, Zarr2Exchange) or place.level or None in names:
        return False
    if view.value_dtype.kind not in "biufc" or view.array.attrs.get("_FillValue") is not None:
        return False
    grid = (-(-n // m) for n, m in zip(place.shape or view.shape, chunks, strict=True))
    return not np.any(np.asarray(fill_value(view))) and math.prod(grid) <= _MOST_CHUNKS_STORED


def _is_coordinate(view: View, place: Place) -> bool:
    """Whether these are the places along an axis as xarray has them: an array that is called like its only axis.

    xarray takes values that equal a fill value of v2 for missing, and places that are missing are no axis.
    """
    array = view.array
    if isinstance(view.source, Zarr2Exchange):
        return False
    if array.ndim != 1 or array.dtype.kind not in "iuf" or "_FillValue" in array.attrs:
        return False
    return [axis.name for axis in place.axes] == [array.store.root.rstrip("/").rpartition("/")[2]]


def _missing(view: View) -> Any:
    """The fill value of an array of v2, which is what xarray takes for missing: as `_FillValue` says it elsewhere."""
    fill = fill_value(view)
    said = read_mask_value(view.array.attrs.get("_FillValue"), view.array.dtype)
    told = isinstance(said, (bool, int, float, complex, bytes)) and view.value_dtype.kind in "biufcS"
    if isinstance(view.source, Zarr2Exchange) or not told:
        return fill
    try:
        with np.errstate(all="ignore"):
            missing = np.array(said).astype(view.value_dtype)[()]
    except (TypeError, ValueError, OverflowError):
        return fill
    return missing if missing == said or (missing != missing and said != said) else fill


class Zarr2Writer(OmeWriter):
    """Groups, arrays in them, and images as OME-Zarr."""

    def consolidate(self) -> None:
        consolidate(self.store)

    def has_group(self, path: str) -> bool:
        return any(self.store.exists(document_key(mark, path)) for mark in (DOCUMENT, GROUP))

    def make_group(self, path: str, attrs: Mapping[str, Any]) -> None:
        create_group(self.child(path), dict(attrs))
