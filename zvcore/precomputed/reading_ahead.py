"""Parts of an object that are read one behind the other, far from the data: more at once, as long as they come so."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zvcore.errors import ConflictError

if TYPE_CHECKING:
    from zvcore.precomputed.shard_reader import ShardFile
    from zvcore.stores import Store

__all__ = ["ReadingAhead"]

_FIRST_BYTES = 64 << 10
_MOST_BYTES = 8 << 20


class ReadingAhead:
    """Reads parts of the data object of a shard; for one thread."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._file: ShardFile | None = None
        self._begin = 0
        self._data = memoryview(b"")
        self._ahead = 0

    def get(self, file: ShardFile, begin: int, size: int) -> memoryview:
        """So many bytes, all of which lie in the object."""
        if file is not self._file or not self._begin <= begin <= begin + size <= self._begin + len(self._data):
            self._read(file, begin, size)
        return self._data[begin - self._begin : begin - self._begin + size]

    def _read(self, file: ShardFile, begin: int, size: int) -> None:
        end = self._begin + len(self._data)
        follows = file is self._file and self._begin <= begin <= end + max(self._ahead, _FIRST_BYTES)
        # On disks of this machine nothing is gained by it.
        self._ahead = min(_MOST_BYTES, max(_FIRST_BYTES, 2 * self._ahead)) if follows and self._store.remote else 0
        wanted = max(size, min(self._ahead, file.limit - begin))
        self._file, self._begin, self._data = None, 0, memoryview(b"")
        data = self._store.get(file.data_key, begin, wanted, stamp=file.stamp)
        if data is None or len(data) < size:
            raise ConflictError("the object changed while it was being read", key=file.data_key)
        self._file, self._begin, self._data = file, begin, memoryview(data)
