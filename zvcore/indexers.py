"""`array.oindex` and `array.vindex`: selections by lists of coordinates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic

from zvcore.engine.selection import Selection
from zvcore.typed import Item

if TYPE_CHECKING:
    import numpy.typing as npt

    from zvcore.array import Array

__all__ = ["OrthogonalIndex", "PointIndex"]


class OrthogonalIndex(Generic[Item]):
    """`array.oindex`."""

    def __init__(self, array: Array[Item]) -> None:
        self._array = array

    def __getitem__(self, key: Any) -> npt.NDArray[Item]:
        array = self._array
        found: npt.NDArray[Item] = array._read(Selection.orthogonal(key, array.shape, array.chunks), None, array._work)
        return found

    def __setitem__(self, key: Any, value: Any) -> None:
        array = self._array
        array._write(Selection.orthogonal(key, array.shape, array.chunks), value, array._work)


class PointIndex(Generic[Item]):
    """`array.vindex`."""

    def __init__(self, array: Array[Item]) -> None:
        self._array = array

    def __getitem__(self, key: Any) -> npt.NDArray[Item]:
        array = self._array
        found: npt.NDArray[Item] = array._read(Selection.points(key, array.shape, array.chunks), None, array._work)
        return found

    def __setitem__(self, key: Any, value: Any) -> None:
        array = self._array
        array._write(Selection.points(key, array.shape, array.chunks), value, array._work)
