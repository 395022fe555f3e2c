"""Chunks as JPEG XL pictures: the encoding `jxl`, by imagecodecs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Self

import imagecodecs
import numpy as np

from zvcore.codecs import param
from zvcore.codecs.rates import rate_at
from zvcore.errors import CorruptDataError, MetadataError
from zvcore.precomputed.encoding_images import PictureChunk, decoded
from zvcore.precomputed.encodings import ChunkEncoding, wrong_data

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zvcore.codecs import Codec

__all__ = ["Jxl", "JxlChunk"]

# What other programs write unless they are told, and from which quality on nothing is lost.
_USUAL, _LOSSLESS = 85, 100
# Up to which effort, and how many million bytes one thread encodes in a second.
_RATES = ((1, 15), (3, 10), (5, 4), (7, 2), (8, 1), (9, 0.3), (10, 0.1))
_STREAM = b"\xff\x0a"
_CONTAINER = b"\0\0\0\x0cJXL \r\n\x87\n"
_RATIOS = {1: (1, 1), 2: (12, 10), 3: (4, 3), 4: (3, 2), 5: (16, 9), 6: (5, 4), 7: (2, 1)}


class JxlChunk(PictureChunk):
    name = "jxl"

    quality: int = param(_USUAL, low=0, high=100)
    effort: int = param(5, low=1, high=10)
    decodingspeed: int = param(0, low=0, high=4)

    @property
    def encoding_rate(self) -> float | None:
        return rate_at(self.effort, _RATES)

    def _encode(self, data: memoryview) -> bytes:
        picture = self._picture(data)
        lossless = self.quality >= _LOSSLESS
        return bytes(
            imagecodecs.jpegxl_encode(
                picture[..., 0] if self.shape[3] == 1 else picture,
                level=None if lossless else self.quality,
                lossless=lossless,
                effort=self.effort,
                decodingspeed=self.decodingspeed,
                photometric="GRAY" if self.shape[3] == 1 else "RGB",
                numthreads=1,
            )
        )

    def _decode(self, data: memoryview, max_size: int) -> bytes:
        width, height = _size(bytes(data))
        self._check_header(width, height, self.shape[3], max_size)
        picture = np.asarray(decoded(lambda: imagecodecs.jpegxl_decode(bytes(data), numthreads=1)))
        if picture.dtype != np.uint8 or picture.size != int(np.prod(self.shape)):
            raise CorruptDataError(
                "the picture is not one of this chunk", expected=f"uint8 of {self.shape[3]} channels",
                found=f"{picture.dtype} {picture.shape}",
            )  # fmt: skip
        return self._raw(picture)


def _size(data: bytes) -> tuple[int, int]:
    """(width, height), found before any memory is taken for the picture."""
    if data.startswith(_CONTAINER):
        data = _stream_within(data)
    if not data.startswith(_STREAM) or len(data) < 12:
        raise CorruptDataError("not a JPEG XL picture")
    bits = int.from_bytes(data[2:12], "little")

    def take(count: int) -> int:
        nonlocal bits
        value = bits & ((1 << count) - 1)
        bits >>= count
        return value

    eighths = take(1)

    def extent() -> int:
        return 8 * (take(5) + 1) if eighths else 1 + take((9, 13, 18, 30)[take(2)])

    height = extent()
    ratio = take(3)
    if ratio:
        above, below = _RATIOS[ratio]
        return height * above // below, height
    return extent(), height


def _stream_within(data: bytes) -> bytes:
    """The beginning of the code stream in a container of boxes."""
    at = len(_CONTAINER)
    while at + 8 <= len(data):
        size, kind = int.from_bytes(data[at : at + 4], "big"), data[at + 4 : at + 8]
        head = 16 if size == 1 else 8
        if size == 1:
            size = int.from_bytes(data[at + 8 : at + 16], "big")
        if kind in (b"jxlc", b"jxlp"):
            head += 4 * (kind == b"jxlp")
            return data[at + head : at + head + 64]
        if size < head:
            break
        at += size
    raise CorruptDataError("the JPEG XL container holds no picture")


class Jxl(ChunkEncoding):
    name = "jxl"
    members = ("jxl_quality", "jxl_effort", "jxl_decodingspeed")
    lossless_members: ClassVar[Mapping[str, Any]] = {"jxl_quality": _LOSSLESS}
    compressed = True

    def __init__(self, quality: Any = _USUAL, effort: Any = 5, decodingspeed: Any = 0) -> None:
        # Some write more than 100 for what loses nothing.
        for name, value, low, high in (
            ("jxl_quality", quality, 0, 1000), ("jxl_effort", effort, 1, 10), ("jxl_decodingspeed", decodingspeed, 0, 4)
        ):  # fmt: skip
            if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
                raise MetadataError(f"{name} is wrong", expected=f"an integer from {low} to {high}", found=repr(value))
        self.quality, self.effort, self.decodingspeed = quality, effort, decodingspeed

    @classmethod
    def from_scale(cls, scale: Mapping[str, Any]) -> Self:
        return cls(scale.get("jxl_quality", _USUAL), scale.get("jxl_effort", 5), scale.get("jxl_decodingspeed", 0))

    def to_scale(self) -> dict[str, Any]:
        found = {"jxl_quality": self.quality, "jxl_effort": self.effort, "jxl_decodingspeed": self.decodingspeed}
        usual = {"jxl_effort": 5, "jxl_decodingspeed": 0}
        return {name: value for name, value in found.items() if value != usual.get(name)}

    @property
    def lossy(self) -> bool:
        return bool(self.quality < _LOSSLESS)

    def check(self, dtype: np.dtype[Any], channels: int) -> None:
        if dtype != np.uint8:
            raise wrong_data(self.name, "data type", "uint8", dtype)
        if channels not in (1, 3, 4):
            raise wrong_data(self.name, "number of channels", "1, 3 or 4", channels)

    def codecs(self, shape: tuple[int, int, int, int], dtype: np.dtype[Any]) -> Sequence[Codec]:
        return (
            JxlChunk(
                shape=shape,
                itemsize=1,
                quality=min(self.quality, _LOSSLESS),
                effort=self.effort,
                decodingspeed=self.decodingspeed,
            ),
        )
