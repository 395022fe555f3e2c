"""blosc chunks, by c-blosc 1 if it was there at build time, else by numcodecs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

from zvcore.cached import cached_property
from zvcore.codecs import Codec, Parameter, param
from zvcore.codecs.rates import rate_at
from zvcore_plugins._library import LibraryCodec, native_part

if TYPE_CHECKING:
    import numpy as np

_blosc = native_part("_blosc")

__all__ = ["Blosc"]

# Up to which level, and how many million bytes one thread encodes in a second.
_RATES = {
    "lz4hc": ((5, 35), (9, 17)),
    "zlib": ((5, 25), (7, 10), (9, 7)),
    "zstd": ((3, 60), (6, 25), (8, 7), (9, 2.5)),
}

COMPRESSORS = ("blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd")
SHUFFLES = {"auto": -1, "noshuffle": 0, "shuffle": 1, "bitshuffle": 2}
# For items of so many sizes, codecs that were made of one are kept.
_MOST_SIZES = 16
# What Java's n5-blosc assumes where N5's metadata say nothing.
JAVA = {"cname": "blosclz", "clevel": 6, "shuffle": 0, "blocksize": 0}


class _Shuffle(Parameter):
    """Zarr writes its name, N5 and numcodecs its number; both are understood anywhere."""

    def _converted(self, value: Any) -> Any:
        if type(value) in (int, float):
            value = next((name for name, number in SHUFFLES.items() if number == value), None)
        return super()._converted(value)


def _shuffle_parameter() -> Any:
    """A parameter as `param` makes one; for type checkers it is what instances have."""
    return _Shuffle("shuffle", str, None, None, tuple(SHUFFLES), {}, (), "a name or its number")


class Blosc(LibraryCodec):
    """c-blosc 1's chunks: the bytes of the items shuffled, then one of six compressors, block by block.

    `typesize` is the size of the items to shuffle; without it, that of the array's items (1 if there is no array).
    `shuffle="auto"` means "bitshuffle" for items of one byte, else "shuffle". A chunk holds at most 2 GiB.

    Early versions of Java's n5-blosc want a member `nthreads`: a codec that was read with it writes it as well.
    """

    name = "blosc"
    encoding_only = ("cname", "clevel", "shuffle", "blocksize", "typesize")
    also_read = {"zarr3": {"numcodecs.blosc": {}}}

    cname: str = param("lz4", choices=COMPRESSORS)
    clevel: int = param(5, low=0, high=9)
    shuffle: str = _shuffle_parameter()
    blocksize: int = param(0, low=0, high=2**31 - 1, doc="0: chosen by c-blosc")
    # N5's readers need none, and tensorstore refuses data that has the member.
    typesize: int | None = param(None, type=int, low=1, high=2**31 - 1, n5=None, zarr2=None)

    def for_dtype(self, dtype: np.dtype[Any]) -> Self:
        size = dtype.itemsize
        if self.typesize is not None or size == 0:
            return self
        if (found := self._of_size.get(size)) is not None:
            return found
        codec = type(self)(**{**self.config(), "typesize": size})
        codec._kept.update(self._kept)
        if len(self._of_size) >= _MOST_SIZES:
            self._of_size.clear()
        return self._of_size.setdefault(size, codec)

    @cached_property
    def _of_size(self) -> dict[int, Self]:
        """What `for_dtype` made: arrays that share this codec share those as well."""
        return {}

    @property
    def item_size(self) -> int:
        # c-blosc knows no larger items, and takes them for single bytes too.
        return self.typesize if self.typesize is not None and self.typesize < 256 else 1

    @property
    def shuffle_number(self) -> int:
        number = SHUFFLES[self.shuffle]
        return number if number >= 0 else 2 if self.item_size == 1 else 1

    @property
    def encoding_rate(self) -> float | None:
        return rate_at(self.clevel, _RATES.get(self.cname, ()))

    def __zv_codec__(self) -> Any:
        return _blosc and _blosc.codec_table(
            self.cname, self.clevel, self.shuffle_number, self.item_size, self.blocksize
        )

    def reads_as(self, data: memoryview, size: int) -> bool:
        # The header says how many bytes there are, and how many they become.
        header = bytes(data[:16])
        found = int.from_bytes(header[4:8], "little"), int.from_bytes(header[12:16], "little")
        return len(header) == 16 and found == (size, len(data))

    def to_n5(self) -> dict[str, Any]:
        return {**super().to_n5(), "shuffle": self.shuffle_number}

    @classmethod
    def from_n5(cls, obj: Mapping[str, Any]) -> Codec:
        return super().from_n5({**JAVA, **obj} if isinstance(obj, Mapping) else obj)

    def to_zarr2(self) -> dict[str, Any]:
        return {**super().to_zarr2(), "shuffle": SHUFFLES[self.shuffle]}

    def to_zarr3(self) -> dict[str, Any]:
        obj = super().to_zarr3()
        members = obj["configuration"]
        if obj["name"] == "numcodecs.blosc":
            members["shuffle"] = SHUFFLES[self.shuffle]
            members.pop("typesize", None)
        else:
            members["shuffle"] = next(name for name, number in SHUFFLES.items() if number == self.shuffle_number)
            # Zarr requires it of every codec that shuffles.
            members.setdefault("typesize", self.item_size)
        return obj
