"""Where the inner chunks of a sharded Zarr v3 array live."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from zvcore.cached import cached_property
from zvcore.engine import ABSENT, Buffers, Keys, Sources
from zvcore.engine.known_shards import KnownShards
from zvcore.engine.single import OpenShards, Proof
from zvcore.errors import UnsupportedError
from zvcore.layout import Layout, StoredObject
from zvcore.stores.indexes import Indexes
from zvcore.zarr3._entries import look_up
from zvcore.zarr3.layout import ChunkLayout, form_of
from zvcore.zarr3.nested import locate_nested
from zvcore.zarr3.shard_index import Index, index_of
from zvcore.zarr3.shard_writer import ShardWriter, ZarrShards
from zvcore.zarr3.whole_shards import locate_whole, stored_chunks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zvcore.codecs import Codec, CodecChain
    from zvcore.layout import ValueCodec
    from zvcore.stores import Snapshot, Store
    from zvcore.stores.editing import Edit
    from zvcore.zarr3.metadata import ArrayMetadata
    from zvcore.zarr3.shard_format import Order

__all__ = ["ShardLayout", "WriteMode", "layout_of"]

WriteMode = Literal["rewrite", "append", "inplace"]
Positions = npt.NDArray[np.int64]
Uints = npt.NDArray[np.uint64]

# Chunks of which Python tells the shards apart in less time than numpy.
_FEW = 64
_NONE = np.uint64(ABSENT)


def check_write_options(
    write_mode: str = "rewrite", order_in_shard: str = "C", dead_bytes_threshold: float = 0.5, **others: Any
) -> None:
    """How shards are to be written, looked at also where nothing that is opened has any."""
    if write_mode not in ("rewrite", "append", "inplace"):
        raise ValueError(f"write_mode is 'rewrite', 'append' or 'inplace', not {write_mode!r}")
    if order_in_shard not in ("C", "F", "morton"):
        raise ValueError(f"order_in_shard is 'C', 'F' or 'morton', not {order_in_shard!r}")
    if not 0 <= dead_bytes_threshold <= 1:
        raise ValueError(f"dead_bytes_threshold lies between 0 and 1, not at {dead_bytes_threshold}")


def refuse_write_mode(layout: Layout) -> None:
    """UnsupportedError where shards cannot be changed in the way that was asked for: the first change would tell it."""
    if not isinstance(layout, ShardLayout) or layout.write_mode == "rewrite" or not layout.simple:
        return
    mode = f"write_mode {layout.write_mode!r}"
    if not layout.store.supports_patch:
        raise UnsupportedError(f"{mode}: objects of this store cannot be changed in place", key=layout.store.root)
    if layout.write_mode == "append" and layout.levels[0].form.head:
        what = "needs the index at the end of the shard (index_location): at the start, others would see a part of it"
        raise UnsupportedError(f"{mode} {what}", key=layout.store.root)


class ShardLayout(Layout):
    """An array whose chunks lie together in shards, nested as deep as its metadata say."""

    value_codec: ValueCodec | None

    def __init__(
        self,
        store: Store,
        metadata: ArrayMetadata,
        store_empty: bool = False,
        write_mode: WriteMode = "rewrite",
        order_in_shard: Order = "C",
        dead_bytes_threshold: float = 0.5,
    ) -> None:
        check_write_options(write_mode, order_in_shard, dead_bytes_threshold)
        self.dead_bytes_threshold = dead_bytes_threshold
        self.store = store
        self.metadata = metadata
        self.shared = metadata.shared
        self.shape = metadata.shape
        self.fill_value = metadata.fill_value
        self.store_empty = store_empty
        self.write_mode = write_mode
        self.order_in_shard = order_in_shard
        self.pipeline = metadata.pipeline
        self.levels, chunk_shape, axes = self.pipeline.levels
        self.innermost = self.pipeline.innermost
        self.form, self.value_codec = form_of(self.innermost, chunk_shape, axes, metadata.fill_value)
        self.shard_shape = metadata.chunk_shape
        # Inner chunks per shard along each axis, all levels together.
        self.per_shard = np.array(
            [shard // chunk for shard, chunk in zip(self.shard_shape, chunk_shape, strict=True)], np.int64
        )
        self._per_shard = tuple(self.per_shard.tolist())
        # The common case: one level, and nothing behind the shard that would have to be undone first.
        self.simple = len(self.levels) == 1 and not self.pipeline.compressors
        if not self.simple:
            self.shards_at_once = 4  # which are read as a whole
        # Whether each chunk is a range of its object.
        self.ranged = not store.blind and not any(level.codecs.compressors for level in self.levels)
        self._strides = tuple(self.levels[0].strides.tolist())

    @property
    def first_filter(self) -> Codec | None:
        return self.innermost.first_filter

    @cached_property
    def chains(self) -> tuple[CodecChain, ...]:
        return (self.innermost.chunk_chain,)

    @cached_property
    def open_shards(self) -> OpenShards | None:
        grid = self.metadata.grid
        if not self.simple or self.value_codec is not None or self.store.local_root is None:
            return None
        if math.prod(grid) >= 2**62:
            return None
        return OpenShards(self._per_shard, self._strides, grid, self.proof, self.store.chunk_cache)

    @cached_property
    def proof(self) -> Proof:
        return Proof()

    @cached_property
    def _known_shards(self) -> KnownShards | None:
        grid = self.metadata.grid
        # Blind stores do not tell of a shard that is read whether it is the one that is meant.
        if not self.simple or self.value_codec is not None or self.store.blind or math.prod(grid) >= 2**62:
            return None
        return KnownShards(self._per_shard, self._strides, grid)

    def __getstate__(self) -> dict[str, Any]:
        made_anew = ("chains", "open_shards", "placement", "proof", "_known", "_known_shards")
        return {name: value for name, value in super().__getstate__().items() if name not in made_anew}

    # --- which shard

    def shard_key(self, shard: tuple[int, ...]) -> str:
        return self.metadata.key(shard)

    def chunk_name(self, position: tuple[int, ...]) -> str:
        return self.shard_key(tuple(i // n for i, n in zip(position, self._per_shard, strict=True)))

    def group(self, positions: Positions) -> tuple[Keys, npt.NDArray[np.int32]]:
        """(the keys of the shards, which of them holds each chunk)."""
        shards = positions // self.per_shard
        if len(shards) <= 1 or (len(shards) <= _FEW and (shards == shards[0]).all()):
            return self.metadata.keys(shards[:1]), np.zeros(len(shards), np.int32)
        if self._shard_strides is None:
            unique, inverse = np.unique(shards, axis=0, return_inverse=True)
            return self.metadata.keys(unique), inverse.reshape(-1).astype(np.int32)
        numbers = shards @ self._shard_strides
        if len(numbers) <= _FEW:
            listed: list[int] = numbers.tolist()
            unique_ones = sorted({*listed})
            place = {number: row for row, number in enumerate(unique_ones)}
            chosen = [listed.index(number) for number in unique_ones]
            return self.metadata.keys(shards[chosen]), np.array([place[number] for number in listed], np.int32)
        _, first, inverse = np.unique(numbers, return_index=True, return_inverse=True)
        return self.metadata.keys(shards[first]), inverse.reshape(-1).astype(np.int32)

    @cached_property
    def _shard_strides(self) -> npt.NDArray[np.int64] | None:
        """What numbers the shards of the grid, None where there are too many."""
        grid = self.metadata.grid
        if math.prod(grid) >= 2**62:
            return None
        return np.array([math.prod(grid[axis + 1 :]) for axis in range(len(grid))], np.int64)

    # --- reading

    def index(self, key: str, fresh: bool = True) -> Index | None:
        """The index of a shard, from the cache if the object is still the same; None if there is no such shard.

        Without `fresh`, a remote object is not checked for this: a caller that reads its chunks finds out.
        """
        if self.store.blind:
            form = self.levels[0].form
            raw = self.store.get(key, *form.span)
            # Where the object ends is not known: the ranges that are read will tell.
            return None if raw is None else Index(*form.parse(raw, None, key), None, 0)
        return self._known.of(key, fresh)

    @cached_property
    def _known(self) -> Indexes[Index]:
        form = self.levels[0].form
        return Indexes(self.store, form.span, self._read_index, part=form)

    def _read_index(self, key: str, found: Snapshot) -> tuple[Index, int]:
        offsets, lengths, size = index_of(self.store, self.levels[0].form, key, found)
        index = Index(offsets, lengths, found.stamp, size)
        return index, index.nbytes

    def note_index(self, key: str, index: Index) -> None:
        """This is the index of a shard that was written now."""
        self._known.note(key, index.stamp, index, index.nbytes)

    def locate(self, positions: Positions) -> Sources:
        keys, which = self.group(positions)
        if not self.simple:
            return (locate_nested if self.ranged else locate_whole)(self, positions, keys, which)
        slots = self.levels[0].slots(positions)
        if len(keys) == 1:
            index = self.index(keys[0], fresh=False)
            if index is None:
                nothing = np.full(len(positions), _NONE)
                return Sources(keys, which, nothing, nothing, stamps=[None], found=[None])
            self._note(positions, which, [index])
            return Sources(keys, which, index.offsets[slots], index.lengths[slots], stamps=[index.stamp], found=[index])
        offset = np.full(len(positions), _NONE)
        length = np.full(len(positions), _NONE)
        indexes = self._indexes([*keys])
        look_up(indexes, which, slots, offset, length)
        self._note(positions, which, indexes)
        stamps = [None if index is None else index.stamp for index in indexes]
        return Sources(keys, which, offset, length, stamps=stamps, found=indexes)

    def _note(self, positions: Positions, which: npt.NDArray[np.int32], indexes: list[Index | None]) -> None:
        known = self._known_shards
        if known is not None:
            # What may still be changed within the same tick of the clock cannot be told from the next by its stamp.
            settled = self.store.settled
            known.note(positions, which, [index if index and settled(index.stamp) else None for index in indexes])

    def recall(self, positions: Positions) -> Sources | None:
        known = None if self._known_shards is None else self._known_shards.recall(positions)
        if known is None:
            return None
        shards, which, offset, length, indexes = known
        stamps = [index.stamp for index in indexes]
        return Sources(self.metadata.keys(shards), which, offset, length, stamps=stamps, found=indexes)

    def _indexes(self, keys: list[str]) -> list[Index | None]:
        """Those of several shards, without checking them. No thread is woken for those that are here."""
        found: list[Index | None] = [None if self.store.blind else self._known.known(key) for key in keys]
        missing = [number for number, index in enumerate(found) if index is None]
        read = self.store.each(lambda number: self.index(keys[number], fresh=False), missing)
        for number, index in zip(missing, read, strict=True):
            found[number] = index
        return found

    def stored_in(self, shard: Positions) -> Positions:
        """The places in the array's grid of the chunks that the shard at this place has, if there is such a shard."""
        key = self.metadata.keys(shard.reshape(1, -1))[0]
        if self.simple:
            index = self.index(key)
            slots = np.flatnonzero(index.lengths != _NONE) if index is not None else np.zeros(0, np.int64)
            return shard * self.per_shard + self.levels[0].cells_of(slots)
        raw = self.store.get(key)
        parts = () if raw is None else stored_chunks(self, memoryview(raw), shard, key)
        return np.concatenate([np.zeros((0, len(self.shape)), np.int64), *(positions for positions, _ in parts)])

    def stored_objects(self) -> Iterator[StoredObject]:
        return itertools.starmap(StoredObject, self.metadata.stored(self.store))

    def stored_chunks_in(self, stored: StoredObject) -> Positions:
        return self.stored_in(np.array(stored.place, np.int64))

    def open_shard(self, positions: Positions) -> Index | None:
        key = self.metadata.keys(positions // self.per_shard)[0]
        index = self.index(key)
        file = None if index is None else self.store.kept_file(key)
        if self.open_shards is None or index is None or file is None:
            return None
        self.open_shards.note(positions, file, index, index.stamp)
        return index

    def locate_whole(self, positions: Positions) -> Sources:
        """`locate` by the bytes of whole shards, of whatever kind they are."""
        return locate_whole(self, positions, *self.group(positions))

    # --- writing

    def chunks_of(self, shards: Positions) -> npt.NDArray[np.int64]:
        """How many chunks each of these shards can have: those behind the array's end are never stored."""
        bounds = -(-np.array(self.shape, np.int64) // np.array(self.form.shape, np.int64))
        counts: npt.NDArray[np.int64] = np.minimum(self.per_shard, bounds - shards * self.per_shard).prod(axis=1)
        return counts

    def chunks_of_one(self, position: npt.NDArray[np.int64]) -> int:
        """`chunks_of` the shard that has this chunk."""
        count = 1
        for at, within, extent, chunk in zip(
            position.tolist(), self._per_shard, self.shape, self.form.shape, strict=True
        ):
            count *= min(within, -(-extent // chunk) - at // within * within)
        return count

    @cached_property
    def write_order(self) -> npt.NDArray[np.int64]:
        """The cells of a shard in the order in which their chunks are written."""
        return self.levels[0].in_order(self.order_in_shard)

    @cached_property
    def place_in_shard(self) -> npt.NDArray[np.int64]:
        """The place of each cell in that order."""
        places = np.empty(len(self.write_order), np.int64)
        places[self.write_order] = np.arange(len(places))
        return places

    @cached_property
    def placement(self) -> ZarrShards:
        return ZarrShards(self)

    def compact(self, edit: Edit) -> int:
        """Write a shard again without the bytes that belong to nothing; how many bytes it became smaller."""
        before = self.store.size(edit.key) or 0
        nothing = np.zeros((0, len(self.shape)), np.int64)
        ShardWriter(self, edit.key, "rewrite").update(edit, nothing, Buffers(0))
        return before - (self.store.size(edit.key) or 0)


def layout_of(
    store: Store, metadata: ArrayMetadata, store_empty: bool = False, **shard_options: Any
) -> ChunkLayout | ShardLayout:
    """Where the chunks of an array live; the options only mean something to one with shards."""
    if metadata.edges is not None:
        what = "arrays with a rectilinear grid are read and written; what was asked for needs chunks of one size"
        raise UnsupportedError(what, key=metadata.where)
    if metadata.pipeline.sharding is None:
        return ChunkLayout(store, metadata, store_empty)
    return ShardLayout(store, metadata, store_empty, **shard_options)
