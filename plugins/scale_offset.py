"""Zarr's `scale_offset`: numbers minus an offset, multiplied by a factor, in their own type."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from zvcore.codecs.numbers import read_float, read_integer
from zvcore.codecs.small_numbers import kind_of, limits_of
from zvcore.errors import CorruptDataError, MetadataError, UnfitValueError
from zvcore_plugins._filter import Filter

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from zvcore.codecs import Codec

__all__ = ["ScaleOffset"]


class ScaleOffset(Filter):
    """`(value - offset) * scale` is stored. Integers must fit, and what is stored must be divisible by `scale`."""

    name = "scale_offset"
    elementwise = True

    def __init__(self, *, offset: Any = 0, scale: Any = 1) -> None:
        for name, value in (("offset", offset), ("scale", scale)):
            if isinstance(value, bool) or not isinstance(value, (int, float, str)):
                raise self.refused(name, "a number", value)
        self._said: dict[str, Any] = {"offset": offset, "scale": scale}

    def config(self) -> dict[str, Any]:
        return dict(self._said)

    def written_config(self) -> dict[str, Any]:
        return {name: value for name, value in self._said.items() if value != {"offset": 0, "scale": 1}[name]}

    def _numbers(self, dtype: np.dtype[Any]) -> tuple[Any, Any]:
        """(offset, scale) as numbers of this type."""
        self.check_numbers(dtype)
        read = read_float if kind_of(dtype) == "f" else read_integer
        try:
            offset, scale = (read(self._said[name], dtype) for name in ("offset", "scale"))
        except (TypeError, ValueError, OverflowError) as error:
            raise MetadataError(f"not numbers of {dtype}: {error}", codec=self.name) from error
        if scale == 0:
            raise self.refused("scale", "a number other than 0", self._said["scale"])
        return offset, scale

    def encoded_form(self, dtype: np.dtype[Any], shape: tuple[int, ...]) -> tuple[np.dtype[Any], tuple[int, ...]]:
        self._numbers(dtype)
        return dtype, shape

    def as_bytes(self, dtype: np.dtype[Any]) -> Codec | None:
        if dtype.name not in ("float32", "float64") or not dtype.isnative:
            return None
        offset, scale = map(float, self._numbers(dtype))
        if not (math.isfinite(offset) and math.isfinite(scale)):
            return None
        from zvcore_plugins.filters import ScaledFloats

        return ScaledFloats(dtype=dtype.name, scale=scale, offset=offset)

    def encode_array(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        import numpy as np

        dtype = values.dtype
        offset, scale = self._numbers(dtype)
        if kind_of(dtype) == "f":
            with np.errstate(all="ignore"):
                return np.asarray((values - offset) * scale, dtype)
        self._fit(dtype, [(int(one) - int(offset)) * int(scale) for one in _extremes(values)], UnfitValueError)
        # numpy's integers wrap around: a result that fits is right.
        wide, offset, scale = _wide(values, offset, scale)
        made: npt.NDArray[Any] = ((wide - offset) * scale).astype(dtype)
        return made

    def decode_array(self, stored: npt.NDArray[Any], dtype: np.dtype[Any], shape: tuple[int, ...]) -> npt.NDArray[Any]:
        import numpy as np

        offset, scale = self._numbers(dtype)
        if kind_of(dtype) == "f":
            with np.errstate(all="ignore"):
                return np.asarray(stored / scale + offset, dtype)
        wide, offset, scale = _wide(stored, offset, scale)
        if int(scale) not in (1, -1) and (wide % scale).any():
            raise CorruptDataError(
                "stored integers are not multiples of the scale", codec=self.name, expected=int(scale)
            )
        # Dividing the least of them by -1 has no result.
        divided = wide if int(scale) == 1 else -wide if int(scale) == -1 else wide // scale
        ends = [int(one) // int(scale) + int(offset) for one in _extremes(stored)]
        self._fit(dtype, ends, CorruptDataError)
        made: npt.NDArray[Any] = (divided + offset).astype(dtype)
        return made

    def _fit(self, dtype: np.dtype[Any], found: list[int], error: type[UnfitValueError | CorruptDataError]) -> None:
        """Whether integers fit. The largest and least results come from the largest and least values."""
        least, most = limits_of(dtype)
        for value in found:
            if not least <= value <= most:
                told = f"the value {value} does not fit: it is outside the range of dtype {dtype}"
                raise error(told, codec=self.name)


def _extremes(values: npt.NDArray[Any]) -> list[int]:
    wide = _wide(values)[0]
    return [int(wide.min()), int(wide.max())] if wide.size else []


def _wide(values: npt.NDArray[Any], *numbers: Any) -> tuple[Any, ...]:
    """Integers as a type of numpy's own."""
    import numpy as np

    if values.dtype.isbuiltin != 2:
        return values, *numbers
    dtype = np.dtype("i2")
    return values.astype(dtype), *(dtype.type(int(one)) for one in numbers)
