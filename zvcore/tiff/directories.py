"""The chain of a TIFF's directories, each of which says where the next one lies."""

from __future__ import annotations

from typing import Any

from zvcore.errors import MetadataError

__all__ = ["refuse_circles"]

# More tags than any program writes: tifffile takes such a directory for the end of the chain.
_MOST_TAGS = 4096


def refuse_circles(file: Any, key: str) -> None:
    """MetadataError if the chain leads back into itself: tifffile would follow it for ever, and keep what it finds."""
    form, handle = file.tiff, file.filehandle
    order = "little" if file.byteorder == "<" else "big"
    at = file.pages.first.offset
    seen = set()
    while 0 < at < handle.size:
        seen.add(at)
        handle.seek(at)
        tags = _number(handle, form.tagnosize, order)
        if tags > _MOST_TAGS:
            return
        handle.seek(at + form.tagnosize + tags * form.tagsize)
        after = _number(handle, form.offsetsize, order)
        if after in seen:
            raise MetadataError("the directories of this TIFF lead in a circle", key=key, offset=at, found=after)
        at = after


def _number(handle: Any, size: int, order: Any) -> int:
    """A number in the file; what lies behind its end is 0."""
    return int.from_bytes(handle.read(size), order)
