"""What is being written and where it goes: a new store, or more of the same into one that exists."""

from __future__ import annotations

import os
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from zvcore import documents
from zvcore.errors import ConflictError, UnsupportedError, ZvcoreError
from zvcore.stores import LocalStore, open_store
from zvcore.stores.staging import staging
from zvcore.zarr3.consolidating import tell_all
from zvcore.zarr3.creating import make_room
from zvcore.zarr3.metadata import DOCUMENT
from zvcore.zarr3.telling import forget_below
from zvcore.zvf.assembling import Assembler, Old
from zvcore.zvf.axes import axes_document
from zvcore.zvf.composing import extend_bounds, root_document
from zvcore.zvf.nodes import read_node
from zvcore.zvf.vector_store import VectorStore

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from zvcore.stores import Store

__all__ = ["Extent", "Job", "Wanted", "bins_per_chunk", "positions_dtype", "writing"]

Corner = npt.NDArray[Any]


@dataclass(frozen=True)
class Wanted:
    """How the caller wants a store to be written; None means what the store has, or the default.

    geometry  the kind of geometry
    append    whether it goes into a store that exists
    replace   whether it takes the place of one that exists
    policy    what happens to positions outside the bounds: "raise", "ignore" or "expand"
    axes      names and units of coordinates, and
    attrs     further attributes, of a new store
    """

    path: str | os.PathLike[str] | Store
    geometry: str
    append: bool = False
    chunk_shape: Sequence[float] | None = None
    bin_shape: Sequence[float] | None = None
    bounds: tuple[Sequence[float], Sequence[float]] | None = None
    policy: str | None = None
    compressor: Any = None
    shard_shape: int | Sequence[int] | None = None
    replace: bool = False
    axes: Sequence[Mapping[str, str]] | None = None
    attrs: Mapping[str, Any] | None = None


@dataclass
class Extent:
    """The space that a store covers: the bounds that were given for it, and those of what is put into it."""

    policy: str
    fixed: tuple[Corner, Corner] | None = None
    found: list[tuple[Corner, Corner]] = field(default_factory=list)

    def inside(self, positions: npt.NDArray[Any]) -> npt.NDArray[np.bool_] | None:
        """Take note of where positions are; which of them to keep, None for all."""
        keep: npt.NDArray[np.bool_] | None = None
        if self.fixed is not None and self.policy != "expand":
            low, high = (bound.astype(positions.dtype) for bound in self.fixed)
            within = np.logical_and(positions >= low, positions <= high).all(axis=1)
            if not within.all():
                if self.policy == "raise":
                    raise ValueError(
                        f"{int((~within).sum())} of {len(positions)} points are outside store bounds "
                        f"{self.fixed[0].tolist()} to {self.fixed[1].tolist()}"
                    )
                keep = np.asarray(within)
                positions = positions[keep]
        if len(positions):
            self.found.append((positions.min(0).astype(float), positions.max(0).astype(float)))
            self.found = [self.bounds(self.found)]
        return keep

    def bounds(self, corners: Sequence[tuple[Corner, Corner]] | None = None) -> tuple[Corner, Corner]:
        """What the store has, once everything is in it."""
        corners = [*self.found, *([self.fixed] if self.fixed else [])] if corners is None else corners
        if not corners:
            raise ValueError("nothing is left to write")
        return np.min([low for low, _ in corners], 0), np.max([high for _, high in corners], 0)


@dataclass
class Job:
    """A level that is being written.

    bin_shape  the shape of the bins that a chunk consists of
    old        the level that is added to
    """

    wanted: Wanted
    chunk_shape: tuple[float, ...]
    bin_shape: Sequence[float] | None
    extent: Extent
    old: Old | None
    assembler: Assembler = field(init=False)


def positions_dtype(path: str | os.PathLike[str] | Store, append: bool, asked: Any) -> np.dtype[Any]:
    """The type of the positions to write: what is asked for, what the store has that is appended to, or float32."""
    wanted = np.dtype(np.float32 if asked is None else asked).newbyteorder("=")
    if not append:
        return wanted
    stored = VectorStore(open_store(path)).level(0).dtype.newbyteorder("=")
    if asked is not None and wanted != stored:
        raise ValueError(f"positions are {wanted} and {stored} in the store")
    return stored


@contextmanager
def writing(wanted: Wanted, ndim: int) -> Iterator[Job]:
    """Where positions of so many coordinates go. The level and the root appear once the block ends without an error."""
    if wanted.policy not in (None, "raise", "ignore", "expand"):
        raise ValueError(f"out_of_bounds is 'raise', 'ignore' or 'expand', not {wanted.policy!r}")
    if wanted.append and not (wanted.axes is None and wanted.attrs is None):
        raise TypeError("axes and attributes are those of the store that is appended to")
    # What is wrong with them costs nothing that is there.
    axes_document(wanted.axes, ndim)
    documents.as_json(dict(wanted.attrs or {}), "attributes")
    store = open_store(wanted.path, "r+" if wanted.append else "w")
    shape = _shape_of(store, wanted, ndim)
    if wanted.bin_shape is not None:
        bins_per_chunk(shape, wanted.bin_shape)
    if not isinstance(store, LocalStore):
        if wanted.append:
            raise UnsupportedError(f"{store.root}: only stores in local folders can be appended to")
        # There is no place beside it in which a level could be made.
        make_room(store, wanted.replace)
        with _assembling(store, store.child("0"), wanted, shape) as job:
            yield job
            _put_root(store, job)
        tell_all(store)
        return
    try:
        with staging(store) as place:
            if not wanted.append and not wanted.replace and store.exists(DOCUMENT):
                # Whoever had the place before us has made a store meanwhile.
                raise _is_there(store)
            made = place.make("0")
            with _assembling(store, made, wanted, shape) as job:
                yield job
                if wanted.append:
                    _put_root(store, job)
                    place.replace(made)
                else:
                    if wanted.replace:
                        place.take_away()
                        forget_below(store)
                    # A root declares a level, so that must be there first.
                    place.replace(made)
                    _put_root(store, job)
    except BaseException:
        if wanted.replace:
            # The old store is there again, which the groups above may have been told is gone.
            with suppress(OSError, ZvcoreError):
                tell_all(store)
        raise
    tell_all(store)


def _shape_of(store: Store, wanted: Wanted, ndim: int) -> tuple[float, ...]:
    """The shape of the chunks, once it is clear that what is to be written fits what is there."""
    if not wanted.append:
        # What is no node of Zarr is nobody's to replace.
        replaced = wanted.replace and store.exists(DOCUMENT)
        if not replaced and (read_node(store, "") is not None or any(True for _ in store.list(""))):
            raise _is_there(store)
        return _checked_chunk_shape(wanted.chunk_shape, ndim)
    parent = VectorStore(store)
    shape = wanted.chunk_shape
    if parent.ndim != ndim:
        raise ValueError(f"positions of {ndim} coordinates for a store of {parent.ndim}")
    if shape is not None and tuple(map(float, shape)) != tuple(map(float, parent.chunk_shape)):
        raise ValueError(f"the store's chunk_shape is {parent.chunk_shape}, not {tuple(shape)}")
    if wanted.geometry not in parent.geometry_types:
        raise ValueError(f"the store holds {', '.join(parent.geometry_types)}, not {wanted.geometry}")
    if parent.levels[1:]:
        raise UnsupportedError(
            "a store with coarser levels, which would lack what is appended: append before they are made",
            key=store.root, found=parent.levels,
        )  # fmt: skip
    return parent.chunk_shape


def _is_there(store: Store) -> ConflictError:
    return ConflictError(f"{store.root} exists already; append=True writes into it", key=DOCUMENT)


def _checked_chunk_shape(shape: Any, ndim: int) -> tuple[float, ...]:
    sides = tuple(side.item() if isinstance(side, np.generic) else side for side in shape)
    if len(sides) != ndim or not all(isinstance(side, (int, float)) and 0 < side < float("inf") for side in sides):
        raise ValueError(f"chunk_shape must be {ndim} positive numbers, got {sides}")
    return sides


def bins_per_chunk(shape: Sequence[float], bins: Sequence[float]) -> tuple[int, ...]:
    """How many bins a chunk has along each axis."""
    if len(bins) != len(shape) or any(not side > 0 for side in bins):
        raise ValueError(f"bin_shape must be {len(shape)} positive numbers, got {tuple(bins)}")
    ratios = [side / edge for side, edge in zip(shape, bins, strict=True)]
    if any(abs(ratio - round(ratio)) > 1e-9 for ratio in ratios):
        raise ValueError(f"chunk_shape {tuple(shape)} is not a multiple of bin_shape {tuple(bins)}")
    return tuple(round(ratio) for ratio in ratios)


@contextmanager
def _assembling(store: Store, made: Store, wanted: Wanted, shape: tuple[float, ...]) -> Iterator[Job]:
    """The job of writing a level into the store `made`."""
    bin_shape, bounds = wanted.bin_shape, wanted.bounds
    policy = wanted.policy or ("raise" if bounds is not None else "expand")
    old = None
    if wanted.append:
        parent = VectorStore(store)
        old = Old(parent.level(0))
        if bounds is None:
            bin_shape = bin_shape or parent.metadata.get("base_bin_shape")
            bounds = parent.bounds
    extent = Extent(policy)
    if bounds is not None:
        low, high = (np.array(bound, float) for bound in bounds)
        if low.shape != (len(shape),) or high.shape != low.shape or not (low <= high).all():
            raise ValueError(f"bounds are two corners of {len(shape)} coordinates, got {bounds}")
        extent.fixed = (low, high)
    job = Job(wanted, shape, bin_shape, extent, old)
    job.assembler = Assembler(job, made)
    with closing(job.assembler):
        yield job


def _put_root(store: Store, job: Job) -> None:
    low, high = (corner.tolist() for corner in job.extent.bounds())
    if job.wanted.append:
        documents.change(store, DOCUMENT, lambda document: extend_bounds(document or {}, low, high))
        return
    name = os.path.basename(store.root.rstrip("/"))
    wanted = job.wanted
    document = root_document(
        name, job.chunk_shape, (low, high), wanted.geometry, wanted.bin_shape, axes=wanted.axes, attrs=wanted.attrs
    )
    store.put(DOCUMENT, documents.encode(document))
