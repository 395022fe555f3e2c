"""Zarr's `cast_value`: arrays of numbers as numbers of another type."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zvcore.codecs.numbers import read_float, read_integer
from zvcore.codecs.small_numbers import FLOATS, INTEGERS, limits_of, small_number
from zvcore.errors import CorruptDataError, MetadataError, UnfitValueError, UnsupportedError
from zvcore_plugins._filter import Filter

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

__all__ = ["CastValue"]

_PLAIN = frozenset(
    ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64")
)


class CastValue(Filter):
    """Each number is stored as the nearest one of `data_type`, or as `rounding` says. A number that does not fit is an
    error, unless `out_of_range` is "clamp" or "wrap"; `scalar_map` names numbers that become others, before any rule.
    """

    name = "cast_value"
    elementwise = True

    def __init__(
        self, *, data_type: str, rounding: str = "nearest-even", out_of_range: str | None = None, scalar_map: Any = None
    ) -> None:
        import numpy as np

        from zvcore_plugins import _casting

        known = isinstance(data_type, str) and (data_type in _PLAIN or data_type in FLOATS or data_type in INTEGERS)
        if not known:
            raise self.refused("data_type", "the name of integers or floats", data_type)
        if not isinstance(rounding, str) or rounding not in _casting.ROUNDING:
            raise self.refused("rounding", ", ".join(_casting.ROUNDING), rounding)
        if out_of_range not in (None, "clamp", "wrap"):
            raise self.refused("out_of_range", "clamp, wrap or nothing", out_of_range)
        self._dtype: np.dtype[Any] = np.dtype(data_type) if data_type in _PLAIN else small_number(data_type)
        if out_of_range == "wrap" and not _casting.is_integer(self._dtype):
            raise self.refused("out_of_range", "clamp or nothing, for floats", out_of_range)
        self._map: dict[str, list[Any]] = self._checked_map({} if scalar_map is None else scalar_map)
        self._said: dict[str, Any] = {
            "data_type": data_type, "rounding": rounding, "out_of_range": out_of_range, "scalar_map": scalar_map,
        }  # fmt: skip

    def _checked_map(self, given: Any) -> dict[str, list[Any]]:
        if not isinstance(given, dict) or not set(given) <= {"encode", "decode"}:
            raise self.refused("scalar_map", "an object with `encode` and `decode`", given)
        for pairs in given.values():
            if not isinstance(pairs, list) or not all(
                isinstance(one, (list, tuple)) and len(one) == 2 for one in pairs
            ):
                raise self.refused("scalar_map", "lists of pairs", pairs)
        return given

    def config(self) -> dict[str, Any]:
        return dict(self._said)

    def written_config(self) -> dict[str, Any]:
        defaults = {"rounding": "nearest-even"}
        return {name: value for name, value in self._said.items() if value not in (None, defaults.get(name))}

    def encoded_form(self, dtype: np.dtype[Any], shape: tuple[int, ...]) -> tuple[np.dtype[Any], tuple[int, ...]]:
        self.check_numbers(dtype)
        for direction, ends in (("encode", (dtype, self._dtype)), ("decode", (self._dtype, dtype))):
            self._pairs(direction, *ends)
        return self._dtype, shape

    def encode_array(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        from zvcore_plugins import _casting

        made = self._cast("encode", values, self._dtype)
        if _casting.is_integer(values.dtype) and not _casting.is_integer(self._dtype):
            self._refuse_unreadable(values, made)
        return made

    def _refuse_unreadable(self, values: npt.NDArray[Any], made: npt.NDArray[Any]) -> None:
        """UnfitValueError for integers that rounding, or clamping, makes floats of that no reader can cast back."""
        least, most = limits_of(values.dtype)
        exact = made.astype("f8")
        # The largest integer of 64 bits is not a float; the next power of two is.
        beyond = ~((exact >= float(least)) & (exact < float(most + 1)))
        if beyond.any():
            try:
                self._cast("decode", made[beyond], values.dtype)
            except UnsupportedError as error:
                told = f"{values[beyond][0]} would be stored as {made[beyond][0]}, and could not be read"
                raise UnfitValueError(f"{error}: {told}") from error

    def decode_array(self, stored: npt.NDArray[Any], dtype: np.dtype[Any], shape: tuple[int, ...]) -> npt.NDArray[Any]:
        try:
            return self._cast("decode", stored, dtype)
        except UnsupportedError as error:
            raise CorruptDataError(f"{error}, the type of the chunk's values") from error

    def _cast(self, direction: str, values: npt.NDArray[Any], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
        import numpy as np

        from zvcore_plugins import _casting

        self.check_numbers(values.dtype)
        keys, answers = self._pairs(direction, values.dtype, dtype)
        if not len(keys):
            return _casting.cast(values, dtype, self._said["rounding"], self._said["out_of_range"])
        found, place = _looked_up(values, keys)
        # Numbers that are mapped need not be ones that the rules could cast.
        rest = np.where(found, np.zeros((), values.dtype), values)
        if values.dtype.name == "float8_e8m0fnu":
            rest = np.where(found, np.ones((), values.dtype), values)
        made = np.array(_casting.cast(rest, dtype, self._said["rounding"], self._said["out_of_range"]))
        made[found] = answers[place[found]]
        return made

    def _pairs(
        self, direction: str, source: np.dtype[Any], target: np.dtype[Any]
    ) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """The numbers that are mapped, sorted, and what they become."""
        import numpy as np

        pairs = self._map.get(direction, [])
        try:
            keys = np.array([_read(key, source) for key, _ in pairs], source)
            answers = np.array([_read(value, target) for _, value in pairs], target)
        except (TypeError, ValueError, OverflowError) as error:
            raise MetadataError(f"scalar_map: {error}", codec=self.name, found=direction) from error
        # The first of several equal ones counts, and a stable sort keeps it the first.
        order = np.argsort(_sortable(keys), kind="stable")
        return keys[order], answers[order]


def _read(value: Any, dtype: np.dtype[Any]) -> Any:
    from zvcore_plugins import _casting

    return (read_integer if _casting.is_integer(dtype) else read_float)(value, dtype)


def _sortable(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The numbers as a type of numpy's own, in which their order is the same; numpy sorts NaN behind all others."""
    from zvcore_plugins import _casting

    if values.dtype.isbuiltin != 2:
        return values
    return values.astype("i2" if _casting.is_integer(values.dtype) else "f8")


def _looked_up(values: npt.NDArray[Any], keys: npt.NDArray[Any]) -> tuple[npt.NDArray[np.bool_], npt.NDArray[Any]]:
    """Which of the values are among the keys, and where."""
    import numpy as np

    flat, sorted_keys = _sortable(values), _sortable(keys)
    place = np.minimum(np.searchsorted(sorted_keys, flat), len(keys) - 1)
    met = sorted_keys[place]
    return (met == flat) | ((met != met) & (flat != flat)), place
