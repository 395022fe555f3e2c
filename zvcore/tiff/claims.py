"""What descriptions in a TIFF claim, where tifffile takes memory for it before it looks what is there."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from zvcore.documents.xml import local_name, parse_xml
from zvcore.errors import MetadataError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["refuse_claims"]

# Places of planes, looks at directories, and labels of axes within axes: more than such files have.
_MOST = 4_000_000
_SIZES = ("SizeX", "SizeY", "SizeZ", "SizeC", "SizeT")


def refuse_claims(file: Any, directories: int, key: str) -> None:
    """An error where a few words would have tifffile make lists of any length.

    What is no XML, or has no numbers, it passes over or refuses by itself.
    """
    _refuse(_planes_of_micro_manager(file), "an index of Micro-Manager", key)
    _refuse(_channels_of_flimage(file), "a description of FLIMage", key)
    text = file.ome_metadata if file.is_ome else None
    if text is None:
        return
    try:
        root = parse_xml(text, key)
    except MetadataError:
        return
    pixels_of_a_plane = max(1, math.prod(file.pages.first.shape))
    claimed = 0
    for element in root.iter():
        claimed += sum(_claimed(element, pixels_of_a_plane, directories))
        _refuse(claimed, "an OME description", key)


def _refuse(claimed: int, what: str, key: str) -> None:
    if claimed > _MOST:
        raise UnsupportedError(f"{what} of more planes than this", key=key, expected=f"at most {_MOST}", found=claimed)


def _planes_of_micro_manager(file: Any) -> int:
    """How many there are between the first and the last one that an index names, along each of its axes."""
    index = (file.micromanager_metadata or {}).get("IndexMap")
    if index is None or not len(index):
        return 0
    first, last = index[:, :4].min(axis=0).tolist(), index[:, :4].max(axis=0).tolist()
    return math.prod(end - begin + 1 for begin, end in zip(first, last, strict=True))


def _channels_of_flimage(file: Any) -> int:
    """How many lists of channels have, of which each is made several times."""
    try:
        return int((file.flimage_metadata or {}).get("State.Acq.nChannels", 0))
    except (TypeError, ValueError, OverflowError):
        return 0


def _claimed(element: Any, pixels_of_a_plane: int, directories: int) -> Iterator[int]:
    """How many items are made for an element, one after the other."""
    name = local_name(element)
    if name == "Pixels":
        yield math.prod(_number(element, size, 1) for size in _SIZES) // pixels_of_a_plane
    elif name == "TiffData":
        # Without a number, all directories are meant.
        yield _number(element, "PlaneCount", 0) or _number(element, "NumPlanes", 0) or directories
    elif name[:-1].endswith("Along"):
        step = _real(element, "Step", 1.0)
        labels = (_real(element, "End", 0.0) - _real(element, "Start", 0.0)) / step if step else 0.0
        yield int(labels) if 0 <= labels <= _MOST else _MOST + 1 if labels > 0 else 0


def _number(element: Any, name: str, otherwise: int) -> int:
    text = element.get(name)
    try:
        return otherwise if text is None else abs(int(text))
    except ValueError:
        return otherwise


def _real(element: Any, name: str, otherwise: float) -> float:
    text = element.get(name)
    try:
        return otherwise if text is None else float(text)
    except ValueError:
        return otherwise
