"""blosc chunks, by c-blosc 1 if it was there at build time, else by numcodecs."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

from zvcore.codecs import Codec, Parameter, param
from zvcore.errors import CorruptDataError, UnsupportedError

if TYPE_CHECKING:
    import numpy as np

try:
    from zvcore_plugins import _blosc
except ImportError:
    _blosc = None  # type: ignore[assignment]

__all__ = ["Blosc"]

COMPRESSORS = ("blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd")
SHUFFLES = {"auto": -1, "noshuffle": 0, "shuffle": 1, "bitshuffle": 2}
# What Java's n5-blosc assumes where N5's metadata do not say.
JAVA = {"cname": "blosclz", "clevel": 6, "shuffle": 0, "blocksize": 0}
HEADER = 16
LARGEST = 2**31 - 1 - HEADER


class _Shuffle(Parameter):
    """Zarr writes its name, N5 and numcodecs its number; both are understood anywhere."""

    def _converted(self, value: Any) -> Any:
        if type(value) in (int, float):
            value = next((name for name, number in SHUFFLES.items() if number == value), None)
        return super()._converted(value)


class Blosc(Codec):
    """c-blosc 1's chunks: the bytes of the items shuffled, then one of six compressors, block by block.

    `typesize` is the size of the items to shuffle; without it, that of the array's items (1 if there is no array).
    `shuffle="auto"` means "bitshuffle" for items of one byte, else "shuffle". A chunk holds at most 2 GiB.

    Early versions of Java's n5-blosc want a member `nthreads`: a codec read from a document that has it writes it, too.
    """

    name = "blosc"
    encoding_only = ("cname", "clevel", "shuffle", "blocksize", "typesize")
    also_read = {"zarr3": {"numcodecs.blosc": {}}}

    cname: str = param("lz4", choices=COMPRESSORS)
    clevel: int = param(5, low=0, high=9)
    # A Parameter, as `param` makes one; type checkers are told what instances have.
    shuffle: str = _Shuffle("shuffle", str, None, None, tuple(SHUFFLES), {}, (), "a name or its number")  # type: ignore[assignment]
    blocksize: int = param(0, low=0, high=2**31 - 1, doc="0: chosen by c-blosc")
    # N5's readers need none, and tensorstore refuses data that has the member.
    typesize: int | None = param(None, type=int, low=1, high=2**31 - 1, n5=None)

    def for_dtype(self, dtype: np.dtype[Any]) -> Self:
        if self.typesize is not None or dtype.itemsize == 0:
            return self
        codec = type(self)(**{**self.config(), "typesize": dtype.itemsize})
        codec._kept.update(self._kept)
        return codec

    @property
    def _typesize(self) -> int:
        # c-blosc has no larger ones and treats them so itself.
        return self.typesize if self.typesize is not None and self.typesize < 256 else 1

    @property
    def _shuffle(self) -> int:
        number = SHUFFLES[self.shuffle]
        return number if number >= 0 else 2 if self._typesize == 1 else 1

    def __zv_codec__(self) -> Any:
        return _blosc and _blosc.codec_table(self.cname, self.clevel, self._shuffle, self._typesize, self.blocksize)

    def to_n5(self) -> dict[str, Any]:
        return {**super().to_n5(), "shuffle": self._shuffle}

    @classmethod
    def from_n5(cls, obj: Mapping[str, Any]) -> Self:
        return super().from_n5({**JAVA, **obj} if isinstance(obj, Mapping) else obj)

    def to_zarr3(self) -> dict[str, Any]:
        obj = super().to_zarr3()
        members = obj["configuration"]
        if obj["name"] == "numcodecs.blosc":
            members["shuffle"] = SHUFFLES[self.shuffle]
            members.pop("typesize", None)
        else:
            members["shuffle"] = next(name for name, number in SHUFFLES.items() if number == self._shuffle)
            # Zarr demands it of all that shuffle.
            members.setdefault("typesize", self._typesize)
        return obj

    def _encode(self, data: memoryview) -> bytes:
        library = _library()
        if len(data) > LARGEST:
            raise UnsupportedError(f"blosc holds at most {LARGEST} bytes, there are {len(data)}")
        if self.cname not in library.list_compressors():
            raise UnsupportedError(f"numcodecs' c-blosc was built without the compressor {self.cname!r}")
        cname = self.cname.encode()
        return bytes(library.compress(data, cname, self.clevel, self._shuffle, self.blocksize, self._typesize))

    def _decode(self, data: memoryview, max_size: int) -> bytes:
        if len(data) < HEADER:
            raise CorruptDataError("too short for a blosc header")
        if data[0] != 2:
            newer = " (blosc2)" if 2 < data[0] < 8 else ""
            raise CorruptDataError(f"not a blosc chunk of format 2, which c-blosc 1 reads, but of {data[0]}{newer}")
        size, block, stored = (int.from_bytes(data[i : i + 4], "little", signed=True) for i in (4, 8, 12))
        if stored != len(data):
            raise CorruptDataError(f"the header speaks of {stored} bytes, there are {len(data)}")
        item = data[3]
        # numcodecs does not tell that fewer bytes came than declared, which blocks of parts of items lead to.
        if not 0 <= size <= LARGEST or (
            size and (not 0 < block <= size or not item or (block > item and block % item))
        ):
            raise CorruptDataError("impossible sizes in the header")
        if size > max_size:
            raise CorruptDataError("more data than expected", expected=f"at most {max_size}", found=size)
        if size == 0:
            return b""
        try:
            decoded = bytearray(size)
            _library().decompress(data, decoded)
        except RuntimeError as error:
            raise CorruptDataError(f"damaged chunk: {error}") from error
        return bytes(decoded)


def _library() -> Any:
    try:
        return importlib.import_module("numcodecs.blosc")
    except ImportError as error:
        raise UnsupportedError(
            "zvcore was built without c-blosc; pip install numcodecs, or build with libblosc-dev", codec="blosc"
        ) from error
