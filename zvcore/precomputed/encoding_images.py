"""Chunks as pictures: the encodings `jpeg` and `png`.

JPEG is libjpeg's (`_jpeg_chunks.pyx`) where zvcore was built with it, else simplejpeg's; both take what libjpeg only
warns of (a stream cut off, a damaged one) for the error that it is. PNG is our own (`_png.pyx`) where there is a native
codec of zlib streams, else imagecodecs', which has all that the format's users need: 8 and 16 bits, one to four
channels. The extra `zvcore[images]` installs those for builds without native ones.

A picture's width times its height is the number of voxels, whatever the two are; we write x across and y * z down, as
others do.
"""

from __future__ import annotations

import importlib
import math
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from zvcore import codecs
from zvcore.codecs import Codec, param
from zvcore.documents.picture_headers import jpeg_header, png_header
from zvcore.errors import CodecNotFoundError, CorruptDataError, MetadataError
from zvcore.precomputed import _png
from zvcore.precomputed.encodings import ChunkEncoding, wrong_data

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

__all__ = ["Jpeg", "JpegChunk", "PictureChunk", "Png", "PngChunk", "decoded"]

try:
    _jpeg_chunks: Any = importlib.import_module("zvcore.precomputed._jpeg_chunks")
except ImportError:  # built without libjpeg
    _jpeg_chunks = None

_LARGEST_NATIVE = 1 << 30
# Of a JPEG picture: what libjpeg takes.
_LARGEST_SIDE = 65500
# What libraries raise over pictures that are none.
_REFUSALS = (ValueError, RuntimeError, TypeError, OSError)


class PictureChunk(Codec):
    """What is common to pictures: raw bytes have the channels apart, pictures have them together."""

    shape: tuple[int, ...] = param((1, 1, 1, 1))
    itemsize: int = param(1, choices=(1, 2))

    @property
    def _dtype(self) -> np.dtype[Any]:
        return np.dtype(f"<u{self.itemsize}")

    def _picture(self, data: memoryview) -> np.ndarray[Any, Any]:
        """(height, width, channels) of raw bytes."""
        x, y, z, channels = self.shape
        planes = np.frombuffer(data, self._dtype)
        if planes.size != x * y * z * channels:
            raise ValueError(f"{len(data)} bytes are no chunk of shape {self.shape}")
        if channels == 1:
            return planes.reshape(y * z, x, 1)
        pixels = np.moveaxis(planes.reshape(channels, y * z * x), 0, -1)
        # By way of one axis: of a single pixel numpy would keep the strides of planes, which libraries refuse.
        return pixels.ravel().reshape(y * z, x, channels)

    def _check_data(self, data: Any) -> None:
        if (found := memoryview(data).nbytes) != math.prod(self.shape) * self.itemsize:
            raise ValueError(f"{found} bytes are no chunk of shape {self.shape}")

    def _check(self) -> None:
        if len(self.shape) != 4 or any(size < 1 for size in self.shape):
            raise MetadataError("a chunk has a shape (x, y, z, channels)", codec=self.name, found=self.shape)

    def _check_header(self, width: int, height: int, channels: int, max_size: int) -> None:
        x, y, z, wanted = self.shape
        if width * height != x * y * z or channels != wanted:
            raise CorruptDataError(
                "the picture is not one of this chunk",
                expected=f"{x * y * z} pixels of {wanted} channels",
                found=f"{width} x {height} of {channels}",
            )
        if width * height * channels * self.itemsize > max_size:
            raise CorruptDataError("the picture is larger than allowed", expected=f"at most {max_size} bytes")

    def _raw(self, picture: np.ndarray[Any, Any]) -> bytes:
        planes = np.moveaxis(picture.reshape(-1, self.shape[3]), -1, 0)
        return planes.astype(self._dtype, copy=False).tobytes()


class JpegChunk(PictureChunk):
    name = "jpeg"

    quality: int = param(75, low=0, high=100)

    def __zv_codec__(self) -> Any:
        sides = self._sides()
        if _jpeg_chunks is None or sides is None or self.shape[3] not in (1, 3) or self.itemsize != 1:
            return None
        return _jpeg_chunks.codec_table(*sides, self.shape[3], self.quality)

    def _sides(self) -> tuple[int, int] | None:
        """The width and height of pictures of such chunks; None if there are none that JPEG can have."""
        x, y, z, _ = self.shape
        width, height = x, y * z
        if max(width, height) > _LARGEST_SIDE:
            # Any other way to cut the voxels into lines is as good, as long as there is one.
            width = next(n for n in range(_LARGEST_SIDE, 0, -1) if x * y * z % n == 0)
            height = x * y * z // width
        return (width, height) if height <= _LARGEST_SIDE else None

    def _encode(self, data: memoryview) -> bytes:
        picture, sides = self._picture(data), self._sides()
        if sides is None:
            raise MetadataError(
                f"no picture of at most {_LARGEST_SIDE} x {_LARGEST_SIDE} has as many pixels",
                codec=self.name, found=math.prod(self.shape[:3]),
            )  # fmt: skip
        picture = picture.reshape(sides[1], sides[0], -1)
        gray = self.shape[3] == 1
        encoded: bytes = _library("simplejpeg").encode_jpeg(
            picture,
            quality=self.quality,
            colorspace="GRAY" if gray else "RGB",
            colorsubsampling="Gray" if gray else "444",
            fastdct=False,
        )
        return encoded

    def _decode(self, data: memoryview, max_size: int) -> bytearray:
        # Before memory is taken.
        height, width, channels, *_ = jpeg_header(data)
        self._check_header(width, height, channels, max_size)
        out = bytearray(width * height * channels)
        self._decode_into(data, memoryview(out))
        return out

    def _decode_into(self, data: memoryview, out: memoryview) -> None:
        height, width, channels, *_ = jpeg_header(data)
        self._check_header(width, height, channels, len(out))
        simplejpeg = _library("simplejpeg")
        try:
            if channels == 1:
                picture = simplejpeg.decode_jpeg(data, "GRAY", fastdct=False, buffer=out)
            else:
                picture = simplejpeg.decode_jpeg(data, "RGB", fastdct=False)
        except _REFUSALS as error:
            raise _no_picture(error) from error
        if picture.shape != (height, width, channels) or picture.size != len(out):
            # The library goes by another header than we do.
            raise CorruptDataError(
                "the picture is not one of this chunk", expected=(height, width, channels), found=picture.shape
            )
        if channels > 1:
            np.frombuffer(out, np.uint8).reshape(channels, -1)[...] = picture.reshape(-1, channels).T


class PngChunk(PictureChunk):
    name = "png"

    level: int = param(6, low=0, high=9)

    encoding_rate = 25e6

    def __zv_codec__(self) -> Any:
        zlib = _zlib(self.level)
        # Larger ones may be of several pieces.
        if zlib is None or math.prod(self.shape) * self.itemsize > _LARGEST_NATIVE:
            return None
        return _png.codec_table(self.shape, self.itemsize, zlib)

    def _encode(self, data: memoryview) -> bytes:
        picture = self._picture(data).astype(self._dtype.newbyteorder("="), copy=False)
        if self.shape[3] == 1:
            picture = picture[..., 0]
        # Noise becomes longer: by a byte for each line, what the pieces are wrapped in, and the headers. The library
        # does not count the lines.
        room = picture.nbytes + picture.shape[0] + picture.nbytes // 64 + 4096
        return bytes(_library("imagecodecs").png_encode(picture, level=self.level, out=bytearray(room)))

    def _decode(self, data: memoryview, max_size: int) -> bytes:
        height, width, channels, depth, palette, _ = png_header(data)
        if palette or depth != 8 * self.itemsize:
            raise CorruptDataError(
                "the picture has another kind of pixel", expected=f"{8 * self.itemsize} bits without a palette",
                found=f"{depth} bits{' of a palette' if palette else ''}",
            )  # fmt: skip
        self._check_header(width, height, channels, max_size)
        picture = np.empty(
            (height, width) if channels == 1 else (height, width, channels), self._dtype.newbyteorder("=")
        )
        imagecodecs = _library("imagecodecs")
        decoded(lambda: imagecodecs.png_decode(bytes(data), out=picture))
        return self._raw(picture)


def _library(name: str) -> Any:
    """What pictures go through without native code."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise CodecNotFoundError(f"chunks as pictures need {name}: pip install zvcore[images]") from error


def _zlib(level: int) -> Any:
    """The C table of the codec of zlib streams; None where there is none."""
    try:
        return codecs.get("gzip", level=level, use_zlib=True).__zv_codec__()
    except CodecNotFoundError:
        return None


def decoded(decode: Callable[[], Any]) -> Any:
    """A decoder's answer; whatever it raises, the bytes are to blame."""
    try:
        return decode()
    except _REFUSALS as error:
        raise _no_picture(error) from error


def _no_picture(error: Exception) -> CorruptDataError:
    return CorruptDataError(f"not a valid picture: {error}")


class Jpeg(ChunkEncoding):
    name = "jpeg"
    members = ("jpeg_quality",)
    compressed = True
    lossy = True

    def __init__(self, quality: Any = 75) -> None:
        if isinstance(quality, bool) or not isinstance(quality, int) or not 0 <= quality <= 100:
            raise MetadataError("jpeg_quality is wrong", expected="an integer from 0 to 100", found=repr(quality))
        self.quality = quality

    @classmethod
    def from_scale(cls, scale: Mapping[str, Any]) -> Self:
        return cls(scale.get("jpeg_quality", 75))

    def to_scale(self) -> dict[str, Any]:
        return {} if self.quality == 75 else {"jpeg_quality": self.quality}

    def check(self, dtype: np.dtype[Any], channels: int) -> None:
        if dtype != np.uint8:
            raise wrong_data(self.name, "data type", "uint8", dtype)
        if channels not in (1, 3):
            raise wrong_data(self.name, "number of channels", "1 or 3", channels)

    def codecs(self, shape: tuple[int, int, int, int], dtype: np.dtype[Any]) -> Sequence[Codec]:
        codec = JpegChunk(shape=shape, itemsize=1, quality=self.quality)
        if not codec.native:
            _library("simplejpeg")
        return (codec,)


class Png(ChunkEncoding):
    name = "png"
    members = ("png_level",)
    compressed = True

    def __init__(self, level: Any = 6) -> None:
        # -1 is zlib's name for its default.
        if isinstance(level, bool) or not isinstance(level, int) or not -1 <= level <= 9:
            raise MetadataError("png_level is wrong", expected="an integer from 0 to 9", found=repr(level))
        self.level = level

    @classmethod
    def from_scale(cls, scale: Mapping[str, Any]) -> Self:
        return cls(scale.get("png_level", 6))

    def to_scale(self) -> dict[str, Any]:
        return {} if self.level == 6 else {"png_level": self.level}

    def check(self, dtype: np.dtype[Any], channels: int) -> None:
        if dtype.kind != "u" or dtype.itemsize > 2:
            raise wrong_data(self.name, "data type", "uint8 or uint16", dtype)
        if not 1 <= channels <= 4:
            raise wrong_data(self.name, "number of channels", "1 to 4", channels)

    def codecs(self, shape: tuple[int, int, int, int], dtype: np.dtype[Any]) -> Sequence[Codec]:
        codec = PngChunk(shape=shape, level=6 if self.level < 0 else self.level, itemsize=dtype.itemsize)
        if not codec.native:
            _library("imagecodecs")
        return (codec,)
