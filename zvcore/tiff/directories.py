"""The chain of a TIFF's directories, each of which says where the next one lies."""

from __future__ import annotations

from typing import Any

import numpy as np

from zvcore.errors import CorruptDataError, MetadataError

__all__ = ["check_chain", "check_planes"]

# More tags than any program writes: tifffile takes such a directory for the end of the chain.
_MOST_TAGS = 4096
# How many bytes an item of each type takes; of types that nobody knows, none.
_SIZES = (0, 1, 1, 2, 4, 8, 1, 1, 2, 4, 8, 4, 8, 4, 0, 0, 8, 8, 8)
# How a tag lies by the size of offsets. Other forms, such as that of NDPI, have more than this.
_TAGS = {
    (4, 12): [("code", "u2"), ("type", "u2"), ("count", "u4"), ("value", "u4")],
    (8, 20): [("code", "u2"), ("type", "u2"), ("count", "u8"), ("value", "u8")],
}


def check_chain(file: Any, key: str) -> None:
    """That the chain comes to its end, as one that a whole file has.

    tifffile follows a circle for ever, and keeps what it finds. What leads nowhere it takes for the end: of a file that
    was cut off, the pages behind would be missing without a word.
    """
    form, handle = file.tiff, file.filehandle
    order = "little" if file.byteorder == "<" else "big"
    at = file.pages.first.offset
    seen: set[int] = set()
    while at:
        if at in seen:
            raise MetadataError("the directories of this TIFF lead in a circle", key=key, found=at)
        if at >= handle.size:
            raise CorruptDataError(
                f"the directory behind the first {len(seen)} lies behind the end of this TIFF, which was cut off",
                key=key, offset=at, expected=f"an offset below {handle.size}, or 0", found=at,
            )  # fmt: skip
        seen.add(at)
        handle.seek(at)
        tags = _number(handle, form.tagnosize, order)
        end = at + form.tagnosize + tags * form.tagsize + form.offsetsize
        if not 0 < tags <= _MOST_TAGS or end > handle.size:
            raise CorruptDataError(
                f"what should be directory {len(seen)} of this TIFF is none", key=key, offset=at,
                expected=f"1 to {_MOST_TAGS} tags in the file", found=tags,
            )  # fmt: skip
        _check_values(handle.read(tags * form.tagsize), form, file.byteorder, handle.size, key)
        at = _number(handle, form.offsetsize, order)


def check_planes(file: Any, key: str) -> None:
    """An error where planes are missing that have no directories: of stacks beyond 4 GiB, ImageJ gives the first plane
    one, and the others follow its values. tifffile takes a stack that does not fit into the file for one plane.
    """
    if not file.is_imagej or file.pages.is_multipage:
        return
    page, count = file.pages.first, (file.imagej_metadata or {}).get("images", 1)
    # One plane that a program took out of a stack keeps the words, and nothing follows its values.
    begin = page.dataoffsets[0] if page.is_final and page.dataoffsets else 0
    there = file.filehandle.size - begin
    if page.offset < begin and isinstance(count, int) and page.nbytes < there < count * page.nbytes:
        raise CorruptDataError(
            "the file is too short for the planes that it tells of", key=key, offset=begin,
            expected=f"{count * page.nbytes} bytes", found=f"{there} bytes",
        )  # fmt: skip


def _check_values(raw: bytes, form: Any, byteorder: Any, size: int, key: str) -> None:
    """That what the tags of a directory say lies in the file: tifffile leaves out what does not, such as all words."""
    lies = _TAGS.get((form.offsetsize, form.tagsize))
    if lies is None:
        return
    tags = np.frombuffer(raw, np.dtype(lies).newbyteorder(byteorder))
    sizes = np.array(_SIZES, np.uint64)[np.minimum(tags["type"], len(_SIZES) - 1)] * (tags["type"] < len(_SIZES))
    # Of a wild number of items as a float, which cannot overflow.
    nbytes = tags["count"].astype(np.float64) * sizes
    outside = (nbytes > form.offsetsize) & (tags["value"] + nbytes > size)
    if outside.any():
        tag = tags[int(np.argmax(outside))]
        raise CorruptDataError(
            f"what tag {tag['code']} says lies behind the end of this TIFF, which was cut off", key=key,
            offset=int(tag["value"]), expected=f"at most {size} bytes", found=int(nbytes[np.argmax(outside)]),
        )  # fmt: skip


def _number(handle: Any, size: int, order: Any) -> int:
    """A number in the file."""
    return int.from_bytes(handle.read(size), order)
