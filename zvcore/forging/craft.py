"""What is made of a segmentation: pieces of each box first, then the objects that they are parts of."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import numpy as np

from zvcore.forging.libraries import library

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import numpy.typing as npt

    from zvcore.forging.grid import Grid
    from zvcore.forging.labels import Labels
    from zvcore.forging.spool import Piece
    from zvcore.precomputed.sharding_spec import ShardingSpec
    from zvcore.stores import Store

__all__ = ["Craft"]

T = TypeVar("T")


@dataclass(frozen=True)
class Craft(ABC, Generic[T]):
    """Makes objects of one kind.

    labels  the segmentation, and
    grid    the boxes into which it is cut
    ids     the segments that are asked for, in order; None: all but 0
    """

    labels: Labels
    grid: Grid
    ids: npt.NDArray[np.uint64] | None

    # What the objects are called; the member of a volume's document that names their folder, and the folder.
    what: ClassVar[str]
    member: ClassVar[str]
    # The extra of zvcore that brings the libraries.
    extra: ClassVar[str]
    # How many bytes the work on a voxel takes besides its label; how much larger pieces are than what is made of them.
    voxel_bytes: ClassVar[int]
    ratio: ClassVar[float]
    data_encoding: ClassVar[str] = "raw"

    @property
    def fewest_voxels(self) -> int:
        """Segments of fewer are left out, when all their pieces are known."""
        return 0

    @property
    def sharded(self) -> bool:
        """Whether the objects lie in shards."""
        return True

    @abstractmethod
    def libraries(self) -> Sequence[str]:
        """What this needs."""

    @abstractmethod
    def cut(self, unit: int, threads: int | None) -> Iterator[Piece]:
        """The pieces of a box."""

    @abstractmethod
    def join(self, pieces: Sequence[tuple[int, memoryview]]) -> T | None:
        """The object that pieces are parts of, from (box, piece); None if nothing is left of it."""

    @abstractmethod
    def write(self, store: Store, spec: ShardingSpec | None, objects: Iterable[tuple[int, T]]) -> None:
        """Store objects: into the shard that all of them belong to, or each in files of its own."""

    @abstractmethod
    def document(self, spec: ShardingSpec | None) -> dict[str, Any]:
        """The `info` of the folder."""

    def library(self, name: str) -> Any:
        return library(name, self.extra)

    @property
    def unit_memory(self) -> int:
        """How many bytes the work on a box takes, more or less."""
        return int(np.prod([n + 2 for n in self.grid.extent])) * (self.labels.itemsize + self.voxel_bytes)

    def numbered(self, unit: int, threads: int | None) -> tuple[npt.NDArray[Any], dict[int, int]]:
        """(the labels of a box and of the voxels that it shares with those behind it, as small numbers; the label that
        each number stands for). Labels that are not asked for are 0.
        """
        values = self.labels.read(self.grid.shared(unit), threads)
        fastremap = self.library("fastremap")
        if self.ids is not None:
            known = self.ids[self.ids <= np.iinfo(values.dtype).max]
            values = fastremap.mask_except(values, known.tolist())
        numbers, names = fastremap.renumber(values)
        return numbers, {int(number): int(id) for id, number in names.items() if id}
