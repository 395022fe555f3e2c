"""The series of a TIFF, and the levels of each, as tifffile finds them."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any

from zvcore.borrowed.array import BorrowedArray, BorrowedGroup
from zvcore.borrowed.blocks import BlockLayout, block_shape
from zvcore.borrowed.file import library, reading, stream
from zvcore.borrowed.flat import FlatLayout, Values
from zvcore.errors import NotFoundError, UnsupportedError
from zvcore.images import Image, Level
from zvcore.stores.single_file import SingleFileStore
from zvcore.tiff.chunks import stored_layout
from zvcore.tiff.claims import refuse_claims
from zvcore.tiff.directories import Directories, check_planes
from zvcore.tiff.segments import Segments
from zvcore.tiff.untold import meaning_of
from zvcore.tiff.words import Words, words_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zvcore.layout import Layout
    from zvcore.stores import Store

__all__ = ["read"]

_FORMAT, _TITLE = "tiff", "TIFF"
# Directories and what they name are short, and values lie between them.
_BUFFER = 1 << 13
# Tiles of other sizes are not read one by one: the effort for each is the same, and large ones take much memory.
_FEWEST, _MOST = 1 << 14, 64 << 20


def read(store: Store) -> Any:
    """The series of a file: one alone, or several by their numbers; or what the store names: `2`, or `2/1`, a level."""
    assert isinstance(store, SingleFileStore)
    tifffile = library("tifffile", "tiff", _TITLE)
    with reading(store.root, _TITLE):
        source = stream(store, _BUFFER)
        with source.held():
            # Other files that this one names are not opened.
            file = tifffile.TiffFile(source, _multifile=False)
            directories = Directories(file, store.root, source.expect)
            directories.tell_tifffile(file, tifffile.TiffFrame)
            check_planes(file, store.root)
            refuse_claims(file, len(directories.ways), store.root)
            series = [one for one in file.series if one.keyframe.shape and 0 not in one.shape]
            if not series:
                raise UnsupportedError("there is no image in this TIFF", key=store.root)
            words = words_of(file, series)
    parts = [part for part in store.inside.split("/") if part]
    if not parts and len(series) > 1:
        members = {
            str(n): partial(_series, one, words[n], store.within(str(n)), directories) for n, one in enumerate(series)
        }
        return BorrowedGroup(_FORMAT, store, members)
    number = _number(parts[:1] or ["0"], len(series), store)
    if len(parts) > 1:
        level = _number(parts[1:], len(series[number].levels), store)
        return _level(series[number].levels, level, words[number], store, directories)
    return _series(series[number], words[number], store.within(str(number)), directories)


def _number(parts: Sequence[str], count: int, store: Store) -> int:
    (text, *more) = parts
    if more or not text.isascii() or not text.isdigit() or len(text) > 9 or int(text) >= count:
        raise NotFoundError("there is no such series or level", key=store.root, expected=f"0 to {count - 1}")
    return int(text)


def _series(series: Any, words: Words, place: SingleFileStore, directories: Directories) -> Any:
    """An array, or an image with its levels."""
    levels = series.levels
    if len(levels) == 1:
        return _level(levels, 0, words, place.within(f"{place.inside}/0"), directories)
    members = {
        str(n): partial(_level, levels, n, words, place.within(f"{place.inside}/{n}"), directories)
        for n in range(len(levels))
    }
    return BorrowedGroup(_FORMAT, place, members, words.attrs, partial(_image, words))


def _image(words: Words, node: BorrowedGroup) -> Image:
    levels = [Level(name, node[name], node[name].axes) for name in node]
    return Image("", levels, name=words.name, convention=_TITLE, words=words.ome, untold=tuple(words.untold))


def _level(
    levels: Sequence[Any], number: int, words: Words, place: SingleFileStore, directories: Directories
) -> BorrowedArray:
    with reading(place.root, _TITLE):
        level = levels[number]
        directories.check_alike(level.pages, level.keyframe)
        axes = words.axes(level, levels[0])
        layout, own = _layout(level, place)
    image = {"name": words.name, "convention": _TITLE, "words": words.ome} if words.describe_an_image else None
    # What is said of several levels is said of the image that they are.
    said: dict[str, Any] = {"attrs": words.attrs, "image": image, "untold": words.untold} if len(levels) == 1 else {}
    array = BorrowedArray(layout, format=_FORMAT, store=place, axes=axes, whole=own, **said)
    array.values_mean = meaning_of(level.keyframe)
    return array


def _layout(level: Any, place: SingleFileStore) -> tuple[Layout, tuple[int, ...] | None]:
    """(the layout of one level, the shape of its tiles)."""
    # Of the page: the series makes float64 of no type at all.
    if level.keyframe.dtype is None:
        raise UnsupportedError("samples of a type that is not known", key=place.root)
    # What lies nowhere is not stored, and reads as zeros.
    if level.dataoffset and level.transform is None:
        dtype = level.dtype.newbyteorder(level.keyframe.parent.byteorder)
        return FlatLayout(place, place.file, Values(level.dataoffset, tuple(level.shape), dtype)), None
    segments = Segments(level, place)
    layout = stored_layout(segments)
    if layout is not None:
        return layout, segments.tile
    # Blocks are tiles, or several of one page where they are very small.
    rank = len(segments.outer)
    page, nbytes = segments.shape[rank:], math.prod(segments.tile) * segments.dtype.itemsize
    inner = segments.tile[rank:]
    if not _FEWEST <= nbytes <= _MOST:
        inner = block_shape(page, segments.dtype.itemsize, inner)
    return BlockLayout(place.root, segments, (*(1,) * rank, *inner)), segments.tile
