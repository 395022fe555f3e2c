"""An array's chunks where they lie, in the words of Zarr v2: for readers that know Zarr, and no other format."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from zvcore import codecs
from zvcore.errors import ConflictError, CorruptDataError, UnsupportedError, ZvcoreError
from zvcore.layout import ABSENT

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from zvcore.array import Array
    from zvcore.codecs.base import Codec
    from zvcore.format import Format
    from zvcore.layout import Layout

__all__ = ["Piece", "Virtual", "of_layout", "removed", "spelled"]

_BATCH = 4096

_Places: TypeAlias = "tuple[npt.NDArray[np.int64], Sequence[str] | None]"


class Piece(NamedTuple):
    """One chunk that is stored.

    place   in the grid of chunks
    key     of the object that it lies in, and where: `length` bytes from `offset` on; no length: all of it
    unlike  how it differs from the other chunks, so that other readers cannot read it there; "" for most
    """

    place: tuple[int, ...]
    key: str
    offset: int = 0
    length: int | None = None
    unlike: str = ""


@dataclass
class Virtual:
    """An array as a document of Zarr v2 describes it, and where its chunks are.

    order   of items in chunks, "C" or "F"; with `axes` turned, that of what is shown
    axes    which axis of the array each axis of what is shown is
    coders  the filters and the compressor as Zarr v2 spells them, in the order of encoding
    """

    shape: tuple[int, ...]
    chunks: tuple[int, ...]
    dtype: np.dtype[Any]
    fill_value: Any
    pieces: Iterable[Piece]
    order: str = "C"
    axes: tuple[int, ...] = ()
    coders: list[dict[str, Any]] = field(default_factory=list)


def spelled(codec: Codec, where: str) -> dict[str, Any]:
    """A codec in the words of Zarr v2; UnsupportedError where they mean something else, or nothing."""
    try:
        found = codec.to_zarr2()
        if codecs.from_zarr2(found).decodes_alike(codec):
            return found
    except UnsupportedError as error:
        raise error.located(key=where)
    except ZvcoreError as error:
        raise UnsupportedError(f"Zarr v2 has no such codec: {error}", key=where, codec=codec.name) from error
    raise UnsupportedError("Zarr v2 has no codec that decodes this", key=where, codec=codec.name)


def removed(key: str) -> ConflictError:
    """The error for an object that was listed, and is not there: its chunk would silently read as the fill value."""
    return ConflictError("the object was removed while references to it were being made", key=key)


def of_layout(array: Array, format: Format) -> Virtual:
    """What a layout tells of the chunks, whatever the format."""
    layout, where, exchange = array.layout, array.store.root, format.exchange()
    form = layout.form
    filters = exchange.filters_of(array)
    if not layout.regular:
        raise UnsupportedError("Zarr v2 has no chunks of several sizes", key=where)
    if form.dtype.kind not in "biufcSVmM":
        raise UnsupportedError("references cannot describe items of this type", key=where, found=str(form.dtype))
    if layout.value_codec is not None and not filters:
        raise UnsupportedError("references cannot describe chunks that do not decode to plain values", key=where)
    chains = layout.chains
    places = _places(layout)
    first = next(((some, names) for some, names in places if len(some)), None)
    column = None if first is None else layout.chain_column(first[0])
    usual = 0 if column is None else int(column[0])
    own = [
        codec for codec in chains[usual].codecs if not codec.identity and codec.name not in {f.name for f in filters}
    ]
    rank = len(layout.shape)
    inner = form.axes or tuple(range(rank))
    turned = rank > 1 and inner == tuple(reversed(range(rank)))
    if not turned and inner != tuple(range(rank)):
        raise UnsupportedError("axes that lie in chunks in neither C nor Fortran order", key=where, found=inner)
    shows_turned = turned and format.fastest_first(array)
    axes = tuple(reversed(range(rank))) if shows_turned else tuple(range(rank))
    spare = set(exchange.spare_axes(array))
    axes = tuple(axis for axis in axes if axis not in spare)
    pieces = _pieces(layout, itertools.chain([] if first is None else [first], places), usual)
    return Virtual(
        tuple(layout.shape[axis] for axis in axes), tuple(form.shape[axis] for axis in axes),
        form.dtype.newbyteorder("S") if form.swapped else form.dtype, layout.fill_value, pieces,
        "F" if turned and not shows_turned else "C", axes, [spelled(codec, where) for codec in (*filters, *own)],
    )  # fmt: skip


def _places(layout: Layout) -> Iterator[_Places]:
    """Grid positions of stored chunks, some at a time, and their objects' names where each chunk is an object."""
    grid = np.array([-(-n // chunk) for n, chunk in zip(layout.shape, layout.form.shape, strict=True)], np.int64)
    objects = layout.stored_objects()
    if objects is None:
        # All that there is lies in one file, whose size has been checked against it.
        every = itertools.product(*map(range, grid.tolist()))
        while batch := [*itertools.islice(every, _BATCH)]:
            yield np.array(batch, np.int64).reshape(len(batch), len(grid)), None
        return
    if layout.sharded:
        for found in layout.stored_chunks_in_each(objects):
            yield found[((found >= 0) & (found < grid)).all(1)], None
        return
    while some := [*itertools.islice(objects, _BATCH)]:
        within = [one for one in some if one.place is not None and all(0 <= n < m for n, m in zip(one.place, grid))]
        places = np.array([one.place for one in within], np.int64).reshape(len(within), len(grid))
        yield places, [one.key for one in within]


def _pieces(layout: Layout, stored: Iterable[_Places], usual: int) -> Iterator[Piece]:
    for places, names in stored:
        if not len(places):
            continue
        chain = layout.chain_column(places)
        if names is None:
            sources = layout.locate(places)
            keys = list(sources.keys)
            numbers = range(len(places)) if sources.key is None else sources.key.tolist()
            names = [keys[number] for number in numbers]
            chain = chain if sources.chain is None else sources.chain
            offsets, lengths = sources.offset, sources.length
        else:
            offsets = lengths = None
        found = []
        for row, place in enumerate(map(tuple, places.tolist())):
            length = None if lengths is None else int(lengths[row])
            if length == ABSENT:
                continue
            piece = Piece(place, names[row], 0 if offsets is None else int(offsets[row]), length)
            if chain is not None and int(chain[row]) != usual:
                piece = piece._replace(unlike="is encoded differently from the others")
            found.append(piece)
        # A header is read from each of them.
        look_at = layout.store.each if _is_framed(layout) else map
        yield from look_at(partial(_checked, layout), found)


def _is_framed(layout: Layout) -> bool:
    return layout.form.edge != "full" and layout.framing is not None


def _checked(layout: Layout, piece: Piece) -> Piece:
    """The piece without the format's own header, marked if the chunk is not a whole one."""
    form = layout.form
    if form.edge == "full" or piece.unlike:
        return piece
    if not _is_framed(layout):
        shape = layout.visible_shape(piece.place)
    else:
        begin = layout.store.snapshot(piece.key, 0, 16 + 4 * len(form.shape))
        if begin is None:
            raise removed(piece.key)
        found = layout.unframed(memoryview(begin.data), piece.place)
        if found is None:
            return piece._replace(unlike="holds a variable number of items")
        shape, rest = found
        start = len(begin.data) - len(rest)
        if start > begin.size:
            raise CorruptDataError("the block ends in its header", key=piece.key, expected=start, found=begin.size)
        piece = piece._replace(offset=start, length=begin.size - start)
    return piece if shape == form.shape else piece._replace(unlike="is cut at the array's end")
