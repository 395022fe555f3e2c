"""Arrays of one kind beside each other, as one array with further axes in front."""

from __future__ import annotations

import itertools
import threading
from collections import OrderedDict
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from zvcore.borrowed.blocks import BlockLayout
from zvcore.borrowed.nowhere import ReadOnlyPlacement
from zvcore.borrowed.stored import StoredLayout
from zvcore.codecs import CodecChain
from zvcore.engine import Keys
from zvcore.errors import CorruptDataError
from zvcore.layout import ABSENT, Layout, Sources

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zvcore.array import Array
    from zvcore.placement import Placement

__all__ = ["Members", "stacked_layout"]

# Of how many members what is known of their chunks is kept.
_KEPT = 1024
# There is a chain for each set of codecs that chunks may leave out.
_MOST_CODECS = 4


class Members:
    """The arrays that are stacked, each opened when it is first read; the last ones are kept.

    outer  the shape of the further axes
    make   gives the array of a number, counted in C order; None where there is none, which reads as nothing
    """

    def __init__(self, outer: Sequence[int], make: Callable[[int], Array | None]) -> None:
        self.outer = tuple(outer)
        self._make = make
        self._kept: OrderedDict[int, Array | None] = OrderedDict()
        self._guard = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        return {"outer": self.outer, "_make": self._make}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _kept=OrderedDict(), _guard=threading.Lock())

    def __getitem__(self, number: int) -> Array | None:
        with self._guard:
            if number in self._kept:
                self._kept.move_to_end(number)
                return self._kept[number]
        found = self._make(number)
        with self._guard:
            self._kept[number] = found
            if len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        return found


def stacked_layout(
    name: str, members: Members, first: Array, *, shape: Sequence[int] | None = None, dtype: Any = None
) -> Layout:
    """The layout of all members, which are like the `first` of them. `shape` cuts each of them, `dtype` reads its bits
    as another one.
    """
    inner = tuple(first.shape if shape is None else shape)
    kind = first.dtype if dtype is None else np.dtype(dtype)
    if isinstance(first.layout, StoredLayout) and len(first.layout.codecs) <= _MOST_CODECS:
        return StackedLayout(members, first.layout, inner, kind)
    parts = Parts(name, members, first.shape, inner, first.dtype, kind)
    return BlockLayout(name, parts, ((1,) * len(members.outer) + first.chunks))


class StackedLayout(Layout):
    """Chunks of the members, which the engine reads where they lie."""

    def __init__(self, members: Members, first: StoredLayout, inner: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self.members = members
        self.store = first.store
        self.shape = (*members.outer, *inner)
        self._rank = len(members.outer)
        axes = tuple(range(len(self.shape)))
        self.form = replace(first.form, shape=(1,) * self._rank + first.form.shape, dtype=dtype, axes=axes)
        self.fill_value = np.asarray(first.fill_value).astype(dtype)[()]
        self._alike, self._any_key = _kind(first), first.key
        self.codecs = first.codecs
        # Members differ in which codecs their chunks leave out.
        self._chains = tuple(
            CodecChain([codec for bit, codec in enumerate(first.codecs) if not skips >> bit & 1])
            for skips in range(1 << len(first.codecs))
        )

    @property
    def chains(self) -> tuple[CodecChain, ...]:
        return self._chains

    @property
    def placement(self) -> Placement:
        return ReadOnlyPlacement(self.store)

    def _member(self, number: int) -> StoredLayout | None:
        array = self.members[number]
        if array is None:
            return None
        layout = array.layout
        if not isinstance(layout, StoredLayout) or layout.store != self.store or self._alike != _kind(layout):
            raise CorruptDataError(
                "a part of the image is stored in another way than the first", key=array.store.root,
                expected=f"{self._alike[1].dtype}{self._alike[0]}", found=f"{array.dtype}{array.shape}",
            )  # fmt: skip
        return layout

    def _number(self, position: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        found: npt.NDArray[np.int64] = np.ravel_multi_index(tuple(position.T), self.members.outer).astype(np.int64)
        return found

    def chunk_name(self, position: tuple[int, ...]) -> str:
        layout = self._member(int(self._number(np.array([position[: self._rank]], np.int64))[0]))
        return "" if layout is None else layout.chunk_name(position[self._rank :])

    def locate(self, positions: npt.NDArray[np.int64]) -> Sources:
        count = len(positions)
        key, chain = np.zeros(count, np.int32), np.zeros(count, np.uint8)
        offset, length = np.zeros(count, np.uint64), np.full(count, ABSENT, np.uint64)
        keys: dict[str, int] = {}
        stamps: list[Any] = []
        numbers = self._number(positions[:, : self._rank])
        for number in np.unique(numbers).tolist():
            layout = self._member(number)
            if layout is None:
                continue
            rows = np.flatnonzero(numbers == number)
            found = layout.locate(positions[rows, self._rank :])
            assert found.offset is not None and found.length is not None and found.stamps is not None
            if layout.key not in keys:
                keys[layout.key] = len(keys)
                stamps.append(found.stamps[0])
            key[rows] = keys[layout.key]
            offset[rows], length[rows] = found.offset, found.length
            if found.chain is not None:
                # What a file says of codecs that there are not means nothing.
                chain[rows] = layout.skips[found.chain] & (len(self._chains) - 1)
        if not keys:
            # Nothing is read of it; there has to be a name all the same.
            return Sources(keys=Keys.of([self._any_key]), key=key, offset=offset, length=length)
        return Sources(keys=Keys.of(list(keys)), key=key, offset=offset, length=length, chain=chain, stamps=stamps)


def _kind(layout: StoredLayout) -> tuple[Any, ...]:
    """What members must have in common."""
    fill = np.asarray(layout.fill_value, layout.form.dtype).tobytes()
    return layout.shape, layout.form, [codec.config() for codec in layout.codecs], fill


class Parts:
    """The blocks of members that the engine cannot read where they lie."""

    parallel = True

    def __init__(
        self, name: str, members: Members, whole: tuple[int, ...], inner: tuple[int, ...], given: Any, dtype: Any
    ) -> None:
        self.name, self.members, self._whole, self._given = name, members, whole, given
        self.shape = (*members.outer, *inner)
        self.dtype: np.dtype[Any] = np.dtype(dtype)

    def read(self, region: tuple[slice, ...]) -> npt.NDArray[Any]:
        rank = len(self.members.outer)
        values = np.zeros([one.stop - one.start for one in region], self._given)
        for place in itertools.product(*(range(one.start, one.stop) for one in region[:rank])):
            member = self.members[int(np.ravel_multi_index(place, self.members.outer))]
            if member is None:
                continue
            if member.shape != self._whole or member.dtype != self._given:
                raise CorruptDataError(
                    "a part is not like the first", key=member.store.root, expected=f"{self._given}{self._whole}",
                    found=f"{member.dtype}{member.shape}",
                )  # fmt: skip
            at = tuple(i - one.start for i, one in zip(place, region, strict=False))
            values[at] = member.read(region[rank:], threads=1)
        return values.view(self.dtype)
