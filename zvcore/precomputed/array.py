"""One scale of a precomputed volume: the one Array plus its place in space."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zvcore import codecs
from zvcore.array import Array
from zvcore.precomputed.attributes import ScaleAttributes
from zvcore.precomputed.layout import ScaleLayout, layout_of
from zvcore.precomputed.metadata import Scale, VolumeInfo

if TYPE_CHECKING:
    from zvcore.documents import Document
    from zvcore.precomputed.encodings import ChunkEncoding
    from zvcore.precomputed.sharding_spec import ShardingSpec

__all__ = ["AbsoluteIndex", "ScaleArray"]


class ScaleArray(Array):
    """One scale of a volume, indexed [x, y, z, channel] from zero; `at` takes the volume's own coordinates."""

    _layout: ScaleLayout

    def __init__(self, layout: ScaleLayout, document: Document, *, read_only: bool, threads: int | None = None) -> None:
        scale = layout.scale
        storing = None if scale.sharding is None else codecs.from_neuroglancer(scale.sharding.data_encoding)
        super().__init__(
            layout,
            format="precomputed",
            attrs=ScaleAttributes(document, scale.key, type(scale.encoding)),
            document=document,
            codec=storing,
            read_only=read_only or len(scale.chunk_sizes) > 1,
            threads=threads,
        )

    @property
    def scale(self) -> Scale:
        """What `info` says of this scale."""
        return self._layout.scale

    def _laid_out(self, content: dict[str, Any]) -> ScaleLayout:
        info = VolumeInfo.from_json(content)
        layout = self._layout
        return layout_of(layout.store, info.scale(self.key), info.dtype, info.channels, layout.store_empty)

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild, (self._layout, self._document, self._read_only, self._work.threads))

    @property
    def key(self) -> str:
        """The scale's key."""
        return self.scale.key

    @property
    def path(self) -> str:
        return self.scale.key

    @property
    def voxel_offset(self) -> tuple[int, int, int]:
        """The volume's coordinates of the first voxel."""
        return self.scale.voxel_offset

    @property
    def resolution(self) -> tuple[float, float, float]:
        """The size of a voxel in nanometers."""
        return self.scale.resolution

    @property
    def encoding(self) -> ChunkEncoding:
        return self.scale.encoding

    @property
    def sharding(self) -> ShardingSpec | None:
        return self.scale.sharding

    @property
    def bounds(self) -> tuple[tuple[int, int], ...]:
        """(first, end) along x, y and z in the volume's coordinates."""
        return tuple((o, o + n) for o, n in zip(self.scale.voxel_offset, self.scale.size, strict=True))

    @property
    def at(self) -> AbsoluteIndex:
        """The array in the volume's own coordinates, which may be negative: `a.at[x0:x1, y0:y1, z]`."""
        return AbsoluteIndex(self)


def _rebuild(layout: ScaleLayout, document: Document, read_only: bool, threads: int | None) -> ScaleArray:
    return ScaleArray(layout, document, read_only=read_only, threads=threads)


class AbsoluteIndex:
    """`array.at`."""

    def __init__(self, array: ScaleArray) -> None:
        self._array = array

    def __getitem__(self, key: Any) -> Any:
        return self._array[self._relative(key)]

    def __setitem__(self, key: Any, value: Any) -> None:
        self._array[self._relative(key)] = value

    def _relative(self, key: Any) -> tuple[Any, ...]:
        keys = list(key) if isinstance(key, tuple) else [key]
        if sum(item is Ellipsis for item in keys) > 1:
            raise IndexError("an index can only have a single ellipsis ('...')")
        if Ellipsis in keys:
            place = keys.index(Ellipsis)
            keys[place : place + 1] = [slice(None)] * (self._array.ndim - len(keys) + 1)
        if len(keys) > self._array.ndim:
            raise IndexError(f"too many indices: the array has {self._array.ndim} dimensions, {len(keys)} were given")
        bounds = [*self._array.bounds, (0, self._array.shape[3])]
        return tuple(
            _relative(item, *span, "xyzc"[axis]) for axis, (item, span) in enumerate(zip(keys, bounds, strict=False))
        )


def _relative(item: Any, first: int, end: int, axis: str) -> Any:
    """An absolute coordinate or slice as one that counts from zero. What lies outside is an error, not cut."""
    if isinstance(item, slice):
        step = 1 if item.step is None else int(item.step)
        if step < 1:
            raise IndexError(f"{axis}: slices of absolute coordinates go forwards, not in steps of {step}")
        start = first if item.start is None else int(item.start)
        stop = end if item.stop is None else int(item.stop)
        if not first <= start <= stop <= end:
            raise IndexError(f"{axis}: {start}:{stop} does not lie within {first}:{end}")
        return slice(start - first, stop - first, step)
    place = item.__index__() if hasattr(item, "__index__") else None
    if place is None:
        raise IndexError(f"{axis}: absolute coordinates are integers and slices, not {type(item).__name__}")
    if not first <= place < end:
        raise IndexError(f"{axis}: {place} does not lie within {first}:{end}")
    return place - first
