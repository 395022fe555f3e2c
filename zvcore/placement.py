"""Which object each chunk lies in, and how it is put there: what formats with and without shards do differently."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np

from zvcore.engine.sources import ABSENT
from zvcore.engine.steady import CHANGED
from zvcore.stores.again import again, changed
from zvcore.stores.indexes import index_cache
from zvcore.stores.puts_together import PutsTogether
from zvcore.stores.request_threads import side_by_side
from zvcore.stores.writing import ANYTHING, Anything
from zvcore.system.threads import default_thread_count

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from contextlib import AbstractContextManager

    import numpy.typing as npt

    from zvcore.boxes import Box
    from zvcore.engine.buffers import Buffers, Keys
    from zvcore.engine.packer import Ends
    from zvcore.stores import Store
    from zvcore.stores.editing import Edit
    from zvcore.stores.puts_together import KeptOf

__all__ = ["UNKNOWN", "Group", "OneChunkPerObject", "Packed", "Placement", "Shards", "Streamed"]


class Unknown:
    """Stands for what has not been looked up."""


UNKNOWN: Final = Unknown()


@dataclass
class Group:
    """Chunks that lie in one object.

    key    of the object
    rows   which of some positions they are
    found  what the layout knows of the object as it is, from `Sources.found`, so that nothing is looked up twice
    """

    key: str
    rows: npt.NDArray[np.intp]
    found: Any = UNKNOWN


class Placement(ABC):
    """How the chunks of one array lie in the objects of its store. Grid positions are int64[n, ndim] arrays.

    alone  whether each chunk is an object of its own, which is replaced without looking at it
    """

    alone: ClassVar[bool]
    store: Store
    # Whether objects can be written part by part: see `Streamed`.
    can_stream: bool = False
    # How many objects there can be, where the format sets a limit.
    most_objects: int | None = None

    @abstractmethod
    def groups(self, positions: npt.NDArray[np.int64]) -> Iterable[Group]:
        """The chunks of each object; the rows are those of `positions`."""

    @abstractmethod
    def replace(self, edit: Edit, group: Group, positions: npt.NDArray[np.int64], chunks: Buffers) -> None:
        """Put these encoded chunks into the object of a group, and keep its other chunks as they are.

        `positions` and `chunks` are those of the group. A chunk whose size is ABSENT is taken out. ConflictError if
        somebody else changes the object meanwhile, or has changed it since the edit's `made_from`.
        """

    def replace_all(
        self,
        edits: Mapping[str, Edit],
        groups: Sequence[Group],
        positions: npt.NDArray[np.int64],
        chunks: Buffers,
        threads: int | None,
    ) -> list[bool]:
        """`replace` for each of these groups, whose rows are those of `positions`: whether nobody was quicker.

        `chunks` are those of the groups, one group after the other; `threads` None: as many as there are by default.
        """
        ends = np.cumsum([len(group.rows) for group in groups]).tolist()
        parts = [chunks.select(range(end - len(group.rows), end)) for end, group in zip(ends, groups, strict=True)]

        def replace(number: int) -> bool:
            group = groups[number]
            try:
                self.replace(edits[group.key], group, positions[group.rows], parts[number])
            except CHANGED:
                return False
            return True

        at_once = self.replaced_at_once(groups, parts) if len(groups) > 1 else 1
        if at_once > 1:
            at_once = min(at_once, threads or default_thread_count())
        if at_once > 1:
            return side_by_side(replace, range(len(groups)), at_once)
        return self.store.each(replace, range(len(groups)))

    def replaced_at_once(self, groups: Sequence[Group], chunks: Sequence[Buffers]) -> int:
        """How many of these objects may be replaced at once by as many threads; 1: as the store has it."""
        return 1

    def foresee(self, edits: Mapping[str, Edit], groups: Sequence[Group], positions: npt.NDArray[np.int64]) -> None:
        """These chunks are being encoded, for `replace_all`: begin to ask for what will be needed besides."""

    @abstractmethod
    def put(self, positions: npt.NDArray[np.int64], chunks: Buffers) -> None:
        """Store encoded chunks as they are; absent ones are taken out."""

    def stored_nbytes(self, positions: npt.NDArray[np.int64], nbytes: int) -> int:
        """How many bytes the objects take that these chunks, of `nbytes` together, were put into; of remote shards, the
        chunks alone.
        """
        return nbytes

    @abstractmethod
    def remove(self, key: str) -> None:
        """Remove an object with all its chunks."""

    def remove_all(self, keys: Sequence[str]) -> None:
        """`remove` for each of these objects."""
        self.store.each(self.remove, keys)


class OneChunkPerObject(Placement):
    """Each chunk is an object. `keys` gives their names."""

    alone = True

    def __init__(self, store: Store, keys: Callable[[npt.NDArray[np.int64]], Keys]) -> None:
        self.store = store
        self.keys = keys

    def groups(self, positions: npt.NDArray[np.int64]) -> Iterable[Group]:
        return (Group(key, np.array([row])) for row, key in enumerate(self.keys(positions)))

    def replace(self, edit: Edit, group: Group, positions: npt.NDArray[np.int64], chunks: Buffers) -> None:
        data = chunks[0]
        if data is None:
            edit.delete()
        else:
            edit.put_data(data)

    def replace_all(
        self,
        edits: Mapping[str, Edit],
        groups: Sequence[Group],
        positions: npt.NDArray[np.int64],
        chunks: Buffers,
        threads: int | None,
    ) -> list[bool]:
        keys = [group.key for group in groups]
        given = [(key, data, edits[key].condition) for key, data in zip(keys, chunks, strict=True) if data is not None]
        if len(given) == len(groups):
            return self.store.put_each(given)
        empty = np.flatnonzero(chunks.sizes == ABSENT).tolist()
        stored = iter(self.store.put_each(given))
        gone = super().replace_all(edits, [groups[i] for i in empty], positions, chunks.select(empty), threads)
        done = dict(zip(empty, gone, strict=True))
        return [done[i] if i in done else next(stored) for i in range(len(groups))]

    def put(self, positions: npt.NDArray[np.int64], chunks: Buffers) -> None:
        given: list[tuple[str, memoryview, Anything]] = []
        absent: list[str] = []
        for key, data in zip(self.keys(positions), chunks, strict=True):
            if data is None:
                absent.append(key)
            else:
                given.append((key, data, ANYTHING))
        for (key, _, _), was in zip(given, self.store.put_each(given), strict=True):
            if not was:
                raise changed(key, "")
        if absent:
            self.store.delete_all(absent)

    def remove(self, key: str) -> None:
        self.store.delete(key)

    def remove_all(self, keys: Sequence[str]) -> None:
        self.store.delete_all(keys)


class Shards(Placement):
    """Several chunks lie in one object."""

    alone = False

    def replace_all(
        self,
        edits: Mapping[str, Edit],
        groups: Sequence[Group],
        positions: npt.NDArray[np.int64],
        chunks: Buffers,
        threads: int | None,
    ) -> list[bool]:
        if self.store.can_lock:
            return super().replace_all(edits, groups, positions, chunks, threads)
        puts = self._together(edits, groups)
        done = super().replace_all(edits, groups, positions, chunks, threads)
        refused = puts.refused()
        return [was and group.key not in refused for was, group in zip(done, groups, strict=True)]

    def foresee(self, edits: Mapping[str, Edit], groups: Sequence[Group], positions: npt.NDArray[np.int64]) -> None:
        if not self.store.can_lock:
            found = (self.kept(group, positions[group.rows]) for group in groups)
            self._together(edits, groups).foresee(one for one in found if one is not None)

    def kept(self, group: Group, positions: npt.NDArray[np.int64]) -> KeptOf | None:
        """What of a shard, as it was found, stays when these of its chunks are replaced; None: that is not known."""
        return None

    def _together(self, edits: Mapping[str, Edit], groups: Sequence[Group]) -> PutsTogether:
        """What takes what is put into these shards."""
        puts = edits[groups[0].key].together or PutsTogether(self.store)
        for group in groups:
            edits[group.key].together = puts
        return puts

    def put(self, positions: npt.NDArray[np.int64], chunks: Buffers) -> None:
        for group in self.groups(positions):
            for attempt in again(group.key, on=CHANGED):
                with attempt, self.store.edit(group.key) as edit:
                    self.replace(edit, group, positions[group.rows], chunks.select(group.rows))

    def stored_nbytes(self, positions: npt.NDArray[np.int64], nbytes: int) -> int:
        if self.store.remote:
            return nbytes
        return sum(size or 0 for size in self.store.sizes(group.key for group in self.groups(positions)))

    def remove(self, key: str) -> None:
        with self.store.edit(key) as edit:
            edit.delete()

    def remove_all(self, keys: Sequence[str]) -> None:
        if self.store.can_lock:
            super().remove_all(keys)
            return
        names = [name for key in keys for name in self.names_of(key)]
        self.store.delete_all(names)
        for name in names:
            index_cache().invalidate(self.store, name)

    def names_of(self, key: str) -> tuple[str, ...]:
        """All objects in which readers may find a shard."""
        return (key,)


class Packed(Shards):
    """Shards that the engine can write while it encodes their chunks, all of them one after the other.

    pack_head  the bytes of a shard before its first chunk
    end_bytes  about how many bytes a shard has besides its chunks
    """

    pack_head: int = 0
    end_bytes: int = 0

    @abstractmethod
    def pack_orders(
        self, groups: Sequence[Group], positions: npt.NDArray[np.int64]
    ) -> list[npt.NDArray[np.intp] | None]:
        """For each of these objects, its chunks as they lie in it one after the other: rows of `positions`.

        None for an object that cannot be written in this way, or has other chunks too: `replace` does it. Called within
        the edits of the keys.
        """

    @abstractmethod
    def ends(
        self,
        keys: Sequence[str],
        positions: npt.NDArray[np.int64],
        sizes: npt.NDArray[np.uint64],
        bounds: npt.NDArray[np.int64],
    ) -> list[Ends | None]:
        """For each shard, what stands before its chunks, which are written already, and behind them. None where there
        are no chunks: then the shard is gone.

        Those of shard i are positions[bounds[i]:bounds[i + 1]], in the order of `pack_orders`; `sizes` ABSENT for those
        that are not stored.
        """


class Streamed(Shards):
    """Shards that can be written part by part, where `can_stream` says so."""

    can_stream = True

    @abstractmethod
    def stream(self, key: str) -> AbstractContextManager[Callable[[npt.NDArray[np.int64], Buffers], None]]:
        """A way to rewrite a shard part by part: a function that takes (positions, encoded chunks).

        Leaving it stores the shard; leaving it by an exception, nothing.
        """

    def stream_boxes(self, key: str, limit: int) -> Iterable[Box] | None:
        """The order in which `stream` takes the parts of a shard: boxes of at most about `limit` bytes of values.

        None where any order will do, or where shards are no boxes: then the order is that of `groups`.
        """
        return None
