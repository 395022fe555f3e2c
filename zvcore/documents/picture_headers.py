"""What the headers of pictures say, PNG and JPEG, found before any memory is taken for their pixels."""

from __future__ import annotations

from typing import NamedTuple

from zvcore.documents._jpeg import find_frame
from zvcore.errors import CorruptDataError

__all__ = ["PictureHeader", "jpeg_header", "orientation_of", "png_header"]

_PNG = b"\x89PNG\r\n\x1a\n"
_GRAY, _PALETTE = 0, 3
_PNG_CHANNELS = {_GRAY: 1, 2: 3, _PALETTE: 1, 4: 2, 6: 4}
# How many bits a sample of each kind may have.
_PNG_DEPTHS = {_GRAY: (1, 2, 4, 8, 16), 2: (8, 16), _PALETTE: (1, 2, 4, 8), 4: (8, 16), 6: (8, 16)}
_START_OF_SCAN = 0xDA
# Those behind which no length stands: libjpeg passes over them.
_ALONE = frozenset({0x01, *range(0xD0, 0xD8)})
_STUFFED = 0x00
# Where Exif stands, and its tag.
_APPLICATION = 0xE1
_ORIENTATION, _SHORT, _MOST_ORIENTATIONS = 0x0112, 3, 8


class PictureHeader(NamedTuple):
    """`channels` as stored, each of `depth` bits; where the values are those of a palette, there is one.

    body  where what follows the header begins
    """

    height: int
    width: int
    channels: int
    depth: int
    palette: bool
    body: int


def png_header(data: memoryview | bytes) -> PictureHeader:
    if bytes(data[:8]) != _PNG or bytes(data[12:16]) != b"IHDR" or len(data) < 33:
        raise CorruptDataError("not a PNG picture", offset=0, expected=_PNG, found=bytes(data[:8]))
    width, height = int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big")
    depth, kind = data[24], data[25]
    if depth not in _PNG_DEPTHS.get(kind, ()):
        raise CorruptDataError("no kind of pixel that PNG has", offset=24, found=f"{depth} bits of colour type {kind}")
    return PictureHeader(height, width, _PNG_CHANNELS[kind], depth, kind == _PALETTE, 33)


def jpeg_header(data: memoryview | bytes) -> PictureHeader:
    if bytes(data[:2]) != b"\xff\xd8":
        raise CorruptDataError("not a JPEG picture", offset=0, expected=b"\xff\xd8", found=bytes(data[:2]))
    at, length = find_frame(data)
    if length >= 0:
        height, width = data[at + 5] << 8 | data[at + 6], data[at + 7] << 8 | data[at + 8]
        return PictureHeader(height, width, data[at + 9], 8, False, at + 2 + length)
    raise CorruptDataError("the JPEG picture has no readable header", offset=at)


def orientation_of(data: memoryview | bytes) -> int:
    """How a picture is to be turned or mirrored to be shown, as Exif has it: 1 to 8; 1 is as it is, or nothing is said.

    What is damaged says nothing.
    """
    exif = _png_exif(data) if bytes(data[:8]) == _PNG else _jpeg_exif(data)
    if exif[:4] not in (b"II*\0", b"MM\0*"):
        return 1

    def number(at: int, length: int) -> int:
        return int.from_bytes(exif[at : at + length], "little" if exif[:1] == b"I" else "big")

    first = number(4, 4)
    for entry in range(first + 2, min(first + 2 + 12 * number(first, 2), len(exif) - 11), 12):
        if number(entry, 2) == _ORIENTATION and number(entry + 2, 2) == _SHORT:
            found = number(entry + 8, 2)
            return found if 1 <= found <= _MOST_ORIENTATIONS else 1
    return 1


def _png_exif(data: memoryview | bytes) -> bytes:
    at = 8
    while at + 12 <= len(data):
        length, kind = int.from_bytes(data[at : at + 4], "big"), bytes(data[at + 4 : at + 8])
        if kind == b"eXIf":
            return bytes(data[at + 8 : at + 8 + length])
        at += 12 + length
    return b""


def _jpeg_exif(data: memoryview | bytes) -> bytes:
    at = 2
    while at + 4 <= len(data) and data[at] == 0xFF and data[at + 1] != _START_OF_SCAN:
        marker = data[at + 1]
        if marker == 0xFF or marker in _ALONE:
            at += 1 if marker == 0xFF else 2
            continue
        length = int.from_bytes(data[at + 2 : at + 4], "big")
        if length < 2 or marker == _STUFFED:
            break
        if marker == _APPLICATION and bytes(data[at + 4 : at + 10]) == b"Exif\0\0":
            return bytes(data[at + 10 : at + 2 + length])
        at += 2 + length
    return b""
