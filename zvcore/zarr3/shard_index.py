"""The index of a `sharding_indexed` shard: where in the object each inner chunk lies.

u64 (offset, length) for each inner chunk in C order, both 2**64 - 1 for one that is not there; encoded by the index
codecs, whose result has a known size; at the end of the object or its start. `bytes` and `crc32c`, which everybody
writes, are done here; chains of other codecs are a `GeneralIndexCodecs`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from zvcore.cached import cached_property
from zvcore.documents.members import Anything, Items, Member, Place, Table, Text, named
from zvcore.errors import ConflictError, CorruptDataError, ZvcoreError
from zvcore.kernels.crc32c import crc32c
from zvcore.zarr3._entries import next_wrong, split_entries

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zvcore.stores import Store
    from zvcore.stores.base import Snapshot
    from zvcore.zarr3.index_codecs import GeneralIndexCodecs

__all__ = ["ENDIAN", "INDEX", "MISSING", "Index", "ShardIndexForm", "index_of", "unfinished_index"]

MISSING = 2**64 - 1

# No shard that anyone means to read has more entries: the index alone would be 16 GiB.
_MAX_ENTRIES = 2**30


ENDIAN = Text("little", "big")
# What the configuration of `sharding_indexed` says of it.
INDEX = Table(
    Member("index_codecs", Items(Anything("a codec", "codecs"), least=1)),
    Member("index_location", Text("start", "end"), default="end", always=True),
)


@dataclass(frozen=True)
class Index:
    """A shard's index as it was read, and the object that it was read from."""

    offsets: npt.NDArray[np.uint64]
    lengths: npt.NDArray[np.uint64]
    stamp: Any
    size: int

    @property
    def nbytes(self) -> int:
        return self.offsets.nbytes + self.lengths.nbytes


@dataclass(frozen=True)
class ShardIndexForm:
    """How the indexes of one array's shards are stored.

    chunks    inner chunks per shard along each axis
    endian    byte order of the entries
    checksums how many crc32c codecs follow
    location  where in the object the index stands
    codecs    the whole chain where it is not `bytes` and checksums; endian and checksums then mean nothing
    """

    chunks: tuple[int, ...]
    endian: Literal["little", "big"] = "little"
    checksums: int = 1
    location: Literal["start", "end"] = "end"
    codecs: GeneralIndexCodecs | None = None

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        # Wanted whenever an index is looked up.
        return hash((self.chunks, self.endian, self.checksums, self.location, self.codecs))

    def __getstate__(self) -> dict[str, Any]:
        # Another process has other hashes.
        return {name: value for name, value in self.__dict__.items() if name != "_hash"}

    @classmethod
    def from_json(
        cls, configuration: Mapping[str, Any], chunks: Sequence[int], place: Place | None = None
    ) -> ShardIndexForm:
        """From the configuration of a `sharding_indexed` codec; `chunks` says how many of them a shard has."""
        place = place or Place(None)
        found = INDEX.load(configuration, place)
        location, codecs = found["index_location"], found["index_codecs"]
        if prod(chunks) > _MAX_ENTRIES:
            raise place.member("chunk_shape").error(f"a shard of {prod(chunks)} chunks")
        at = place.member("index_codecs")
        names = [codec.get("name") if isinstance(codec, Mapping) else codec for codec in codecs]
        if names[0] != "bytes" or any(name != "crc32c" for name in names[1:]):
            from zvcore.zarr3.index_codecs import GeneralIndexCodecs

            general = GeneralIndexCodecs.from_json(list(codecs), tuple(chunks), at)
            return cls(tuple(chunks), location=location, codecs=general)
        _, given, where = named(codecs[0], at.item(0))
        endian: Any = ENDIAN.load(given.get("endian"), where.member("endian"))
        return cls(tuple(chunks), endian, len(codecs) - 1, location)

    def to_json(self) -> dict[str, Any]:
        """`index_codecs` and `index_location`."""
        if self.codecs is not None:
            return {"index_codecs": self.codecs.to_json(), "index_location": self.location}
        codecs: list[dict[str, Any]] = [{"name": "bytes", "configuration": {"endian": self.endian}}]
        codecs += [{"name": "crc32c"}] * self.checksums
        return {"index_codecs": codecs, "index_location": self.location}

    @property
    def count(self) -> int:
        return prod(self.chunks)

    @property
    def proves_itself(self) -> bool:
        """Whether other bytes can be reliably told from an index."""
        return self.codecs is None and self.checksums > 0

    @cached_property
    def size(self) -> int:
        """Bytes that the index takes in the object."""
        if self.codecs is not None:
            return self.codecs.size
        return 16 * self.count + 4 * self.checksums

    @cached_property
    def head(self) -> int:
        """Bytes that the index takes before the first chunk."""
        return self.size if self.location == "start" else 0

    @cached_property
    def span(self) -> tuple[int, int | None]:
        """(start, length) by which a store gives the index of an object of any size."""
        return (0, self.size) if self.head else (-self.size, None)

    def begins(self, object_size: int) -> int:
        """Where the index begins in an object of this size."""
        return 0 if self.head else object_size - self.size

    def within(self, shard: memoryview) -> memoryview:
        """The index in the bytes of a whole shard."""
        begin = max(0, self.begins(len(shard)))
        return shard[begin : begin + self.size]

    def parse(
        self, raw: Any, object_size: int | None = None, key: str | None = None
    ) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
        """(offsets, lengths) of the inner chunks in C order, MISSING for those that are not there.

        Every entry is checked to lie within the object and outside the index, if the object's size is given.
        """
        offsets, lengths = self.read(raw, object_size, key)
        for entry in self.wrong(offsets, lengths, object_size):
            raise self.fault(entry, offsets, lengths, object_size, key)
        return offsets, lengths

    def read(
        self, raw: Any, object_size: int | None = None, key: str | None = None
    ) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
        """`parse` without a look at the single entries: only the size and the checksums are checked."""
        raw = memoryview(raw).cast("B")
        at = 0 if object_size is None else self.begins(object_size)
        if len(raw) != self.size or at < 0:
            raise CorruptDataError(
                "the shard is too small for its index", key=key, expected=f"{self.size} bytes",
                found=len(raw) if object_size is None else object_size,
            )  # fmt: skip
        if self.codecs is not None:
            entries = self._decoded(self.codecs, raw, at, key)
            # Copies, always: a single entry would stay where it was read to, which is an address of any kind.
            return np.array(entries[:, 0], np.uint64), np.array(entries[:, 1], np.uint64)
        offsets, lengths = np.empty(self.count, np.uint64), np.empty(self.count, np.uint64)
        split_entries(self._entries(raw, at, key), offsets, lengths)
        return offsets, lengths

    def _entries(self, raw: memoryview, at: int, key: str | None) -> memoryview:
        for number in range(self.checksums, 0, -1):
            body = raw[: 16 * self.count + 4 * (number - 1)]
            stored = int.from_bytes(raw[len(body) : len(body) + 4], "little")
            found = crc32c(body)
            if found != stored:
                raise CorruptDataError(
                    "the shard index has a wrong checksum", key=key, offset=at, length=self.size, codec="crc32c",
                    expected=f"{stored:08x}", found=f"{found:08x}",
                )  # fmt: skip
        body = raw[: 16 * self.count]
        return body if self.endian == "little" else np.frombuffer(body, ">u8").astype("<u8").data.cast("B")

    def _decoded(self, codecs: GeneralIndexCodecs, raw: memoryview, at: int, key: str | None) -> npt.NDArray[np.uint64]:
        try:
            return codecs.decode(raw).reshape(-1, 2)
        except ZvcoreError as error:
            raise error.located(key=key, offset=at, length=self.size)

    def wrong(
        self, offsets: npt.NDArray[np.uint64], lengths: npt.NDArray[np.uint64], object_size: int | None
    ) -> Iterator[int]:
        """Which entries cannot be."""
        start, stop = 0, MISSING - 1
        if object_size is not None:
            start, stop = self.head, object_size if self.head else object_size - self.size
        entry = -1
        while (entry := next_wrong(offsets, lengths, start, stop, entry + 1)) >= 0:
            yield entry

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
        if self.codecs is not None:
            general = np.empty((*self.chunks, 2), np.uint64)
            general[..., 0] = np.asarray(offsets, np.uint64).reshape(self.chunks)
            general[..., 1] = np.asarray(lengths, np.uint64).reshape(self.chunks)
            return self.codecs.encode(general)
        # An index of millions of entries is in memory twice at most: here and as it is given back.
        size = 16 * self.count
        raw = np.empty(size + 4 * self.checksums, np.uint8)
        entries = raw[:size].view("<u8" if self.endian == "little" else ">u8").reshape(-1, 2)
        entries[:, 0] = offsets
        entries[:, 1] = lengths
        for end in range(size, len(raw), 4):
            raw[end : end + 4].view("<u4")[0] = crc32c(raw[:end])
        return raw.tobytes()


def index_of(
    store: Store, form: ShardIndexForm, key: str, found: Snapshot
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64], int]:
    """(offsets, lengths, the object's size) from what was read of a shard. Somebody may be at changing it in place."""
    seen = None
    if not form.proves_itself:
        seen = unfinished_index(store, form, key)
    try:
        raw, size = seen or (found.data, found.size)
        offsets, lengths = form.parse(raw, size, key)
    except CorruptDataError:
        seen = seen or unfinished_index(store, form, key)
        if seen is None:
            _expect_unchanged(store, key, found)
            raise
        raw, size = seen
        offsets, lengths = form.parse(raw, size, key)
    if seen is None and not form.proves_itself:
        _expect_unchanged(store, key, found)
    return offsets, lengths, size


def _expect_unchanged(store: Store, key: str, found: Snapshot) -> None:
    """Bytes that were read while they were being written are not damage. This happens only with files."""
    if store.of_files and store.stamp(key) != found.stamp:
        raise ConflictError("the shard changed while its index was read", key=key)


def unfinished_index(store: Store, form: ShardIndexForm, key: str) -> tuple[Any, int] | None:
    """(the index, the object's size) as they were or will be, if somebody is at changing the shard, or died over it."""
    state = store.unfinished(key)
    if state is None:
        return None
    start = form.begins(state.size)
    raw: Any = state.within(start, start + form.size)
    if raw is None:
        raw = store.get(key, max(0, start), form.size)
    return (b"" if raw is None else raw), state.size
