"""lz4 in its four framings, by liblz4 and libxxhash if they were there at build time, else by Python packages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from zvcore.codecs import Codec, param
from zvcore.codecs.rates import rate_at
from zvcore.errors import UnsupportedError
from zvcore_plugins._library import LibraryCodec, native_part

_lz4 = native_part("_lz4")

__all__ = ["Lz4"]

# Up to which level, and how many million bytes one thread encodes in a second.
_RATES = ((0, 400), (3, 50), (9, 20), (12, 8))

STREAM, FRAME, SIZED, BLOCK = "lz4block", "frame", "size_prefixed", "block"


class Lz4(LibraryCodec):
    """One kind of compressed block in one of four framings, which cannot read each other's data:

        lz4block       lz4-java's stream of blocks of `block_size` bytes with checksums: what Java's N5 writes and reads
        frame          the LZ4 frame format, with a checksum if `checksum`; rust-n5 writes N5 in it
        size_prefixed  the size as uint32, then one block: numcodecs' lz4, which is how zarr-python knows it
        block          one block and nothing else, as z5 writes N5. The size of its content has to be known

    `acceleration` trades size for speed (1 is the smallest and slowest; less means 1); a `level` of 1 to 12 takes the
    high compression encoder instead. With `sniff`, which N5's metadata implies, decoding recognises the framing.

    In N5 the framing shows in the members: Java's and rust-n5's `blockSize`, zarr 2's `id` and `acceleration`, or a
    `blockSize` below Java's least, which is z5's and means a level. A member `framing` settles it where they do not. In
    Zarr, `numcodecs.lz4` is size-prefixed, and so is an `lz4` that names no framing.
    """

    name = "lz4"
    encoding_only = ("acceleration", "level", "sniff")
    also_read = {"zarr3": {"numcodecs.lz4": {"framing": SIZED}}}

    framing: str = param(STREAM, choices=(STREAM, FRAME, SIZED, BLOCK))
    block_size: int = param(65536, low=64, high=33554432, n5="blockSize")
    acceleration: int = param(1, low=-(2**31), high=2**31 - 1, sparse=("n5",))
    level: int = param(0, low=0, high=12, sparse=("n5", "zarr3"))
    checksum: bool = param(True, sparse=("n5", "zarr3"))
    sniff: bool = param(False, zarr2=None, zarr3=None)

    def reads_as(self, data: memoryview, size: int) -> bool:
        if self.framing == SIZED and not self.sniff:
            return int.from_bytes(data[:4], "little") == size
        return self.sniff or self.framing != STREAM or bytes(data[:8]) == b"LZ4Block"

    @property
    def encoding_rate(self) -> float | None:
        return rate_at(self.level, _RATES)

    def __zv_codec__(self) -> Any:
        return _lz4 and _lz4.codec_table(
            self.framing, self.sniff, self.block_size, self.acceleration, self.level, self.checksum
        )

    def to_n5(self) -> dict[str, Any]:
        obj = super().to_n5()
        del obj["sniff"], obj["framing"]
        if self.framing == SIZED:
            del obj["blockSize"]
            obj = {**obj, "id": "lz4", "acceleration": self.acceleration}
        elif self.framing == BLOCK:
            kept = self._kept.get("n5", (None, {}, {}))[1]
            obj["blockSize"] = kept.get("blockSize", 6)
        if _framing_in_n5(obj) != self.framing:
            obj["framing"] = self.framing
        return obj

    @classmethod
    def from_n5(cls, obj: Mapping[str, Any]) -> Codec:
        if not isinstance(obj, Mapping):
            return super().from_n5(obj)
        members = {"framing": _framing_in_n5(obj), "sniff": True, **obj}
        level = members.pop("blockSize") if members["framing"] == BLOCK and "blockSize" in members else None
        codec = super().from_n5(members)
        if level is not None:
            name, kept, beside = codec._kept.get("n5", (cls.name, {}, {}))
            codec._kept["n5"] = (name, {**kept, "blockSize": level}, beside)
        return codec

    def to_zarr2(self) -> dict[str, Any]:
        if self.framing != SIZED:
            raise UnsupportedError(f"Zarr v2 has no name for the framing {self.framing!r}", codec=self.name)
        left_out = ("framing", "block_size", "level", "checksum")
        return {name: value for name, value in super().to_zarr2().items() if name not in left_out}

    @classmethod
    def from_zarr2(cls, obj: Any) -> Codec:
        return super().from_zarr2({"framing": SIZED, **obj} if isinstance(obj, Mapping) else obj)

    def to_zarr3(self) -> dict[str, Any]:
        obj = super().to_zarr3()
        members = obj["configuration"]
        if self.framing != STREAM:
            del members["block_size"]
        if self.framing == SIZED and self.level == 0:
            obj["name"] = "numcodecs.lz4"
            del members["framing"]
        return obj

    @classmethod
    def from_zarr3(cls, obj: Mapping[str, Any] | str) -> Codec:
        if isinstance(obj, str):
            obj = {"name": obj}
        if isinstance(obj, Mapping) and isinstance(members := obj.get("configuration", {}), Mapping):
            obj = {**obj, "configuration": {"framing": SIZED, **members}}
        return super().from_zarr3(obj)


def _framing_in_n5(obj: Mapping[str, Any]) -> str:
    """Which program's members these are."""
    if obj.get("id") == "lz4" or "acceleration" in obj:
        return SIZED
    size = obj.get("blockSize")
    return BLOCK if isinstance(size, int | float) and 0 <= size < 64 else STREAM
