"""Writes PNG files."""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["png_bytes"]

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_SUB = 1
_LARGEST_SIDE = 1 << 16


def png_bytes(pixels: npt.NDArray[Any]) -> bytes:
    """A picture of uint8[height, width] in grey or uint8[height, width, 3] in red, green and blue."""
    if pixels.dtype != np.uint8 or pixels.ndim not in (2, 3) or (pixels.ndim == 3 and pixels.shape[2] != 3):
        raise ValueError(
            f"a picture is uint8[height, width] or uint8[height, width, 3], not {pixels.dtype} of {pixels.shape}"
        )
    height, width = pixels.shape[:2]
    if not (0 < height <= _LARGEST_SIDE and 0 < width <= _LARGEST_SIDE):
        raise ValueError(f"a picture has 1 to {_LARGEST_SIDE} pixels along each side, not {width} x {height}")
    values = pixels.reshape(height, width, -1)
    # Each row as differences from the pixel to the left: smooth pictures become smaller so.
    rows = np.empty((height, 1 + values.shape[1] * values.shape[2]), np.uint8)
    rows[:, 0] = _SUB
    differences = rows[:, 1:].reshape(values.shape)
    differences[:, 0] = values[:, 0]
    np.subtract(values[:, 1:], values[:, :-1], out=differences[:, 1:])
    header = struct.pack(">IIBBBBB", width, height, 8, 0 if pixels.ndim == 2 else 2, 0, 0, 0)
    return b"".join(
        [_SIGNATURE, _part(b"IHDR", header), _part(b"IDAT", zlib.compress(rows.tobytes())), _part(b"IEND", b"")]
    )


def _part(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
