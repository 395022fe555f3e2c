"""Serializers of numcodecs, whose libraries believe what a stream says: here it is held against what must come out."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from zvcore.errors import CorruptDataError

__all__ = ["COUNTED", "NUMBERS", "check_count", "decode_numbers"]

# Those that begin with the number of their items, of which each begins with its own length. Both have four bytes.
COUNTED = frozenset(("vlen-array", "vlen-bytes", "vlen-utf8"))

# What zfp calls the types of items, and how many bits a header has for the length of each axis.
_ZFP_TYPES = {"i4": 1, "i8": 2, "f4": 3, "f8": 4}
_ZFP_LENGTHS = {1: 48, 2: 24, 3: 16, 4: 12}
# The most bytes that a block of 4 to the power of the rank takes, and those that are read ahead.
_ZFP_BLOCK = 16658 // 8 + 8


def check_count(codec: Any, stored: Any) -> None:
    """Refuse a number of items that the bytes cannot hold: numcodecs makes room for as many before it looks at any."""
    data = memoryview(stored).cast("B")
    most = len(data) // 4 - 1
    claimed = int.from_bytes(data[:4], "little")
    if claimed > max(most, 0):
        what = "the stream claims more items than it has room for"
        raise CorruptDataError(what, codec=codec.name, expected=f"at most {max(most, 0)}", found=claimed)


def decode_numbers(
    identifier: str, codec: Any, data: Any, dtype: np.dtype[Any], shape: tuple[int, ...]
) -> npt.NDArray[Any]:
    """The array that the bytes of `pcodec` or `zfpy` stand for."""
    return NUMBERS[identifier](codec, memoryview(data).cast("B"), dtype, shape)


def _pcodec(codec: Any, data: memoryview, dtype: np.dtype[Any], shape: tuple[int, ...]) -> npt.NDArray[Any]:
    from pcodec import standalone

    values = np.empty(math.prod(shape), dtype)
    progress = standalone.simple_decompress_into(bytes(data), values)
    if progress.n_processed != values.size or not progress.finished:
        found = f"{progress.n_processed} or more"
        raise CorruptDataError("not as many values as the chunk", codec=codec.name, expected=values.size, found=found)
    return values.reshape(shape)


def _zfpy(codec: Any, data: memoryview, dtype: np.dtype[Any], shape: tuple[int, ...]) -> npt.NDArray[Any]:
    import zfpy

    expected = _zfp_header(dtype, shape)
    header = bytes(data[:12])
    found = int.from_bytes(header[4:12], "little") & (2**52 - 1)
    if len(data) < 12 or header[:3] != b"zfp" or found != expected:
        what = "the header of zfp is another one than the chunk's type and shape have"
        raise CorruptDataError(what, codec=codec.name, expected=f"zfp, {expected:013x}", found=header.hex())
    # The library reads on where a stream ends too early: there, it finds zeros.
    blocks = math.prod(-(-n // 4) for n in shape)
    padded = np.zeros(len(data) + blocks * _ZFP_BLOCK + 64, np.uint8)
    padded[: len(data)] = np.frombuffer(data, np.uint8)
    return np.asarray(zfpy.decompress_numpy(padded)).reshape(shape)


def _zfp_header(dtype: np.dtype[Any], shape: tuple[int, ...]) -> int:
    """Type, rank and lengths as the header has them, the fastest axis first."""
    kind = _ZFP_TYPES.get(dtype.str[1:])
    bits = _ZFP_LENGTHS.get(len(shape))
    if kind is None or bits is None or max(shape) > 2**bits:
        raise CorruptDataError("zfp cannot hold chunks of this type and shape", found=f"{dtype} {shape}")
    lengths = sum((n - 1) << (bits * place) for place, n in enumerate(reversed(shape)))
    return kind - 1 | (len(shape) - 1) << 2 | lengths << 4


# Those that hold numbers alone; the others hold objects.
NUMBERS = {"pcodec": _pcodec, "zfpy": _zfpy}
