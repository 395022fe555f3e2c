"""Single PNG and JPEG files as arrays of one chunk: [y, x], or with their channels behind."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from zvcore.borrowed.file import library, reading
from zvcore.documents.picture_headers import jpeg_header, orientation_of, png_header
from zvcore.errors import CorruptDataError, NotFoundError, UnsupportedError, ZvcoreError

if TYPE_CHECKING:
    from zvcore.documents.picture_headers import PictureHeader
    from zvcore.stores import Store

__all__ = ["Like", "Picture", "turned_by"]

# Shape and data type.
Like = tuple[tuple[int, ...], np.dtype[Any]]

_EXTRA = "images"
_LIBRARIES = {"PNG": "imagecodecs", "JPEG": "simplejpeg"}
# How large a file may be, and its pixels.
_LARGEST = 1 << 31
# For how many bytes a byte of a file can stand by these compressions, and what headers take.
_MOST_PER_BYTE = {"PNG": 1040, "JPEG": 2048}
_SMALL = 1 << 16
# Exif stands in front of the pixels, and is no longer than 64 KiB in JPEG.
_HEAD = 1 << 18
_END_OF_IMAGE = b"\xff\xd9"
_PALETTE_CHANNELS = 4
# Where the first of the parts of a PNG lies, and as what channels are decoded that are told only there.
_PNG_CHUNKS, _GRAY_AND_ALPHA = 8, 2


class Picture:
    """The one block of a picture.

    like  what it has to be like; None: it is decoded to find that out
    """

    parallel = True

    def __init__(self, store: Store, key: str, like: Like | None = None) -> None:
        self.store, self.key = store, key
        self.shape, self.dtype = like or self._likeness()

    def read(self, region: tuple[slice, ...]) -> npt.NDArray[Any]:
        return self._decoded((self.shape, self.dtype))[region]

    def _likeness(self) -> Like:
        """What a picture is like by its header, where that tells it; else it is decoded."""
        library(_LIBRARIES[self._title], _EXTRA, self._title)
        head, size = bytes(self.store.get(self.key, 0, _HEAD) or b""), self.store.size(self.key)
        try:
            found = _png_like(head) if self._is_png else _jpeg_like(head)
        except CorruptDataError:
            found = None
        if found is None or size is None:
            values = self._decoded(None)
            return values.shape, values.dtype
        header, like = found
        try:
            self._check(header, self._title, size, None)
        except CorruptDataError as error:
            error.key = self.key
            raise
        return like

    @property
    def _is_png(self) -> bool:
        return self.key.lower().endswith(".png")

    @property
    def _title(self) -> str:
        return "PNG" if self._is_png else "JPEG"

    def _decoded(self, like: Like | None) -> npt.NDArray[Any]:
        data = self.store.get(self.key, 0, _LARGEST + 1)
        if data is None:
            raise NotFoundError("there is no such image", key=self.key)
        data = bytes(data)
        png, title = self._is_png, self._title
        with reading(self.key, title):
            try:
                header = png_header(data) if png else jpeg_header(data)
                self._check(header, title, len(data), like)
                values = _png(data) if png else _jpeg(data, header)
            except ZvcoreError as error:
                error.key = self.key
                raise
        found = values.shape, values.dtype
        if like is not None and found != like:
            raise unlike(self.key, like, found)
        return values

    def _check(self, header: PictureHeader, title: str, size: int, like: Like | None) -> None:
        """Refuse what is larger than pixels of such a file can be, before any are decoded."""
        if like is not None and (header.height, header.width) != like[0][:2]:
            raise unlike(self.key, like, ((header.height, header.width), like[1]))
        stored = math.prod((header.height, header.width, header.channels, max(8, header.depth))) // 8
        pixels = stored * (_PALETTE_CHANNELS if header.palette else 1)
        packed = stored * header.depth // max(8, header.depth)
        if not stored or size > _LARGEST or pixels > _LARGEST or packed > size * _MOST_PER_BYTE[title] + _SMALL:
            raise CorruptDataError(
                f"the {title} file claims a size that is not that of its pixels", key=self.key,
                expected=f"at most {min(_LARGEST, size * _MOST_PER_BYTE[title] + _SMALL)} bytes of pixels",
                found=f"{header.width} x {header.height} of {header.channels} channels",
            )  # fmt: skip


def turned_by(store: Store, key: str) -> int:
    """The orientation that a picture says; 1 where it is to be shown as it is. Pixels are read as they are stored."""
    data = store.get(key, 0, _HEAD)
    return 1 if data is None else orientation_of(memoryview(data))


def unlike(key: str, like: Like, found: Like) -> CorruptDataError:
    """The error for an image that is not like the first of a stack."""
    return CorruptDataError(
        "the images of a stack have one shape and one type", key=key,
        expected=f"{like[1]}{like[0]}, as the first has", found=f"{found[1]}{found[0]}",
    )  # fmt: skip


def _png_like(head: bytes) -> tuple[PictureHeader, Like] | None:
    """(the header, what pixels are like) of a picture of plain gray or colours, which is decoded as it is stored."""
    header = png_header(head)
    at, kind = _PNG_CHUNKS, b""
    while kind != b"IDAT":
        length, kind = int.from_bytes(head[at : at + 4], "big"), head[at + 4 : at + 8]
        at += 12 + length
        # A colour that stands for nothing makes a channel.
        if kind == b"tRNS" or len(kind) < 4:
            return None
    if header.palette or header.depth < 8 or header.channels == _GRAY_AND_ALPHA:
        return None
    frame = (header.height, header.width)
    shape = frame if header.channels == 1 else (*frame, header.channels)
    return header, (shape, np.dtype(f"u{header.depth // 8}"))


def _jpeg_like(head: bytes) -> tuple[PictureHeader, Like] | None:
    header = jpeg_header(head)
    if header.channels not in (1, 3):
        return None
    frame = (header.height, header.width)
    return header, (frame if header.channels == 1 else (*frame, 3), np.dtype(np.uint8))


def _png(data: bytes) -> npt.NDArray[Any]:
    return np.asarray(library(_LIBRARIES["PNG"], _EXTRA, "PNG").png_decode(data))


def _jpeg(data: bytes, header: PictureHeader) -> npt.NDArray[Any]:
    """simplejpeg takes what libjpeg only warns of, such as a stream that is cut off, for the error that it is."""
    if header.channels not in (1, 3):
        raise UnsupportedError("JPEG pictures are read in gray and in RGB", found=f"{header.channels} channels")
    if data.find(_END_OF_IMAGE, header.body) < 0:
        raise CorruptDataError("the JPEG stream has no end", offset=len(data))
    colors = "GRAY" if header.channels == 1 else "RGB"
    found = np.asarray(library(_LIBRARIES["JPEG"], _EXTRA, "JPEG").decode_jpeg(data, colorspace=colors, fastdct=False))
    return found[..., 0] if header.channels == 1 else found
