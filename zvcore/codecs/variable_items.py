"""Items of any length, texts or bytes, as Zarr's `vlen-utf8` and `vlen-bytes` have them: one after the other."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from zvcore.errors import CorruptDataError
from zvcore.kernels.vlen import join_rows, split_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["VariableItems"]


class VariableItems:
    """The value codec of such chunks.

    dtype  numpy's variable-width text, or object for bytes
    axes   the array's axes from slowest to fastest as the items lie
    """

    def __init__(self, dtype: np.dtype[Any], axes: Sequence[int]) -> None:
        self.dtype = dtype
        self.axes = tuple(axes)

    def decode(self, data: memoryview, shape: tuple[int, ...]) -> npt.NDArray[Any]:
        starts, lengths = split_rows(data)
        stored = tuple(shape[axis] for axis in self.axes)
        count = math.prod(stored)
        if len(starts) != count:
            raise CorruptDataError("the chunk holds another number of items", expected=count, found=len(starts))
        raw = bytes(data)
        rows = [raw[at : at + size] for at, size in zip(starts.tolist(), lengths.tolist(), strict=True)]
        values = np.empty(count, self.dtype)
        values[:] = _texts(rows) if self.dtype.kind == "T" else _objects(rows)
        return values.reshape(stored).transpose(np.argsort(self.axes))

    def encode(self, values: npt.NDArray[Any]) -> bytes:
        flat = values.transpose(self.axes).ravel()
        rows = [_row(item) for item in flat.tolist()]
        offsets = np.zeros(len(rows) + 1, np.int64)
        np.cumsum([len(row) for row in rows], out=offsets[1:])
        return bytes(join_rows(b"".join(rows), offsets))


def _row(item: Any) -> bytes:
    """The bytes of an item; of None and 0, which fill values are, none. Of other numbers Python makes so many zeros."""
    if isinstance(item, str):
        return item.encode()
    if isinstance(item, (bytes, bytearray, memoryview)):
        return bytes(item)
    if item is None or (type(item) is int and item == 0):
        return b""
    raise TypeError(f"the items of this array are byte strings, not {type(item).__name__}")


def _texts(rows: list[bytes]) -> list[str]:
    try:
        return [row.decode() for row in rows]
    except UnicodeDecodeError as error:
        raise CorruptDataError(f"an item is not UTF-8: {error}", codec="vlen-utf8") from error


def _objects(rows: list[bytes]) -> npt.NDArray[Any]:
    values = np.empty(len(rows), object)
    values[:] = rows
    return values
