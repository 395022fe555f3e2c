"""The layout of chunks in another library's file that are stored in a way the engine can read by itself."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from zvcore.borrowed.nowhere import ReadOnlyPlacement
from zvcore.cached import cached_property
from zvcore.codecs import CodecChain
from zvcore.engine import Keys
from zvcore.errors import NotFoundError
from zvcore.layout import ABSENT, ChunkForm, Layout, Sources
from zvcore.stores.single_file import another_by_now, facts_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zvcore.codecs import Codec
    from zvcore.placement import Placement
    from zvcore.stores.single_file import SingleFileStore

__all__ = ["ChunkIndex", "EndingLayout", "StoredLayout"]


@dataclass(frozen=True)
class ChunkIndex:
    """Where the chunks of an array lie in a file, in the order of their numbers in the grid (C order).

    numbers  int64[n], each once
    offsets  uint64[n], and
    lengths  uint64[n] in the file
    skipped  which codecs were left out when each was written: bit i is the i-th, as int64[n]
    """

    numbers: npt.NDArray[np.int64]
    offsets: npt.NDArray[np.uint64]
    lengths: npt.NDArray[np.uint64]
    skipped: npt.NDArray[np.int64]


class StoredLayout(Layout):
    """Chunks encoded by codecs that zvcore has. `read_index` is called when one is first read.

    A chunk that is not stored reads as the fill value. Chunks at the array's end are whole.
    """

    edge: ClassVar[Literal["full", "cropped"]] = "full"

    def __init__(
        self,
        place: SingleFileStore,
        shape: Sequence[int],
        chunks: Sequence[int],
        dtype: np.dtype[Any],
        fill_value: Any,
        codecs: Sequence[Codec],
        read_index: Callable[[], ChunkIndex],
        blocks: Any = None,
    ) -> None:
        self.key = str(place.file)
        facts = facts_of(place, self.key)
        if facts is None:
            raise NotFoundError("there is no file here", key=place.root)
        self.stamp = facts.stamp
        # The engine reads files of a folder by itself.
        self.store = place.folder
        self.shape = tuple(shape)
        native = dtype.newbyteorder("=")
        axes = tuple(range(len(self.shape)))
        self.form = ChunkForm(tuple(chunks), native, native != dtype, axes, self.edge)
        self.fill_value = fill_value
        self.codecs = tuple(codecs)
        # The library's own reader of these chunks, as a `BlockLayout` has it.
        self.blocks = blocks
        self._grid = tuple(-(-n // chunk) for n, chunk in zip(self.shape, chunks, strict=True))
        self._read_index = read_index
        self._reading = threading.Lock()
        self._index: ChunkIndex | None = None

    @property
    def index(self) -> ChunkIndex:
        with self._reading:
            if self._index is None:
                self._index = self._read_index()
            return self._index

    def places(self) -> npt.NDArray[np.int64]:
        """The grid positions of the chunks that are stored."""
        numbers = self.index.numbers
        if not self._grid or not len(numbers):
            return np.zeros((len(numbers), len(self._grid)), np.int64)
        return np.stack(np.unravel_index(numbers, self._grid), axis=1).astype(np.int64)

    @cached_property
    def skips(self) -> npt.NDArray[np.int64]:
        """The codecs that each of the chains leaves out, as bits; the first chain leaves out none."""
        known = np.unique(self.index.skipped)
        return np.concatenate([[0], known[known != 0]]).astype(np.int64)

    @cached_property
    def chains(self) -> tuple[CodecChain, ...]:
        return tuple(
            CodecChain([codec for bit, codec in enumerate(self.codecs) if not int(skips) >> bit & 1])
            for skips in self.skips
        )

    @property
    def placement(self) -> Placement:
        return ReadOnlyPlacement(self.store)

    def chunk_name(self, position: tuple[int, ...]) -> str:
        return self.key

    def locate(self, positions: npt.NDArray[np.int64]) -> Sources:
        if self.store.stamp(self.key) != self.stamp:
            raise another_by_now(self.key)
        return self._located(positions)

    def recall(self, positions: npt.NDArray[np.int64]) -> Sources | None:
        # Far away, a look would be a request of its own. Bytes of another version do not come, but of chunks that are
        # not stored none do.
        found = self._located(positions) if self.store.remote else None
        return None if found is None or np.any(found.length == ABSENT) else found

    def _located(self, positions: npt.NDArray[np.int64]) -> Sources:
        index, count = self.index, len(positions)
        offset, length = np.zeros(count, np.uint64), np.full(count, ABSENT, np.uint64)
        wanted = np.zeros(count, np.int64)
        if self._grid and count:
            wanted = np.ravel_multi_index(tuple(positions.T), self._grid).astype(np.int64)
        rows = np.searchsorted(index.numbers, wanted)
        there = rows < len(index.numbers)
        there[there] = index.numbers[rows[there]] == wanted[there]
        rows = rows[there]
        offset[there], length[there] = index.offsets[rows], index.lengths[rows]
        chain = None
        if len(self.skips) > 1:
            chain = np.zeros(count, np.uint8)
            chain[there] = [int(np.flatnonzero(self.skips == one)[0]) for one in index.skipped[rows]]
        return Sources(
            keys=Keys.of([self.key]), key=np.zeros(count, np.int32), offset=offset, length=length, chain=chain,
            stamps=[self.stamp],
        )  # fmt: skip


class EndingLayout(StoredLayout):
    """Chunks that end where the array does."""

    edge = "cropped"
