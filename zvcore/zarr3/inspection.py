"""Describing what is there: arrays and groups, their sizes on disk, and the live and dead bytes and order of shards."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from zvcore.boxes import box_of
from zvcore.care.describing import Inspector, stored_size
from zvcore.care.intervals import Span, byte_map, covered
from zvcore.care.refusals import refusal
from zvcore.documents.inside import members_in
from zvcore.engine import ABSENT
from zvcore.errors import NotFoundError, ZvcoreError
from zvcore.report import Problem, join
from zvcore.zarr3.metadata import DOCUMENT, ArrayMetadata, read_metadata
from zvcore.zarr3.pieces import pieces_of
from zvcore.zarr3.shard_check import examine_shard
from zvcore.zarr3.sharding import ShardLayout

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from zvcore.report import Report
    from zvcore.stores import Store
    from zvcore.zarr3.array import Zarr3Array
    from zvcore.zarr3.shard_format import Order

__all__ = ["chunk_keys", "inspect", "inspect_array", "inspect_shard", "walk"]


def walk(store: Store, report: Report | None = None) -> Iterator[tuple[str, Zarr3Array]]:
    """(path, array) for each array at the root of the store or below it that can be opened.

    The report is told of what the system does not give out.
    """
    from zvcore.zarr3.array import array_of

    waiting = [""]
    while waiting:
        path = waiting.pop()
        here = store.child(path) if path else store
        try:
            metadata = read_metadata(here)
            array = array_of(here, metadata) if isinstance(metadata, ArrayMetadata) else None
            names = [*members_in(here, DOCUMENT)] if array is None else []
        except OSError as error:
            # The others can be looked after all the same.
            if report is not None:
                report.tell(Problem.of(refusal(error, here.root)).below(path))
            continue
        except ZvcoreError:
            continue
        if array is not None:
            yield path, array
        waiting.extend(join(path, name) for name in reversed(names))


def inspect(store: Store, *, only: str | None = None, threads: int | None = None) -> dict[str, Any]:
    """Describe what is at the root of a store, or one object of an array.

    Of an array itself, the index of every shard is read; of members of a group, none.
    """
    return Zarr3Inspector(threads).inspect(store, only)


class Zarr3Inspector(Inspector["Zarr3Array"]):
    format = "zarr3"

    def array(self, store: Store) -> Zarr3Array | dict[str, Any]:
        from zvcore.zarr3.array import array_of

        metadata = read_metadata(store)
        if isinstance(metadata, ArrayMetadata):
            return array_of(store, metadata, read_only=True)
        return {"attributes": metadata.attributes}

    def members(self, store: Store) -> Iterable[str]:
        return members_in(store, DOCUMENT)

    def copied(self, store: Store) -> Iterable[str]:
        metadata = read_metadata(store)
        return () if isinstance(metadata, ArrayMetadata) else metadata.consolidated or ()

    def about(self, array: Zarr3Array, member: bool) -> dict[str, Any]:
        return inspect_array(array, not member, self.threads)

    def within(self, array: Zarr3Array, key: str) -> dict[str, Any]:
        return inspect_object(array, key)


def inspect_object(array: Zarr3Array, key: str) -> dict[str, Any]:
    """One chunk or shard: its place in the array, its size, and the map of a shard."""
    layout: Any = array.layout
    position = array.metadata.position(key)
    size = layout.store.size(key)
    if position is None or size is None:
        raise NotFoundError("this is no chunk of the array", key=key)
    if not array.metadata.has_edges(position):
        raise NotFoundError("this lies outside of the array, where no chunk has a size", key=key, chunk=position)
    edges = array.metadata.edges
    if edges is None:
        extent, region = array.metadata.chunk_shape, box_of(position, array.metadata.chunk_shape, array.shape)
    else:
        spans = [one.span(i) for one, i in zip(edges, position, strict=True)]
        extent = tuple(stop - start for start, stop in spans)
        region = tuple((start, min(stop, n)) for (start, stop), n in zip(spans, array.shape, strict=True))
        ((piece, ((_, position),)),) = pieces_of(layout, iter([(key, position)]))
        layout = piece.layout
    answer: dict[str, Any] = {
        "format": "zarr3",
        "kind": "chunk" if array.shards is None else "shard",
        "key": key,
        "position": array.metadata.position(key),
        "region": [list(span) for span in region],
        "shape": extent,
        "dtype": str(array.dtype),
        "size": size,
    }
    if isinstance(layout, ShardLayout) and layout.simple:
        answer.update(inspect_shard(layout, key))
        answer["map"] = shard_map(layout, key, position)
    return answer


def shard_map(layout: ShardLayout, key: str, position: tuple[int, ...]) -> list[Span]:
    """(first byte, end, "live" or "dead" or "index") from the beginning of a shard to its end."""
    found = examine_shard(layout, key, position)
    if found is None or not found.readable:
        return []
    form = layout.levels[0].form
    begin = form.begins(found.size)
    parts: list[Span] = [(begin, begin + form.size, "index")]
    for offset, length in zip(found.offsets.tolist(), found.lengths.tolist(), strict=True):
        if length:
            parts.append((offset, offset + length, "live"))
    return byte_map(parts, found.size)


def chunk_keys(array: Zarr3Array) -> Iterator[str]:
    """The keys of the chunk (or shard) objects that the store has."""
    return (key for key, _ in array.metadata.stored(array.layout.store))


def inspect_array(array: Zarr3Array, shards: bool = True, threads: int | None = None) -> dict[str, Any]:
    """Numbers for the whole array and, if it has shards, for each of them."""
    layout = array.layout
    answer: dict[str, Any] = {
        "format": "zarr3",
        "kind": "array",
        "shape": array.shape,
        "dtype": str(array.dtype),
        "chunks": array.chunks,
        "shards": array.shards,
        "codecs": list(array.metadata.codecs),
        "fill_value": array.metadata.data_type.write_fill(array.fill_value),
        "dimension_names": array.dimension_names,
        "attributes": dict(array.attrs),
        **stored_size(array, layout.store, chunk_keys(array), threads),
    }
    if array.metadata.edges is not None:
        answer["chunk_shapes"] = [one.dump() for one in array.metadata.edges]
    if shards and array.shards is not None and "objects" in answer:
        answer["shard_details"] = array.inspected_shards(threads)
    return answer


def inspect_shard(layout: ShardLayout, key: str) -> dict[str, Any]:
    """chunks: present inner chunks; live, index, dead: bytes; order: "C", "F", "morton" or "other"; ratio."""
    index = layout.index(key)
    if index is None:
        return {"chunks": 0, "live": 0, "index": 0, "dead": 0, "size": 0, "order": None, "ratio": None}
    present = np.flatnonzero(index.lengths != np.uint64(ABSENT))
    offsets, lengths = index.offsets[present], index.lengths[present]
    # Bytes that chunks share count once.
    live = covered(offsets, offsets + lengths)
    form = layout.levels[0].form
    stored = present[np.argsort(index.offsets[present], kind="stable")]
    order = "other"
    orders: tuple[Order, ...] = ("C", "morton", "F")
    for name in orders:
        wanted = layout.levels[0].in_order(name)
        if np.array_equal(stored, wanted[np.isin(wanted, present)]):
            order = name
            break
    decoded = len(present) * layout.chunk_nbytes
    return {
        "chunks": len(present),
        "slots": form.count,
        "live": live,
        "index": form.size,
        "dead": index.size - form.size - live,
        "size": index.size,
        "order": order,
        "ratio": decoded / live if live else None,
    }
