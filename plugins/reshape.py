"""Zarr's `reshape`: the same items in the same order, as an array of another shape."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from zvcore.errors import MetadataError
from zvcore_plugins._filter import Filter

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

__all__ = ["Reshape"]

# The most that numpy can hold.
_AXES = 64


class Reshape(Filter):
    """Each entry of `shape` is a length, a list of axes that become one, or (once) -1 for the rest."""

    name = "reshape"
    moves_only = True

    def __init__(self, *, shape: Any) -> None:
        if not isinstance(shape, (list, tuple)) or len(shape) > _AXES:
            raise self.refused("shape", f"a list of at most {_AXES} entries", shape)
        axes: list[int] = []
        for one in shape:
            if isinstance(one, (list, tuple)):
                axes.extend(one)
            elif type(one) is not int or not (one > 0 or one == -1):
                raise self.refused("shape", "positive numbers, lists of axes, or -1", one)
        if any(type(axis) is not int or axis < 0 for axis in axes) or sorted(set(axes)) != axes:
            raise self.refused("shape", "axes in ascending order, each once", shape)
        if sum(one == -1 for one in shape) > 1:
            raise self.refused("shape", "at most one -1", shape)
        self._shape: list[Any] = [list(one) if isinstance(one, (list, tuple)) else one for one in shape]

    def config(self) -> dict[str, Any]:
        return {"shape": self._shape}

    def encoded_form(self, dtype: np.dtype[Any], shape: tuple[int, ...]) -> tuple[np.dtype[Any], tuple[int, ...]]:
        made = []
        for one in self._shape:
            if isinstance(one, list):
                if one and one[-1] >= len(shape):
                    raise self._unfit(shape)
                made.append(math.prod(shape[axis] for axis in one))
            else:
                made.append(one)
        size = math.prod(shape)
        if -1 in made:
            rest = math.prod(n for n in made if n != -1)
            made[made.index(-1)] = size // rest if rest else 0
        if math.prod(made) != size:
            raise self._unfit(shape)
        for place, one in enumerate(self._shape):
            if isinstance(one, list) and one:
                before, behind = math.prod(shape[: one[0]]), math.prod(shape[one[-1] + 1 :])
                if math.prod(made[:place]) != before or math.prod(made[place + 1 :]) != behind:
                    raise self._unfit(shape)
        return dtype, tuple(made)

    def _unfit(self, shape: tuple[int, ...]) -> MetadataError:
        return MetadataError("the array cannot be given this shape", codec=self.name, expected=self._shape, found=shape)

    def encode_array(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return values.reshape(self.encoded_form(values.dtype, values.shape)[1])

    def decode_array(self, stored: npt.NDArray[Any], dtype: np.dtype[Any], shape: tuple[int, ...]) -> npt.NDArray[Any]:
        return stored.reshape(shape)
