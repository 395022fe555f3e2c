"""What a TIFF says that is not understood here, so that nobody takes it for carried."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zvcore.documents.xml import local_name

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["meaning_of", "untold_in_imagej", "untold_in_ome", "untold_in_tags"]

# Tags that say where values lie and how they are stored, which a copy says in its own way.
_OF_STORAGE = frozenset((
    254, 255, 256, 257, 258, 259, 262, 263, 266, 273, 277, 278, 279, 280, 281, 284, 288, 289, 290, 291, 292, 293, 297,
    317, 321, 322, 323, 324, 325, 330, 338, 339, 340, 341, 347, 512, 513, 514, 515, 517, 518, 519, 520, 521, 529,
    530, 531, 532, 559, 32995, 32997, 32998, 34377,
))  # fmt: skip
# What values stand for by how they are shown, where that is not brightness, or colours.
_WHITE_IS_ZERO = 0
_MEANINGS = {_WHITE_IS_ZERO: "0 stands for white", 3: "values are numbers of colours in a palette"}
# Which side of an image is up, unless it is the first row.
_ORIENTATION, _UPRIGHT = 274, 1
# How an image is shown, the program that wrote it, its size on paper, and words that are looked at elsewhere.
_TOLD = frozenset((270, 282, 283, 286, 287, 296, 305, 50838, 50839))
# What the words of OME have that is understood, or said by the array itself: attributes by elements.
_OME = {
    "OME": {"Creator", "UUID"},
    "Image": {"ID", "Name"},
    "Pixels": {
        "ID", "DimensionOrder", "Type", "SizeX", "SizeY", "SizeZ", "SizeC", "SizeT", "SignificantBits", "Interleaved",
        "BigEndian", "PhysicalSizeX", "PhysicalSizeY", "PhysicalSizeZ", "PhysicalSizeXUnit", "PhysicalSizeYUnit",
        "PhysicalSizeZUnit", "TimeIncrement", "TimeIncrementUnit",
    },
    "Channel": {"ID", "Name", "SamplesPerPixel"},
    "TiffData": {"IFD", "FirstC", "FirstT", "FirstZ", "PlaneCount"},
    "UUID": {"FileName"},
    "LightPath": set[str](),
}  # fmt: skip
# What the words of ImageJ have of that kind, and how it shows an image.
_IMAGEJ = frozenset((
    "ImageJ", "images", "channels", "slices", "frames", "hyperstack", "unit", "spacing", "finterval", "axes", "shape",
    "mode", "loop",
))  # fmt: skip


def meaning_of(page: Any) -> str:
    """What its values mean, in words; "" for brightness and colours."""
    return _MEANINGS.get(int(page.photometric), "")


def untold_in_tags(page: Any) -> Iterator[str]:
    """Of a page."""
    if int(page.photometric) == _WHITE_IS_ZERO:
        yield f"that {meaning_of(page)} (PhotometricInterpretation)"
    for tag in page.tags:
        if tag.code == _ORIENTATION and tag.value == _UPRIGHT:
            continue
        if tag.code not in _OF_STORAGE and tag.code not in _TOLD:
            named = f" ({tag.name})" if tag.name != str(tag.code) else ""
            yield f"the tag {tag.code}{named}"


def untold_in_ome(root: Any) -> Iterator[str]:
    """Of a whole document; what lies within something that is not known is part of that."""
    found: dict[str, None] = {}
    waiting = [root]
    while waiting:
        element = waiting.pop()
        name = local_name(element)
        if name not in _OME:
            found[f"{name} of OME"] = None
            continue
        for attribute in element.attrib:
            if attribute not in _OME[name] and not attribute.startswith(("xmlns", "xsi:", "{")):
                found[f"{attribute} of OME's {name}"] = None
        waiting += reversed(element)
    yield from found


def untold_in_imagej(told: Any) -> Iterator[str]:
    for name in told:
        if name not in _IMAGEJ:
            yield f"{name} of ImageJ"
