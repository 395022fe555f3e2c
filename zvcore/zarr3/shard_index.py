"""The index of a `sharding_indexed` shard: where in the object each inner chunk lies.

u64 (offset, length) for each inner chunk in C order, both 2**64 - 1 for one that is not there; encoded by the index
codecs, of which `bytes` and `crc32c` give an index of known size, as they must; at the end of the object or its start.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from zvcore.errors import CorruptDataError, MetadataError, UnsupportedError
from zvcore.kernels.crc32c import crc32c

__all__ = ["MISSING", "ShardIndexForm"]

MISSING = 2**64 - 1

# No shard that anyone means to read has more entries: the index alone would be 16 GiB.
_MAX_ENTRIES = 2**30


@dataclass(frozen=True)
class ShardIndexForm:
    """How the indexes of one array's shards are stored.

    chunks    inner chunks per shard along each axis
    endian    byte order of the entries
    checksums how many crc32c codecs follow
    location  where in the object the index stands
    """

    chunks: tuple[int, ...]
    endian: Literal["little", "big"] = "little"
    checksums: int = 1
    location: Literal["start", "end"] = "end"

    @classmethod
    def from_json(
        cls, configuration: Mapping[str, Any], chunks: Sequence[int], key: str | None = None
    ) -> ShardIndexForm:
        """From the configuration of a `sharding_indexed` codec; `chunks` says how many of them a shard has."""
        location = configuration.get("index_location", "end")
        if location not in ("start", "end"):
            raise MetadataError('index_location is "start" or "end"', key=key, found=repr(location))
        if prod(chunks) > _MAX_ENTRIES:
            raise MetadataError(f"a shard of {prod(chunks)} chunks", key=key)
        codecs = configuration.get("index_codecs")
        if not isinstance(codecs, Sequence) or isinstance(codecs, str) or not codecs:
            raise MetadataError("index_codecs is a list of codecs", key=key, found=repr(codecs))
        endian: Literal["little", "big"] | None = None
        checksums = 0
        for codec in codecs:
            name = codec if isinstance(codec, str) else codec.get("name") if isinstance(codec, Mapping) else None
            if name == "bytes" and endian is None:
                given = codec.get("configuration", {}).get("endian") if isinstance(codec, Mapping) else None
                if given not in ("little", "big"):
                    raise MetadataError("the bytes codec of an index needs its endian", key=key, found=repr(given))
                endian = given
            elif name == "crc32c" and endian is not None:
                checksums += 1
            else:
                raise UnsupportedError(f"index codec {name!r}: an index is encoded by bytes and crc32c", key=key)
        if endian is None:
            raise MetadataError("index_codecs has no bytes codec", key=key)
        return cls(tuple(chunks), endian, checksums, location)

    def to_json(self) -> dict[str, Any]:
        """`index_codecs` and `index_location`."""
        codecs: list[dict[str, Any]] = [{"name": "bytes", "configuration": {"endian": self.endian}}]
        codecs += [{"name": "crc32c"}] * self.checksums
        return {"index_codecs": codecs, "index_location": self.location}

    @property
    def count(self) -> int:
        return prod(self.chunks)

    @property
    def size(self) -> int:
        """Bytes that the index takes in the object."""
        return 16 * self.count + 4 * self.checksums

    def parse(
        self, raw: Any, object_size: int | None = None, key: str | None = None
    ) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
        """(offsets, lengths) of the inner chunks in C order, MISSING for those that are not there.

        Every entry is checked to lie within the object and outside the index, if the object's size is given.
        """
        offsets, lengths = self.read(raw, object_size, key)
        wrong = self.wrong(offsets, lengths, object_size)
        if wrong.any():
            raise self.fault(int(np.argmax(wrong)), offsets, lengths, object_size, key)
        return offsets, lengths

    def read(
        self, raw: Any, object_size: int | None = None, key: str | None = None
    ) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
        """`parse` without a look at the single entries: only the size and the checksums are checked."""
        raw = memoryview(raw).cast("B")
        at = 0 if self.location == "start" or object_size is None else object_size - self.size
        if len(raw) != self.size or at < 0:
            raise CorruptDataError(
                "the shard is too small for its index", key=key, expected=f"{self.size} bytes",
                found=len(raw) if object_size is None else object_size,
            )  # fmt: skip
        for number in range(self.checksums, 0, -1):
            body = raw[: 16 * self.count + 4 * (number - 1)]
            stored = int.from_bytes(raw[len(body) : len(body) + 4], "little")
            found = crc32c(body)
            if found != stored:
                raise CorruptDataError(
                    "the shard index has a wrong checksum", key=key, offset=at, length=self.size, codec="crc32c",
                    expected=f"{stored:08x}", found=f"{found:08x}",
                )  # fmt: skip
        entries = np.frombuffer(raw, "<u8" if self.endian == "little" else ">u8", 2 * self.count).reshape(-1, 2)
        return np.ascontiguousarray(entries[:, 0], np.uint64), np.ascontiguousarray(entries[:, 1], np.uint64)

    def wrong(
        self, offsets: npt.NDArray[np.uint64], lengths: npt.NDArray[np.uint64], object_size: int | None
    ) -> npt.NDArray[np.bool_]:
        """Which entries cannot be."""
        missing = lengths == MISSING
        wrong: npt.NDArray[np.bool_] = missing != (offsets == MISSING)
        if object_size is not None:
            start = np.uint64(self.size if self.location == "start" else 0)
            stop = np.uint64(object_size - (self.size if self.location == "end" else 0))
            inside = (offsets >= start) & (offsets <= stop) & (lengths <= stop - np.minimum(offsets, stop))
            wrong |= ~missing & ~inside
        return wrong

    def fault(
        self,
        entry: int,
        offsets: npt.NDArray[np.uint64],
        lengths: npt.NDArray[np.uint64],
        object_size: int | None,
        key: str | None,
    ) -> CorruptDataError:
        """The error of a wrong entry."""
        return CorruptDataError(
            "an entry of the shard index leaves the shard's data", key=key,
            chunk=tuple(int(i) for i in np.unravel_index(entry, self.chunks)),
            expected=None if object_size is None else f"a range within {object_size} bytes and outside the index",
            found=f"{lengths[entry]} bytes at {offsets[entry]}",
        )  # fmt: skip

    def build(self, offsets: Any, lengths: Any) -> bytes:
        """The stored index for chunks in C order; offsets count from the start of the object."""
        entries = np.empty((self.count, 2), "<u8" if self.endian == "little" else ">u8")
        entries[:, 0] = offsets
        entries[:, 1] = lengths
        raw = entries.tobytes()
        for _ in range(self.checksums):
            raw += crc32c(raw).to_bytes(4, "little")
        return raw
