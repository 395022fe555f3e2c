"""Where the chunks of one scale are: a file each, or in shards by their compressed Morton codes."""

from __future__ import annotations

import itertools
import re
import sys
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from zvcore import codecs, kernels
from zvcore.cached import cached_property
from zvcore.codecs import Codec, CodecChain
from zvcore.codecs.registry import kept
from zvcore.engine import Keys
from zvcore.engine.paths import existing
from zvcore.engine.steady import steadily
from zvcore.errors import InvalidKeyError, UnsupportedError
from zvcore.layout import ChunkForm, Layout, Sources, StoredObject
from zvcore.placement import OneChunkPerObject
from zvcore.precomputed._names import named_boxes
from zvcore.precomputed.brotli_files import Brotli
from zvcore.precomputed.content_encoding import LONGEST_MARK, Unpacking, begins_packed
from zvcore.precomputed.shard_placement import VolumeShards
from zvcore.precomputed.shard_reader import ShardReader, chain_for

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from zvcore.precomputed.metadata import Scale
    from zvcore.stores import Store

__all__ = ["ScaleLayout", "ShardedLayout", "UnshardedLayout", "layout_of"]

Positions = npt.NDArray[np.int64]
Kinds = npt.NDArray[np.uint8]
Data = bytes | memoryview
# Under one name: (the size, the bytes where they were read); no size where nothing has it.
Found = tuple[int | None, Data | None]

CHUNK_NAME = re.compile("_".join(["(-?[0-9]{1,19})-(-?[0-9]{1,19})"] * 3) + r"(\.gz|\.br)?")
# What CloudVolume appends to the names of files that it has compressed; the number of each is that of its chains.
PACKED = (".gz", ".br")
SUFFIXES = ("", *PACKED)
_PLAIN, _GZIP, _BROTLI = range(len(SUFFIXES))
# Chunks that are called as plain ones, and may be packed: in object stores, and in copies of them on disks.
_UNPACKED = len(SUFFIXES)
FOREIGN_SUFFIXES = (".zstd", ".zst", ".xz", ".bz2", ".lzma")
# So many names of a folder tell how its files are compressed.
_SAMPLE = 1000
# For so many seconds it is believed that an object store has no chunk of a scale yet: a write asks several times.
_A_MOMENT = 1.0


def layout_of(
    store: Store, scale: Scale, dtype: np.dtype[Any], channels: int, store_empty: bool = False
) -> ScaleLayout:
    """The layout of one scale of the volume at the root of this store."""
    layout = UnshardedLayout if scale.sharding is None else ShardedLayout
    return layout(store, scale, dtype, channels, store_empty)


class ScaleLayout(Layout):
    """What both kinds share: voxels [x, y, z, channel], x fastest, chunks cut at the volume's end."""

    chains: tuple[CodecChain, ...]

    def __init__(self, store: Store, scale: Scale, dtype: np.dtype[Any], channels: int, store_empty: bool) -> None:
        self.store = store
        self.scale = scale
        self.shape = (*scale.size, channels)
        self.form = ChunkForm((*scale.chunk, channels), dtype, sys.byteorder == "big", (3, 2, 1, 0), "cropped")
        self.fill_value = dtype.type(0)
        self.store_empty = store_empty
        self.grid = scale.grid
        self._make_chains(self._storing())

    def _storing(self) -> list[CodecChain]:
        """What happens to encoded chunks before they are stored, one way or several."""
        return [CodecChain(())]

    def _make_chains(self, storing: list[CodecChain]) -> None:
        """A chain for each shape that a chunk can have, since an encoding needs to know it.

        A chunk's shape follows from the axes along which it is the last and cut: 3 bits.
        """
        chunk = self.scale.chunk
        cut = [size % step for size, step in zip(self.scale.size, chunk, strict=True)]
        self._cut, self._last = np.array(cut) != 0, np.array(self.grid) - 1
        dtype = self.form.dtype
        chains: list[tuple[Codec, ...]] = []
        self._chain_of = np.zeros(8, np.uint8)
        # Where the only chunk is cut there is none that is not.
        may_be_cut = [
            (0,) if not rest else (1,) if count == 1 else (0, 1) for rest, count in zip(cut, self.grid, strict=True)
        ]
        for flags in itertools.product(*may_be_cut):
            shape = tuple(cut[i] if flags[i] else chunk[i] for i in range(3))
            encoding = self.scale.encoding.codecs((shape[0], shape[1], shape[2], self.shape[3]), dtype)
            if not encoding:
                # The same for all shapes.
                chains = [()]
                break
            self._chain_of[flags[0] + 2 * flags[1] + 4 * flags[2]] = len(chains)
            chains.append(tuple(encoding))
        self._shapes = len(chains)
        self.chains = tuple(CodecChain((*chain, *after.codecs)) for after in storing for chain in chains)

    def chain_column(self, positions: Positions) -> npt.NDArray[np.uint8] | None:
        if self._shapes == 1:
            return None
        flags = (positions[:, :3] == self._last) & self._cut
        chosen: npt.NDArray[np.uint8] = self._chain_of[flags @ np.array([1, 2, 4])]
        return chosen

    def chunk_sizes(self, positions: Positions) -> Positions:
        """To how many bytes the chunks at these places are decoded."""
        begin, end = self._boxes(positions)
        sizes: Positions = (end - begin).prod(1) * (self.shape[3] * self.form.dtype.itemsize)
        return sizes

    def _boxes(self, positions: Positions) -> tuple[Positions, Positions]:
        """Where chunks begin and end, in voxels of the scale."""
        begin = positions[:, :3] * np.array(self.scale.chunk, np.int64)
        return begin, np.minimum(begin + np.array(self.scale.chunk, np.int64), np.array(self.scale.size, np.int64))


def _ways_of_storing() -> list[CodecChain]:
    """By the numbers of the kinds of files."""
    return [
        CodecChain(()), CodecChain((codecs.from_neuroglancer("gzip"),)), CodecChain((Brotli(),)),
        CodecChain((Unpacking(),)),
    ]  # fmt: skip


class UnshardedLayout(ScaleLayout):
    """One file per chunk, named after the voxels that it holds.

    As with CloudVolume, files are compressed and their names end with `.gz` where the scale says so, or where it is so
    with those that are there. Chunks that are there under any such name are read, and stay what they are when written.
    """

    # Until when a folder that was empty is not looked at again.
    _empty_until = 0.0

    def _storing(self) -> list[CodecChain]:
        self._prefix = f"{self.scale.folder}/"
        # None: nobody knows yet. In object stores, only copies of folders have such names.
        self._may_be_packed: bool | None = True if self.store.of_files else None
        # How the names of the first chunk that was found end.
        self._suffixes_found: frozenset[str] = frozenset()
        # Whether the first one with a plain name is packed all the same. None: none has been looked at.
        self._is_packed: bool | None = None
        # Whether all that was looked for last is there under the names that most have.
        self._were_as_most = False
        scale = self.scale
        self._extents = tuple(np.array(of, np.int64) for of in (scale.chunk, scale.size, scale.corner))
        return kept(_ways_of_storing)

    def __getstate__(self) -> dict[str, Any]:
        left = ("_suffixes_there", "_empty_until")  # which is by the clock of this machine
        return {name: value for name, value in super().__getstate__().items() if name not in left}

    @property
    def codec(self) -> Codec | None:
        """What new files are compressed with after their encoding."""
        return self.chains[self._shapes].codecs[-1] if self._kind_of_new() == _GZIP else None

    @property
    def chains_of_new(self) -> range:
        first = self._kind_of_new() * self._shapes
        return range(first, first + self._shapes)

    @cached_property
    def _suffixes_there(self) -> frozenset[str] | None:
        return self._suffixes_listed()

    def _suffixes_listed(self) -> frozenset[str] | None:
        """How names of files end that are there; of chunks that we cannot read, their names. None: there is no list."""
        try:
            names = self.store.some_objects(self.scale.folder, _SAMPLE)
        except InvalidKeyError:
            return frozenset()
        except (OSError, UnsupportedError):
            return None
        found = {name for name in names if name.endswith(FOREIGN_SUFFIXES)}
        return frozenset(found.union(match[7] or "" for name in names if (match := CHUNK_NAME.fullmatch(_last(name)))))

    def _refuse_foreign(self) -> None:
        """Chunks under names that we cannot read shall not pass for missing ones."""
        for name in sorted(self._suffixes_there or ()):
            if len(name) > 3:
                raise UnsupportedError("the chunks are compressed in a way that is not read", key=name)

    def _kind_of_new(self) -> int:
        """How chunks are stored that are not there yet."""
        if self._is_packed:
            return _UNPACKED
        if not self._may_be_packed:
            return _PLAIN
        if self.scale.gzipped and self.store.of_files:
            return _GZIP
        there = self._suffixes_found if self._suffixes_there is None else self._suffixes_there
        return _GZIP if ".gz" in there and "" not in there else _PLAIN

    @property
    def placement(self) -> OneChunkPerObject:
        return OneChunkPerObject(self.store, self.keys)

    def keys(self, positions: Positions) -> Keys:
        return self._looked_for(positions)[1]

    def _called(self, positions: Positions, kind: int = _PLAIN) -> Keys:
        """The names of the chunks if all were stored as files of this kind."""
        columns = named_boxes(np.ascontiguousarray(positions, np.int64), *self._extents)
        return Keys.format(columns, [self._prefix, "-", "_", "-", "_", "-", SUFFIXES[kind]])

    def _looked_for(self, positions: Positions) -> tuple[Kinds | None, Keys]:
        """(as which file each chunk is stored, or would be, or None: all under plain names; the names)."""
        if not len(positions) or not self._packed(positions):
            return None, self._called(positions)
        order = self._order()
        keys = self._called(positions, order[0])
        there = self._existing(keys)
        kinds = np.full(len(positions), order[0], np.uint8)
        # What is so most often, of single chunks before all, is to cost little.
        self._were_as_most = bool(there.all())
        if self._were_as_most and (order[0] == _GZIP or self._is_packed is not None):
            return (kinds if order[0] else None), keys
        left = np.flatnonzero(~there)
        if len(left):
            left = self._become(kinds, left, positions, order[1])
        if len(left):
            self._refuse_foreign()
            new = self._kind_of_new()
            kinds[left] = _PLAIN if new == _UNPACKED else new
            for kind in range(_GZIP + 1, len(SUFFIXES)):
                if self._may_end_with(SUFFIXES[kind]):
                    left = self._become(kinds, left, positions, kind)
        if self._is_packed is None:
            plain = np.setdiff1d(np.flatnonzero(kinds == _PLAIN), left, assume_unique=True)
            if len(plain):
                self._is_packed = self._holds_packed(positions[plain[0]])
        if (kinds != order[0]).any():
            keys = self._named(positions, kinds)
        return (kinds if kinds.any() else None), keys

    def _may_end_with(self, suffix: str) -> bool:
        """Whether names may, of chunks that have no other. Where it costs little to ask for a file, that is done: a
        list has the first names alone, and those that were there when it was made.
        """
        return self.store.of_files or self._suffixes_there is None or suffix in self._suffixes_there

    def _become(
        self, kinds: Kinds, left: npt.NDArray[np.intp], positions: Positions, kind: int
    ) -> npt.NDArray[np.intp]:
        """Note which of the chunks in the rows `left` are stored as this kind: the rows of the others."""
        there = self._existing(self._called(positions[left], kind))
        kinds[left[there]] = kind
        return left[~there]

    def _existing(self, keys: Keys) -> npt.NDArray[np.bool_]:
        if self.store.local_root is not None:
            return existing(keys, self.store.local_root)
        return np.fromiter((size is not None for size in self.store.sizes(keys)), np.bool_, len(keys))

    def _named(self, positions: Positions, kinds: Kinds) -> Keys:
        if (kinds == kinds[0]).all():
            return self._called(positions, int(kinds[0]))
        names = zip(self._called(positions), kinds.tolist(), strict=True)
        return Keys.of([name + SUFFIXES[kind] for name, kind in names])

    def _packed(self, positions: Positions) -> bool:
        """Whether names may end with `.gz`. Of object stores the first chunk that is found tells it of all others."""
        if self._may_be_packed is None and len(positions) and time.monotonic() > self._empty_until:
            self._find_out(positions)
        return bool(self._may_be_packed)

    def _find_out(self, positions: Positions, first: Sequence[Found] | None = None) -> None:
        """Most often the first of these chunks is there. If not, a list tells, or else the next one that is found: that
        the first is missing says nothing of how the others are called.

        `first`: what was found under the names of the first one, if somebody has asked for it.
        """
        at, count = 0, 1
        while at < len(positions):
            some = positions[at : at + count]
            found = [(size, None) for size in self.store.sizes(self._names_of(some))] if first is None else first
            if self._learn(some, found):
                return
            if at == 0 and (there := self._suffixes_listed()) is not None:
                # An empty folder says nothing of what others will store in it.
                self._may_be_packed = there != {""} if there else None
                self._is_packed = "" in there and self._one_is_packed()
                self._empty_until = 0.0 if there else time.monotonic() + _A_MOMENT
                return
            at += count
            count *= 2
            first = None

    def _names_of(self, positions: Positions) -> list[str]:
        """All names that these chunks may have."""
        return [name + suffix for name in self._called(positions) for suffix in SUFFIXES]

    def _learn(self, positions: Positions, found: Sequence[Found]) -> bool:
        """Tell from what was found under the names of some chunks how all are called; False if nothing was."""
        pairs = zip(itertools.cycle(SUFFIXES), found, strict=False)
        self._suffixes_found = frozenset(suffix for suffix, (size, _) in pairs if size is not None)
        if not self._suffixes_found:
            return False
        self._may_be_packed = self._suffixes_found != {""}
        plain = next(((row, one) for row, one in enumerate(found[:: len(SUFFIXES)]) if one[0] is not None), None)
        self._is_packed = plain is not None and self._holds_packed(positions[plain[0]], *plain[1])
        return True

    def fetch_first(self, positions: Positions) -> Sources | None:
        if self._may_be_packed is not None:
            return None
        blobs = [*self.store.get_many(self._names_of(positions))]
        sizes = [None if data is None else memoryview(data).nbytes for data in blobs]
        self._find_out(positions, [*zip(sizes, blobs, strict=True)])
        kind = next((kind for kind in self._order() if blobs[kind] is not None), None)
        if kind is None and self._may_be_packed:
            return None
        chain = self.chains_with(positions, np.array([kind], np.uint8) if kind else None)
        data = None if kind is None else memoryview(blobs[kind] or b"")
        return Sources(self._called(positions, kind or _PLAIN), blobs=[data], chain=chain)

    def _order(self) -> tuple[int, ...]:
        """That kind first which most chunks have."""
        return (_GZIP, _PLAIN, _BROTLI) if self.scale.gzipped else (_PLAIN, _GZIP, _BROTLI)

    def _one_is_packed(self) -> bool:
        """`_holds_packed` of any chunk that is listed under a plain name."""
        names = map(_last, self.store.some_objects(self.scale.folder, _SAMPLE))
        places = (self.place_of(name) for name in names if not name.endswith(PACKED))
        place = next((place for place in places if place is not None), None)
        return place is not None and self._holds_packed(np.array(place, np.int64))

    def _holds_packed(self, position: npt.NDArray[np.int64], size: int | None = None, data: Data | None = None) -> bool:
        """Whether a chunk with a plain name is packed. Of values as they are the size says it, and no other request.

        `data`: all of it, if it was read.
        """
        values = int(self.chunk_sizes(position[None])[0])
        if not self.chains[0].codecs and size == values:
            return False
        key = self._called(position[None])[0]
        head = self.store.get(key, 0, LONGEST_MARK) if data is None else data
        if head is None or not begins_packed(head):
            return False
        return bool(self.chains[0].codecs) or (self.store.size(key) if size is None else size) != values

    def place_of(self, name: str) -> tuple[int, int, int, int] | None:
        """The chunk that a file of this name holds; None if it is none of the grid."""
        match = CHUNK_NAME.fullmatch(name)
        if match is None:
            return None
        numbers = [int(text) for text in match.groups()[:6]]
        scale = self.scale
        place = []
        for axis in range(3):
            start, end = numbers[2 * axis] - scale.corner[axis], numbers[2 * axis + 1] - scale.corner[axis]
            number, rest = divmod(start, scale.chunk[axis])
            if rest or not 0 <= start < scale.size[axis] or end != min(start + scale.chunk[axis], scale.size[axis]):
                return None
            place.append(number)
        return place[0], place[1], place[2], 0

    def stored_objects(self) -> Iterator[StoredObject]:
        for name in self.store.list_dir(self.scale.folder)[1]:
            place = self.place_of(name)
            if place is not None:
                yield StoredObject(self._prefix + name, place)

    def chain_column(self, positions: Positions) -> npt.NDArray[np.uint8] | None:
        return self.chains_with(positions, self._looked_for(positions)[0])

    def chains_with(self, positions: Positions, kinds: Kinds | None) -> npt.NDArray[np.uint8] | None:
        column = super().chain_column(positions)
        if self._is_packed:
            given = np.zeros(len(positions), np.uint8) if kinds is None else kinds
            kinds = np.where(given == _PLAIN, np.uint8(_UNPACKED), given)
        if kinds is None:
            return column
        if column is None:
            column = np.zeros(len(positions), np.uint8)
        return column + kinds * np.uint8(self._shapes)

    def chains_of_files(self, positions: Positions, keys: Sequence[str]) -> npt.NDArray[np.uint8] | None:
        """`chain_column` for files of these names."""
        kinds = np.array(
            [max(0, *(i for i, end in enumerate(SUFFIXES) if key.endswith(end))) for key in keys], np.uint8
        )
        if self._packed(positions) and self._is_packed is None and not kinds.all():
            self._is_packed = self._holds_packed(positions[np.flatnonzero(kinds == _PLAIN)[0]])
        return self.chains_with(positions, kinds if kinds.any() else None)

    def locate(self, positions: Positions) -> Sources:
        kinds, keys = self._looked_for(positions)
        return Sources(keys, chain=self.chains_with(positions, kinds))

    def recall(self, positions: Positions) -> Sources | None:
        # As long as all are found under the names that most have, only reading looks for them.
        kind = self._order()[0]
        if not self._were_as_most or self.store.local_root is None or not len(positions):
            return None
        if kind == _PLAIN and self._is_packed is None:
            return None
        chain = self.chains_with(positions, np.full(len(positions), kind, np.uint8) if kind else None)
        return Sources(self._called(positions, kind), chain=chain, present=True)

    def chunk_name(self, position: tuple[int, ...]) -> str:
        return self.keys(np.array([position], np.int64))[0]


def _last(name: str) -> str:
    return name.rpartition("/")[2]


class ShardedLayout(ScaleLayout):
    """Chunks in shards."""

    def _storing(self) -> list[CodecChain]:
        assert self.scale.sharding is not None
        self.spec = self.scale.sharding
        self.reader = ShardReader(self.store, self.spec, f"{self.scale.folder}/")
        box = self.spec.shard_grid(self.grid)
        if box is not None:
            self.shard_shape = (*(n * size for n, size in zip(box, self.scale.chunk, strict=True)), self.shape[3])
        return [chain_for(self.spec.data_encoding, self.scale.folder)]

    def ids(self, positions: Positions) -> npt.NDArray[np.uint64]:
        """The ids of the chunks at these grid positions."""
        return kernels.compressed_morton(positions[:, :3], self.grid)

    def locate(self, positions: Positions) -> Sources:
        sources = self.reader.locate(self.ids(positions))
        sources.chain = self.chain_column(positions)
        return sources

    def stored_objects(self) -> Iterator[StoredObject]:
        for shard in self.reader.shards():
            yield StoredObject(self.reader.key(shard), None)

    def stored_chunks_in(self, stored: StoredObject) -> Positions:
        shard = self.spec.shard_number(stored.key.removeprefix(self.reader.prefix))

        def read() -> Positions:
            file = None if shard is None else self.reader.file(shard)
            found = [np.zeros((0, 4), np.int64)]
            for _, table in () if file is None else self.reader.all_tables(file):
                ids = np.asarray(table.ids)
                ids = ids[kernels.compressed_morton_valid(ids, self.grid)]
                places = np.zeros((len(ids), 4), np.int64)
                places[:, :3] = kernels.compressed_morton_inverse(ids, self.grid)
                found.append(places)
            return np.concatenate(found)

        return steadily(read, stored.key)

    def chunk_name(self, position: tuple[int, ...]) -> str:
        shard, _ = self.spec.locate(self.ids(np.array([position], np.int64)))
        return self.reader.key(int(shard[0]))

    @property
    def placement(self) -> VolumeShards:
        return VolumeShards(self)
