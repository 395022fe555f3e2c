"""Annotations on their way into a set: kept in memory, or in a temporary file, and read as often as it takes."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np
import numpy.typing as npt

from zvcore.precomputed.annotation_records import Records
from zvcore.precomputed.external_sort import nameless_file, read_all
from zvcore.precomputed.ragged import Ragged
from zvcore.stores.writing import write_all

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

__all__ = ["BLOCK", "Block", "Spool"]

# How many annotations make up a block.
BLOCK = 1 << 16


@dataclass
class Block:
    """Some annotations: their ids, their records, and for each relationship the ids of segments."""

    ids: npt.NDArray[np.uint64]
    records: Records
    related: list[Ragged]

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def arrays(self) -> list[npt.NDArray[np.uint64] | npt.NDArray[np.int64] | npt.NDArray[np.uint8]]:
        """Everything in it."""
        columns = [array for one in self.related for array in (one.values, one.offsets)]
        return [self.ids, self.records.starts, *columns, self.records.data]

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self.arrays)


class Spool:
    """Blocks in the order in which they came; those beyond `memory` bytes go to a temporary file without a name."""

    def __init__(self, memory: int, folder: str | None) -> None:
        self.memory = memory
        self.folder = folder
        self._blocks: list[Block] = []
        # Of the blocks in the file: where each begins, and how long its arrays are.
        self._stored: list[tuple[int, list[int]]] = []
        self._fd = -1
        self._end = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._blocks = []
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def add(self, block: Block) -> None:
        if self.memory >= block.nbytes:
            self._blocks.append(block)
            self.memory -= block.nbytes
            return
        if self._fd < 0:
            self._fd = nameless_file(self.folder)
        arrays = block.arrays
        self._stored.append((self._end, [array.nbytes for array in arrays]))
        for array in arrays:
            self._end += write_all(self._fd, self._end, np.ascontiguousarray(array).view(np.uint8))

    def blocks(self) -> Iterator[Block]:
        yield from self._blocks
        for at, sizes in self._stored:
            data = read_all(self._fd, at, sum(sizes))
            ends = np.cumsum(sizes).tolist()
            ids, starts, *columns, records = (data[end - n : end] for end, n in zip(ends, sizes, strict=True))
            pairs = zip(columns[::2], columns[1::2], strict=True)
            related = [Ragged(values.view(np.uint64), offsets.view(np.int64)) for values, offsets in pairs]
            yield Block(ids.view(np.uint64), Records(records, starts.view(np.int64)), related)
