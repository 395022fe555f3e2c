"""References to chunks where they lie, so that other tools read any format as Zarr: kerchunk's, as JSON or Parquet."""

from __future__ import annotations

import base64
import itertools
import json
import math
import os
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import zvcore.codecs
from zvcore.array import Array
from zvcore.boxes import box_of, slices
from zvcore.care.together import look_together
from zvcore.converting.reference_losses import not_referred_to, sayable, tell
from zvcore.converting.reference_tables import write_tables
from zvcore.converting.skipping import refuse
from zvcore.converting.virtual_chunks import takes_virtual_chunks, write_virtual_chunks
from zvcore.errors import OutOfMemoryError, PluginError, UnsupportedError, ZvcoreError
from zvcore.exchange.virtual import removed
from zvcore.format import Node, get_format
from zvcore.opening import open as open_path
from zvcore.report import Problem, What
from zvcore.stores import open_store
from zvcore.stores.plain_files import complete_file
from zvcore.stores.single_file import SingleFileStore

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from zvcore.exchange.virtual import Piece, Virtual
    from zvcore.stores import Store

__all__ = ["references", "write_references"]

_DEEPEST = 64
_ASKED_AT_ONCE = 1000
# How many chunks are kept while they are counted, to see whether one is not stored. More are listed twice.
_MOST_KEPT = 4096
# What those of an array take, and how many members of groups are opened ahead of the one that is looked at.
_LOOK_BYTES = 8 << 20
_AHEAD = 32
_GROUP = {"zarr_format": 2}
_REFUSED = (UnsupportedError, PluginError)
# What an array is called in tables, which hold only groups of arrays.
_ALONE = "data"


def references(
    path: Any,
    *,
    inline: bool = False,
    format: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
    skip_unsupported: bool = False,
    losses: list[Problem] | None = None,
) -> dict[str, Any]:
    """What fsspec's reference file system needs to show the data at a path as Zarr v2, without copying: kerchunk's
    document, version 1. Every chunk is (file, offset, length); chunks of shards too.

    inline  put chunks that other tools cannot read where they lie (cut at the end of an array, or encoded differently
            from the rest) into the document itself; else they are an `UnsupportedError`
    skip_unsupported  arrays of a group that Zarr cannot express are left out; otherwise they are an error, which names
            them all
    losses  a list to which is added what is left out, and what is said of the data that references cannot carry (sizes
            of voxels, attributes that are no JSON); without one, a `LostMetadataWarning` names the attributes
    """
    entries = _entries(path, inline, format, storage_options, skip_unsupported=skip_unsupported, losses=losses)
    return {"version": 1, "refs": dict(entries)}


def write_references(path: Any, out: Any, *, fsync: bool | None = None, **options: Any) -> int:
    """Write `references` to a file, as Parquet if its name ends in .parquet (a single array is then the member "data"
    of a group); returns how many chunks are referred to. `fsync`: they are on the disk when this returns.

    `out` may also be a session of Icechunk: then it gets Zarr v3 with virtual chunks, to be committed by who opened it.
    """
    if not isinstance(out, str | os.PathLike):
        store = open_store(out, "w")
        if not takes_virtual_chunks(store):
            raise UnsupportedError("references go into files, and into sessions of Icechunk", key=store.root)
        return write_virtual_chunks(_entries(path, sized=True, **options), store)
    text = os.fsdecode(out)
    if text.lower().endswith((".parquet", ".parq")):
        return write_tables(_entries(path, alone=_ALONE, **options), text, fsync)
    found = references(path, **options)
    with complete_file(text, fsync) as partial, open(partial, "w", encoding="utf-8") as file:
        json.dump(found, file)
    return sum(isinstance(value, list) or "/.z" not in f"/{key}" for key, value in found["refs"].items())


def _entries(
    path: Any,
    inline: bool = False,
    format: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
    alone: str = "",
    sized: bool = False,
    skip_unsupported: bool = False,
    losses: list[Problem] | None = None,
) -> Iterator[tuple[str, Any]]:
    """Documents and chunks, by their keys in Zarr v2; `alone` names an array that is in no group.

    `sized`: the length of every chunk is said, also of those that are all of an object.
    """
    top = open_path(path, "r", format, storage_options=storage_options)
    if isinstance(top, Array):
        if alone:
            yield ".zgroup", json.dumps(_GROUP)
        masked: list[Problem] = []
        yield from _array(top, "", f"{alone}/" if alone else "", inline, sized, masked)
        tell([*masked, *not_referred_to("", top)], losses)
        return
    lost: list[Problem] = []
    failed: dict[str, ZvcoreError] = {}
    shown = 0
    nodes, look = _nodes(top, failed), partial(_looked_at, inline)
    for name, node, virtual, error in look_together(top.store, nodes, look, _LOOK_BYTES):
        if not isinstance(node, Array):
            yield f"{name}/.zgroup".lstrip("/"), json.dumps(_GROUP)
            attrs, _ = sayable(getattr(node, "attrs", {}))
            lost += not_referred_to(name, node)
            if attrs:
                yield f"{name}/.zattrs".lstrip("/"), json.dumps(attrs)
            continue
        if error is not None:
            # An array is left out as a whole, and not after half of its chunks.
            failed[name] = error
            continue
        shown += 1
        yield from _array(node, name, f"{name}/", inline, sized, lost, virtual)
        lost += not_referred_to(name, node)
    if failed and (not skip_unsupported or not shown):
        raise refuse(failed, bool(shown), "shown as Zarr")
    lost += [
        Problem(name, f"it cannot be shown as Zarr: {one.told}", fatal=False, kind=What.UNSUPPORTED)
        for name, one in failed.items()
    ]
    tell(lost, losses)


def _nodes(top: Any, failed: dict[str, ZvcoreError]) -> Iterator[tuple[str, Any]]:
    """(path, node) of a group, and of all groups and arrays below it; others, and why, are added to `failed`."""
    # Paths, and the group in which each is a member; those that come next are opened with the one that is wanted.
    waiting: list[tuple[str, Any]] = [("", None)]
    opened: dict[str, Any] = {"": top}
    while waiting:
        if waiting[-1][0] not in opened:
            ahead = waiting[: -1 - (_AHEAD if top.store.parts_ahead() else 1) : -1]
            ahead = [one for one in ahead if one[0] not in opened]
            opened.update(zip([path for path, _ in ahead], top.store.each(_opened, ahead), strict=True))
        name, _ = waiting.pop()
        node = opened.pop(name)
        if isinstance(node, _REFUSED):
            failed[name] = node
            continue
        if name.count("/") >= _DEEPEST:
            raise UnsupportedError("groups nested as deeply as this", key=name, expected=f"at most {_DEEPEST}")
        if not isinstance(node, Node) or (node.kind == "vectors" and not isinstance(node, Array)):
            refusal = UnsupportedError("only arrays and groups of them are shown as Zarr", key=name or node.store.root)
            if node is top:
                raise refusal
            failed[name] = refusal
            continue
        yield name, node
        if isinstance(node, Array):
            continue
        # Of an iterator nobody asks how long it is, which would list a group a second time.
        members = [*iter(node.children())]
        waiting.extend((f"{name}/{one}".lstrip("/"), node) for one in reversed(members))


def _opened(entry: tuple[str, Any]) -> Any:
    """A member of a group, or why it cannot be opened."""
    path, group = entry
    try:
        return group.children()[path.rpartition("/")[2]]
    except OutOfMemoryError:
        raise
    except _REFUSED as error:
        return error


class _Looked(NamedTuple):
    """A node below the top: of an array, how it is shown, with its chunks if they are few; or why it is not."""

    name: str
    node: Any
    virtual: Virtual | None = None
    error: ZvcoreError | None = None


def _looked_at(inline: bool, entry: tuple[str, Any]) -> _Looked:
    name, node = entry
    if not isinstance(node, Array):
        return _Looked(name, node)
    try:
        return _Looked(name, node, _shown(node, inline))
    except OutOfMemoryError:
        raise
    except _REFUSED as error:
        return _Looked(name, node, error=error)


def _shown(array: Array, inline: bool) -> Virtual | None:
    """How an array is shown, or an UnsupportedError if Zarr cannot express it; None where it has very many chunks."""
    virtual = get_format(array.format).virtual(array)
    _document(virtual)
    _address(array)
    left = iter(virtual.pieces)
    kept = [*itertools.islice(left, _MOST_KEPT + 1)]
    for piece in itertools.chain(kept, left):
        if piece.unlike and not inline:
            raise _unlike(piece)
    virtual.pieces = kept
    return virtual if len(kept) <= _MOST_KEPT else None


def _unlike(piece: Piece) -> UnsupportedError:
    return UnsupportedError(
        f"a chunk {piece.unlike}: others cannot read it where it lies (inline=True, --inline, puts such chunks into "
        "the references)", key=piece.key, chunk=piece.place,
    )  # fmt: skip


def _array(
    array: Array,
    path: str,
    below: str,
    inline: bool,
    sized: bool,
    lost: list[Problem],
    virtual: Virtual | None = None,
) -> Iterator[tuple[str, Any]]:
    virtual = virtual or get_format(array.format).virtual(array)
    attrs = _attributes(array, virtual)
    masked = _unmask(array, virtual, attrs)
    if masked is not None and not sized:  # which becomes v3, where no fill value is missing
        lost.append(Problem(path, masked, fatal=False))
    yield f"{below}.zarray", json.dumps(_document(virtual))
    yield f"{below}.zattrs", json.dumps(attrs)
    root = _address(array)
    if _holder(array).address != _holder(array).root:
        what = "the address is named without its user name and password: who reads the references gives them anew"
        lost.append(Problem(path, what, fatal=False))
    for piece in _sized(array, virtual.pieces) if sized else virtual.pieces:
        place = [piece.place[axis] for axis in virtual.axes or range(len(piece.place))]
        key = below + (".".join(map(str, place)) or "0")
        if piece.unlike:
            if not inline:
                raise _unlike(piece)
            yield key, _inlined(array, virtual, piece)
        elif piece.length is None:
            yield key, [f"{root}{piece.key}"]
        else:
            yield key, [f"{root}{piece.key}", piece.offset, piece.length]


def _sized(array: Array, pieces: Iterable[Piece]) -> Iterator[Piece]:
    """Pieces with their lengths; sizes of objects are asked for many at once."""
    store, left = _holder(array), iter(pieces)
    while some := [*itertools.islice(left, _ASKED_AT_ONCE)]:
        whole = [piece.key for piece in some if piece.length is None]
        sizes = dict(zip(whole, store.sizes(whole), strict=True))
        for piece in some:
            if piece.length is not None or piece.unlike:
                yield piece
            elif (size := sizes[piece.key]) is not None:
                yield piece._replace(length=size - piece.offset)
            else:
                raise removed(piece.key)


def _document(virtual: Virtual) -> dict[str, Any]:
    dtype = virtual.dtype
    filters, compressor = virtual.coders, None
    if filters and zvcore.codecs.from_zarr2(filters[-1]).kind == "bytes":
        filters, compressor = filters[:-1], filters[-1]
    return {
        "zarr_format": 2, "shape": list(virtual.shape), "chunks": list(virtual.chunks), "dtype": dtype.str,
        "order": virtual.order, "fill_value": _fill(virtual.fill_value, dtype), "filters": filters or None,
        "compressor": compressor, "dimension_separator": ".",
    }  # fmt: skip


def _fill(value: Any, dtype: np.dtype[Any]) -> Any:
    if value is None:
        return None
    item = np.asarray(value, dtype.newbyteorder("="))
    if dtype.kind in "SV":
        return base64.standard_b64encode(item.tobytes()).decode()
    if dtype.kind in "mM":
        return int(item.view(np.int64))
    if dtype.kind == "c":
        return [_fill(item.real, item.real.dtype), _fill(item.imag, item.imag.dtype)]
    if dtype.kind == "f" and not np.isfinite(item):
        return "NaN" if np.isnan(item) else "Infinity" if item > 0 else "-Infinity"
    return item.item()


def _attributes(array: Array, virtual: Virtual) -> dict[str, Any]:
    """Those of the array, and the names of its axes as xarray has them."""
    attrs, _ = sayable(array.attrs)
    axes = get_format(array.format).read_axes(array)
    order = virtual.axes or range(len(axes))
    named = [axes[axis].name or f"dim_{axis}" for axis in order]
    return {**attrs, "_ARRAY_DIMENSIONS": named}


def _unmask(array: Array, virtual: Virtual, attrs: dict[str, Any]) -> str | None:
    """Have no fill value where the array has values that equal it: xarray takes them for missing in Zarr v2.

    Programs disagree on what is not stored reads as then, so this is for arrays of which every chunk is there, and for
    those that are so themselves. Of others, what is to be told of it.
    """
    exchange = get_format(array.format).exchange()
    if exchange.has_no_fill(array):
        virtual.fill_value = None
        return None
    fill = np.asarray(virtual.fill_value)
    # That NaN is missing goes without saying.
    if exchange.masks_fill(array) or array.dtype.kind not in "biufc" or fill != fill:
        return None
    said = exchange.mask_value(array) if "_FillValue" in array.attrs else None
    if said is not None and said == virtual.fill_value:
        return None
    if np.any(fill) or not _all_there(array, virtual):
        return f"values of {fill[()]}, the fill value, are missing to xarray"
    virtual.fill_value = None
    if said is not None and "_FillValue" in attrs:
        # Version 3 spells what xarray expects here as a value.
        if said == said and isinstance(said, (bool, int, float)):
            attrs["_FillValue"] = said
        else:
            del attrs["_FillValue"]
    return None


def _all_there(array: Array, virtual: Virtual) -> bool:
    """Whether every chunk is stored."""
    count = math.prod(-(-n // chunk) for n, chunk in zip(virtual.shape, virtual.chunks, strict=True))
    left = iter(virtual.pieces)
    kept = [*itertools.islice(left, _MOST_KEPT + 1)]
    there = len(kept)
    if there > _MOST_KEPT and count > _MOST_KEPT:
        there = sum(1 for _ in get_format(array.format).virtual(array).pieces)
    virtual.pieces = itertools.chain(kept, left)
    return there == count


def _holder(array: Array) -> Store:
    """The store whose keys those of the chunks are."""
    return array.store.folder if isinstance(array.store, SingleFileStore) else array.layout.store


def _address(array: Array) -> str:
    """What a reader elsewhere needs before the key of an object."""
    store = _holder(array)
    if store.local_root is not None:
        return f"file://{os.fsdecode(store.local_root).rstrip('/')}/"
    if "://" in store.root and store.remote:
        return f"{store.root.rstrip('/')}/"
    raise UnsupportedError("references need files or objects of their own, not what lies in an archive or in memory",
                           key=store.root)  # fmt: skip


def _inlined(array: Array, virtual: Virtual, piece: Piece) -> str:
    """A whole chunk, filled up where the array ends, encoded as the others are."""
    chunk = [1] * array.ndim
    for axis, extent in zip(virtual.axes or range(array.ndim), virtual.chunks, strict=True):
        chunk[axis] = extent
    box = box_of(piece.place, chunk, array.shape)
    values = np.zeros(chunk, array.dtype)
    if virtual.fill_value is not None:
        values[...] = virtual.fill_value
    values[tuple(slice(0, stop - start) for start, stop in box)] = array[slices(box)]
    axes = virtual.axes or tuple(range(array.ndim))
    spare = tuple(axis for axis in range(array.ndim) if axis not in axes)
    kept = values.squeeze(spare)
    rank = {axis: number for number, axis in enumerate(sorted(axes))}
    shown = kept.transpose([rank[axis] for axis in axes]).astype(virtual.dtype)
    data: Any = shown.tobytes(order="F" if virtual.order == "F" else "C")
    for coder in virtual.coders:
        codec = zvcore.codecs.from_zarr2(coder)
        data = codec.for_dtype(virtual.dtype).encode(data)
    return f"base64:{base64.b64encode(bytes(data)).decode()}"
