"""What lies beside the arrays of a source, such as meshes: copied object by object, in units like everything else."""

from __future__ import annotations

import itertools
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from zvcore.converting.present import Units
from zvcore.errors import ZvcoreError
from zvcore.kernels import crc32c
from zvcore.report import Outcome, Problem
from zvcore.stores.copying import copy_object

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zvcore.array import Array
    from zvcore.stores import Store

__all__ = ["Companion", "ComparingObjects", "CopyingObjects", "counted"]

# Into how many units the objects of a folder are cut at most. Each unit lists the folder again: no list of all that is
# in it is ever held.
_UNITS = 64
# How many objects are counted.
_COUNTED = 100_000
# How many objects are on their way at once where that means waiting for a network.
_AT_ONCE = 64
_BLOCK = 8 << 20


@dataclass(frozen=True)
class Companion:
    """A folder, or a single object, beside the arrays of a source.

    path      where it lies in the destination
    store     of the source, in which it is called `key`
    folder    whether it is a folder
    objects   how many objects it has; None: more than anybody counted
    """

    path: str
    store: Store
    key: str
    folder: bool
    objects: int | None


def counted(store: Store, folder: str) -> int | None:
    """How many objects a folder has; None for more than are worth counting."""
    number = sum(1 for _ in itertools.islice(store.list(folder), _COUNTED + 1))
    return number if number <= _COUNTED else None


@dataclass
class CopyingObjects:
    """Copies a companion. Picklable. A unit is made of the objects whose names fall to it, however many there are."""

    companion: Companion
    target: Store

    # Nothing is made of values.
    spread = False
    span: tuple[int, ...] = ()
    view = None

    @property
    def name(self) -> str:
        return self.companion.path

    @property
    def targets(self) -> list[Array]:
        return []

    def __len__(self) -> int:
        objects = self.companion.objects
        return _UNITS if objects is None else min(objects, _UNITS)

    @property
    def unit_memory(self) -> int:
        return (_AT_ONCE if self.companion.store.remote or self.target.remote else 1) * _BLOCK

    def keys(self, unit: int) -> Iterator[str]:
        """The objects of a unit."""
        one = self.companion
        if not one.folder:
            yield one.key
            return
        units = len(self)
        for key in one.store.list(one.key):
            if zlib.crc32(key.encode("utf-8", "surrogatepass")) % units == unit:
                yield key

    def to(self, key: str) -> str:
        """Where an object goes."""
        return self.companion.path + key[len(self.companion.key) :]

    def run(self, unit: int, threads: int | None) -> Outcome:
        outcome = Outcome()
        source, target = self.companion.store, self.target
        asked = source if source.remote else target
        keys = self.keys(unit)
        while batch := list(itertools.islice(keys, _AT_ONCE)):
            for nbytes in asked.each(lambda key: copy_object(source, key, target, self.to(key)), batch):
                outcome.objects += 1
                outcome.bytes_in += nbytes
                outcome.bytes_out += nbytes
        return outcome


@dataclass
class ComparingObjects:
    """Reads both sides of a companion back. Picklable."""

    copying: CopyingObjects

    spread = False

    def __len__(self) -> int:
        return len(self.copying)

    @property
    def units(self) -> Units:
        return Units(range(len(self)))

    @property
    def unit_memory(self) -> int:
        return 2 * _BLOCK

    def run(self, unit: int, threads: int | None) -> list[Problem]:
        copying = self.copying
        problems = []
        for key in copying.keys(unit):
            to = copying.to(key)
            try:
                ours, theirs = _sum(copying.companion.store, key), _sum(copying.target, to)
            except ZvcoreError as error:
                problems.append(Problem.of(error, to))
                continue
            if ours != theirs:
                problems.append(Problem(to, "the copy is not what the source has", expected=ours, found=theirs))
        return problems


def _sum(store: Store, key: str) -> Any:
    """(size, checksum) of an object, read piece by piece; None if it is not there."""
    stamp = store.stamp(key)
    if stamp is None:
        return None
    at, value = 0, 0
    while block := store.get(key, at, _BLOCK, stamp=stamp):
        value = crc32c(block, value)
        at += len(block)
    return at, value
