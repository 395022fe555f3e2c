"""Filters of numcodecs as codecs of bytes, which the engine runs in its threads.

Documents name the filters, and numcodecs reads and checks their parameters; these classes take over where they do the
same.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

from zvcore.codecs import Codec, param
from zvcore.errors import MetadataError
from zvcore_plugins import _filters

if TYPE_CHECKING:
    import numpy as np

__all__ = [
    "AsType",
    "BitRound",
    "Delta",
    "FixedScaleOffset",
    "HorizontalDifference",
    "PackBits",
    "Quantize",
    "ScaledFloats",
    "Shuffle",
]

_NOWHERE = {"n5": None, "zarr2": None, "zarr3": None, "neuroglancer": None}
_FRACTIONS = {"float16": 10, "float32": 23, "float64": 52}
_FLOATS = ("float32", "float64")
_INTEGERS = _filters.TYPES.keys() - set(_FLOATS)


def _size(name: str) -> int:
    """The bytes of an item, without importing numpy, which `zvcore codecs` does not need."""
    return int(name.lstrip("ufloatin")) // 8


def _is_double(value: Any) -> bool:
    """Whether a parameter is a number that a C double holds exactly."""
    try:
        return isinstance(value, int | float) and float(value) == value
    except OverflowError:
        return False


class ItemFilter(Codec, ABC):
    """A filter of items of type `dtype` that stores them as `astype`, both in the machine's byte order unless it says
    otherwise.
    """

    spellings = _NOWHERE
    of_items = True

    dtype: str = param("uint8", doc="the type of the items as numpy names it")
    astype: str = param("uint8", doc="the type in which they are stored")

    @classmethod
    def on_items(cls, dtype: np.dtype[Any], config: Mapping[str, Any]) -> Self | None:
        import numpy as np

        items = np.dtype(config["dtype"])
        stored = np.dtype(config.get("astype") or items)
        if not cls.takes(items.name, stored.name):
            return None
        further = {name: config[name] for name in config if name not in ("id", "dtype", "astype")}
        if not (items.isnative and stored.isnative):
            turned = cls.turned_like(items, stored)
            if turned is None:
                return None
            further |= turned
        if not all(map(_is_double, further.values())):
            return None
        return cls(dtype=items.name, astype=stored.name, **further)

    @classmethod
    @abstractmethod
    def takes(cls, items: str, stored: str) -> bool:
        """Whether the C code does this, with the same result as numpy."""

    @classmethod
    def turned_like(cls, items: np.dtype[Any], stored: np.dtype[Any]) -> Mapping[str, Any] | None:
        """The parameters that say that one of them, or both, have the other byte order; None: only numpy does that."""
        return None

    def _check(self) -> None:
        if not self.takes(self.dtype, self.astype):
            raise MetadataError(f"{self.name} cannot store {self.dtype} as {self.astype}", codec=self.name)

    def _check_data(self, data: Any) -> None:
        """UnfitValueError for items that would be stored as others. Arrays look at them before they ask a codec."""
        import numpy as np

        from zvcore.codecs.unfit import check_of_values

        items = np.dtype(self.dtype)
        check = check_of_values(self, items)
        if check is not None:
            data = self._input(data)
            # The C code says what is wrong with a part of an item.
            if data.nbytes % items.itemsize == 0:
                check(np.frombuffer(data, items))

    @property
    def _types(self) -> tuple[str, str, int, int]:
        return self.dtype, self.astype, _size(self.dtype), _size(self.astype)

    def encoded_size(self, size: int) -> int | None:
        _, _, items, stored = self._types
        return size // items * stored


class Delta(ItemFilter):
    """Each item as its difference from the one before."""

    name = "delta"

    turned: bool = param(False, doc="whether items, and what is stored of them, have the other byte order")

    def __zv_codec__(self) -> Any:
        return _filters.delta_table(*self._types, self.turned)

    @classmethod
    def turned_like(cls, items: np.dtype[Any], stored: np.dtype[Any]) -> Mapping[str, Any] | None:
        return {"turned": True} if items == stored else None

    def _check(self) -> None:
        super()._check()
        if self.turned and (self.dtype != self.astype or _size(self.dtype) == 1):
            raise MetadataError(
                "items of the other byte order are stored as the same type, of several bytes",
                codec=self.name, found=(self.dtype, self.astype),
            )  # fmt: skip

    @classmethod
    def takes(cls, items: str, stored: str) -> bool:
        if items == stored:
            return items in _filters.TYPES
        # numpy turns signed integers and uint64 together into floats.
        both = {items, stored}
        return both <= _INTEGERS and not ("uint64" in both and any(name.startswith("int") for name in both))


class HorizontalDifference(Codec):
    """TIFF's predictor: each item of a row as its difference from the same sample of the pixel before."""

    name = "horizontal_difference"
    spellings = _NOWHERE
    of_items = True

    itemsize: int = param(1, choices=(1, 2, 4, 8), doc="bytes of an item")
    row: int = param(1, low=1, high=2**40, doc="items of a row")
    samples: int = param(1, low=1, high=2**16, doc="items of a pixel")
    turned: bool = param(False, doc="whether items have the other byte order")

    def __zv_codec__(self) -> Any:
        return _filters.horizontal_table(self.itemsize, self.row, self.samples, self.turned and self.itemsize > 1)

    def encoded_size(self, size: int) -> int | None:
        return size


class AsType(ItemFilter):
    """Integers as other integers, floats as other floats."""

    name = "astype"

    def __zv_codec__(self) -> Any:
        return _filters.casting_table(*self._types)

    @classmethod
    def on_items(cls, dtype: np.dtype[Any], config: Mapping[str, Any]) -> Self | None:
        return super().on_items(dtype, {"dtype": config["decode_dtype"], "astype": config["encode_dtype"]})

    def casting_config(self, dtype: np.dtype[Any]) -> Mapping[str, Any]:
        return {"id": self.name, "decode_dtype": self.dtype, "encode_dtype": self.astype}

    @classmethod
    def takes(cls, items: str, stored: str) -> bool:
        both = {items, stored}
        return both <= _INTEGERS or both <= {*_FLOATS}


class FixedScaleOffset(ItemFilter):
    """Floats as whole numbers, or as shorter floats: round((item - offset) * scale)."""

    name = "fixedscaleoffset"

    dtype: str = param("float64", doc="the type of the items as numpy names it")
    scale: float = param(1.0)
    offset: float = param(0.0)

    def __zv_codec__(self) -> Any:
        return _filters.scaling_table(*self._types, self.scale, self.offset)

    def casting_config(self, dtype: np.dtype[Any]) -> Mapping[str, Any]:
        return {"id": self.name, **self.config()}

    @classmethod
    def takes(cls, items: str, stored: str) -> bool:
        return items in _FLOATS and stored in _filters.TYPES and stored != "uint64"


class ScaledFloats(Codec):
    """What Zarr's `scale_offset` makes of floats: (item - offset) * scale, in their own type."""

    name = "scale_offset"
    spellings = _NOWHERE
    of_items = True

    dtype: str = param("float32", choices=_FLOATS, doc="type of the items, by its name in numpy")
    scale: float = param(1.0)
    offset: float = param(0.0)

    def __zv_codec__(self) -> Any:
        return _filters.stretching_table(self.dtype, _size(self.dtype), self.scale, self.offset)

    def encoded_size(self, size: int) -> int | None:
        return size


class Quantize(ItemFilter):
    """Floats rounded to this many decimal digits, or a little finer, so that they compress."""

    name = "quantize"

    dtype: str = param("float64", doc="the type of the items as numpy names it")
    astype: str = param("float64", doc="the type in which they are stored")
    digits: float = param(3.0, low=-300, high=300)

    def __zv_codec__(self) -> Any:
        exponent = math.log10(10.0**-self.digits)
        exponent = math.floor(exponent) if exponent < 0 else math.ceil(exponent)
        return _filters.quantizing_table(*self._types, 2.0 ** math.ceil(math.log2(10.0**-exponent)))

    def casting_config(self, dtype: np.dtype[Any]) -> Mapping[str, Any]:
        return {"id": self.name, **self.config()}

    @classmethod
    def takes(cls, items: str, stored: str) -> bool:
        return items in _FLOATS and stored in _FLOATS


class BitRound(Codec):
    """Floats without the last bits of their fractions, so that they compress. Reading changes nothing."""

    name = "bitround"
    spellings = _NOWHERE
    of_items = True

    dtype: str = param("float32", choices=tuple(_FRACTIONS), doc="the type of the items as numpy names it")
    keepbits: int = param(23, low=0, high=52)

    @classmethod
    def on_items(cls, dtype: np.dtype[Any], config: Mapping[str, Any]) -> Self | None:
        kept = config["keepbits"]
        if dtype.name not in _FRACTIONS or not dtype.isnative or not isinstance(kept, int):
            return None
        return cls(dtype=dtype.name, keepbits=kept) if 0 <= kept <= _FRACTIONS[dtype.name] else None

    def _check(self) -> None:
        if self.keepbits > _FRACTIONS[self.dtype]:
            raise MetadataError(f"{self.dtype} has no {self.keepbits} bits to keep", codec=self.name)

    def __zv_codec__(self) -> Any:
        return _filters.rounding_table(_size(self.dtype), _FRACTIONS[self.dtype] - self.keepbits)

    def encoded_size(self, size: int) -> int | None:
        return size


class PackBits(Codec):
    """Eight booleans in a byte."""

    name = "packbits"
    spellings = _NOWHERE
    of_items = True

    @classmethod
    def on_items(cls, dtype: np.dtype[Any], config: Mapping[str, Any]) -> Self | None:
        return cls() if dtype.itemsize == 1 else None

    def __zv_codec__(self) -> Any:
        return _filters.bits_table()

    def encoded_size(self, size: int) -> int | None:
        return 1 + -(-size // 8)


class Shuffle(Codec):
    """The first bytes of all items, then all second ones, and so on. An incomplete last item stays at the end."""

    name = "shuffle"
    spellings = {"n5": None, "zarr3": "numcodecs.shuffle", "neuroglancer": None}

    elementsize: int | None = param(
        None, type=int, low=0, high=2**31 - 1, doc="bytes of an item; by default the array's; 0 as 1 changes nothing"
    )

    def __zv_codec__(self) -> Any:
        return _filters.shuffle_table(4 if self.elementsize is None else max(1, self.elementsize))

    def for_dtype(self, dtype: np.dtype[Any]) -> Self:
        return self.replace(elementsize=dtype.itemsize) if self.elementsize is None else self

    @classmethod
    def from_zarr2(cls, obj: Any) -> Codec:
        # Documents of numcodecs that give no size mean 4.
        return super().from_zarr2({"elementsize": 4, **obj} if isinstance(obj, Mapping) else obj)

    def encoded_size(self, size: int) -> int | None:
        return size
