"""Whether Zarr v3 data is what it should be: documents, keys, shard indexes, checksums, and every chunk decoded."""

from __future__ import annotations

import itertools
import math
import re
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from zvcore.care.checking import WrongSizeError, first_bad
from zvcore.care.walking import Grid, look_at_all, objects, stray_objects
from zvcore.codecs import CodecChain
from zvcore.engine import Keys, fetch
from zvcore.engine.fetching import StaleSourcesError
from zvcore.errors import ConflictError, ZvcoreError
from zvcore.layout import Sources
from zvcore.report import Problem, Report, What
from zvcore.stores.again import BEING_REPLACED, again
from zvcore.stores.key_selection import within
from zvcore.zarr3.array import Zarr3Array
from zvcore.zarr3.consolidated import differences
from zvcore.zarr3.metadata import DOCUMENT, GroupMetadata, read_document, read_metadata
from zvcore.zarr3.shard_check import ShardExamination, examine_shard
from zvcore.zarr3.sharding import ShardLayout
from zvcore.zarr3.whole_shards import stored_chunks

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zvcore.stores import Store

__all__ = ["Checker", "check_documents", "verify"]

Ints = npt.NDArray[np.int64]

# How many objects are looked at together, and what they may take once they are decoded.
_OBJECTS = 1024
_BYTES = 64 << 20
# Where the documents of Zarr v2 lie beside those of v3.
_OLD = {".zarray", ".zgroup", ".zattrs", ".zmetadata"}
_GUESTS = {DOCUMENT, *_OLD}


def verify(
    store: Store,
    *,
    only: Sequence[str] | None = None,
    fast: bool = False,
    threads: int | None = None,
    watch: Callable[[int], Any] | None = None,
) -> Report:
    """Look at an array, or a group with all that is in it.

    With `fast`, chunks are not decoded: only shard indexes, checksums and the sizes that are known are checked. With
    `only`, nothing but these objects (or what lies in these folders) is looked at; without any, the documents.
    `watch` is told how many more objects have been looked at.
    """
    report = Report(watch=watch)
    documents = only is not None and not only

    def look(store: Store, report: Report, only: Sequence[str] | None) -> list[str]:
        try:
            metadata = read_metadata(store)
            if isinstance(metadata, GroupMetadata):
                report.count("groups")
                return _group(store, metadata, report, only)
            report.count("arrays")
            checker = Checker(Zarr3Array(store, metadata, read_only=True), report, fast, threads)
            if not documents:
                checker.all(only)
        except ZvcoreError as error:
            report.problems.append(Problem.of(error, DOCUMENT))
        return []

    look_at_all(store, report, None if documents else only, look)
    return report


def check_documents(store: Store) -> Report:
    """`verify` without a look at any chunk."""
    return verify(store, only=(), fast=True)


def _group(store: Store, metadata: GroupMetadata, report: Report, only: Sequence[str] | None) -> list[str]:
    """Look at a group without its members, whose names it gives."""
    folders, names = store.list_dir()
    if only is None:
        stray_objects(names, _GUESTS, report)
    members = []
    for name in folders:
        if only is not None and not within(only, name):
            continue
        if store.exists(f"{name}/{DOCUMENT}"):
            members.append(name)
        else:
            _no_member(store, name, report)
    if only is None:
        _consolidated(store, metadata, report)
        _multiscales(store, metadata, report)
    return members


def _no_member(store: Store, name: str, report: Report) -> None:
    """A folder in a group that is neither a group nor an array."""
    first = next(store.list(name), None)
    if first is None or name.startswith("."):
        return
    inside = first.removeprefix(f"{name}/")
    lost = re.fullmatch(r"c[/.]\d+([/.]\d+)*|\d+([/.]\d+)*|.*zarr\.json", inside) is not None
    if lost:
        report.add(
            name, "the folder holds chunks or members but no zarr.json, so no reader finds them", kind=What.DOCUMENT
        )
    elif any(store.exists(f"{name}/{old}") for old in _OLD):
        report.add(name, "a member of Zarr v2 in a group of v3 is not looked at", fatal=False, kind=What.UNSUPPORTED)
    else:
        report.add(name, "the folder is no member of the group: it has no zarr.json", fatal=False, kind=What.STRAY)


def _consolidated(store: Store, metadata: GroupMetadata, report: Report) -> None:
    """What the group says of its members against what they say themselves."""
    for name, told in (metadata.consolidated or {}).items():
        where = f"consolidated_metadata of {name}"
        try:
            own = read_document(store, name)
        except ZvcoreError:
            continue  # told with the member itself
        if own is None:
            report.add(DOCUMENT, f"{where}: there is no such member", kind=What.MISSING)
            continue
        different = differences(own, told)
        vital = [key for key in different if key not in ("attributes", "dimension_names")]
        if vital:
            report.add(
                DOCUMENT, f"{where} is out of date: the member's own {', '.join(vital)} differ", kind=What.DOCUMENT
            )
        elif different:
            report.add(DOCUMENT, f"{where} is out of date: attributes differ", fatal=False, kind=What.DOCUMENT)


def _multiscales(store: Store, metadata: GroupMetadata, report: Report) -> None:
    """The levels that OME metadata name are there."""
    ome = metadata.attributes.get("ome")
    scales = ome.get("multiscales") if isinstance(ome, dict) else None
    for scale in scales if isinstance(scales, list) else ():
        levels = scale.get("datasets") if isinstance(scale, dict) else None
        for level in levels if isinstance(levels, list) else ():
            path = level.get("path") if isinstance(level, dict) else None
            if not isinstance(path, str) or not path:
                report.add(DOCUMENT, "ome.multiscales has a dataset without a path", kind=What.DOCUMENT)
                continue
            try:
                found = store.exists(f"{path.strip('/')}/{DOCUMENT}")
            except ZvcoreError as error:
                report.problems.append(Problem.of(error, DOCUMENT))
                continue
            if not found:
                report.add(DOCUMENT, f"ome.multiscales names the level {path!r}, which is not there", kind=What.MISSING)


class Checker:
    """Looks at the objects of one array."""

    def __init__(self, array: Zarr3Array, report: Report, fast: bool = False, threads: int | None = None) -> None:
        self.array = array
        self.layout: Any = array.layout
        self.store = array.layout.store
        self.report = report
        self.fast = fast
        self.threads = threads
        metadata = array.metadata
        self.metadata = metadata
        self.grid = Grid(
            [-(-bound // extent) for bound, extent in zip(metadata.shape, metadata.chunk_shape, strict=True)],
            metadata.position,
            _GUESTS,
        )
        chain = self.layout.chains[0]
        # Codecs that must be installed are missed here, before any chunk is read.
        self.chain = chain
        plain = self.layout.value_codec is None
        self.nbytes = self.layout.chunk_nbytes if plain else None
        codecs = chain.codecs
        # What can be checked without decoding: a checksum behind everything, or the size of what nothing compresses.
        checked = list(itertools.takewhile(lambda codec: codec.is_checksum, reversed(codecs)))
        self.proof = CodecChain(checked[::-1]) if checked else None
        self.fixed = len(checked) == len(codecs)

    def all(self, only: Sequence[str] | None = None) -> None:
        """Every object."""
        stored = 0
        sharded = isinstance(self.layout, ShardLayout)
        entries = objects(self.store, self.grid, self.report, only)
        while batch := list(itertools.islice(entries, _OBJECTS)):
            stored += len(batch)
            if sharded:
                for key, position in batch:
                    self.shard(key, position)
                    self.report.looked_at()
            else:
                self.chunks(batch)
                self.report.looked_at(len(batch))
        what = "shards" if sharded else "chunks"
        self.report.count(what, stored)
        if only is None:
            self.report.count(f"{what} not stored", math.prod(self.grid.extents) - stored)

    # --- chunks that are objects

    def chunks(self, batch: Sequence[tuple[str, tuple[int, ...]]]) -> None:
        positions = np.array([position for _, position in batch], np.int64).reshape(len(batch), -1)
        sources = Sources(keys=Keys.of([key for key, _ in batch]))
        self._decode(sources, positions, lambda row: batch[row][0])

    # --- shards

    def shard(self, key: str, shard: tuple[int, ...]) -> npt.NDArray[np.bool_] | None:
        """Look at a shard; which of the chunks of its examination are sound, None where there is nothing to tell."""
        if not self.layout.simple:
            self._nested(key, shard)
            return None
        mark = len(self.report.problems)
        found, sound = None, None
        for attempt in again(key, BEING_REPLACED, on=(ConflictError, StaleSourcesError)):
            # What was found of one that was replaced meanwhile is not so any more.
            del self.report.problems[mark:]
            with attempt:
                found = examine_shard(self.layout, key, shard)
                sound = None if found is None else self._examined(found)
        if found is not None:
            self.report.count("chunks", len(found.slots))
            self.report.count("dead bytes", found.dead)
        return sound

    def _examined(self, found: ShardExamination) -> npt.NDArray[np.bool_]:
        self.report.problems.extend(found.report.problems)
        count = len(found.slots)
        sound = np.ones(count, np.bool_)
        decoded = self.nbytes if self.nbytes is not None else 0
        step = max(1, min(1 << 16, _BYTES // max(1, decoded, int(found.lengths.max(initial=1)))))
        for first in range(0, count, step):
            rows = slice(first, min(first + step, count))
            part = rows.stop - rows.start
            sources = Sources(
                Keys.of([found.key]), np.zeros(part, np.int32), found.offsets[rows], found.lengths[rows],
                stamps=[found.stamp],
            )  # fmt: skip
            for row in self._decode(sources, found.positions[rows], lambda _: found.key):
                sound[first + row] = False
        return sound

    def _nested(self, key: str, shard: tuple[int, ...]) -> None:
        """Shards within shards, or behind codecs: the object is read as a whole."""
        found = self.store.snapshot(key)
        if found is None:
            return
        raw = memoryview(found.data)
        try:
            # All indexes first: a shard of which one cannot be read has that problem alone.
            count = sum(len(chunks) for _, chunks in stored_chunks(self.layout, raw, shard, key))
        except ZvcoreError as error:
            self.report.problems.append(Problem.of(error, key, shard, What.INDEX))
            return
        self.report.count("chunks", count)
        places: list[Ints] = []
        blobs: list[memoryview] = []
        step = max(1, _BYTES // max(1, self.nbytes or 1 << 20))
        for positions, chunks in stored_chunks(self.layout, raw, shard, key):
            places.append(positions)
            blobs += chunks
            count -= len(chunks)
            if len(blobs) >= step or not count:
                self._decode(Sources(Keys.of([key]), blobs=blobs), np.concatenate(places), lambda _: key)
                places, blobs = [], []

    # --- decoding

    def _decode(self, sources: Sources, positions: Ints, name: Callable[[int], str]) -> list[int]:
        """Decode chunks, in pieces that fit into memory; tell of those that cannot be. The rows that are broken."""
        count = len(positions)
        step = max(1, min(count, _BYTES // max(1, self.nbytes or 1 << 20)))
        if self.fast and self.proof is None:
            step = max(1, count)  # nothing is read

        def decode(first: int, last: int) -> None:
            self._fetched(_part(sources, range(first, last)), positions[first:last])

        bad: list[int] = []
        for first in range(0, count, step):
            for row, error in first_bad(decode, first, min(first + step, count)):
                if self._tell(error, sources, row, positions[row], name(row)).damage:
                    bad.append(row)
        return bad

    def _fetched(self, sources: Sources, positions: Ints) -> None:
        count = len(positions)
        if self.fast:
            self._sized(sources, count)
            if self.proof is not None:
                size = np.full(count, self.nbytes, np.uint64) if self.fixed and self.nbytes is not None else None
                self._got(sources, self.proof, size, positions)
            return
        expected = None if self.nbytes is None else np.full(count, self.nbytes, np.uint64)
        self._got(sources, self.chain, expected, positions)

    def _got(self, sources: Sources, chain: CodecChain, expected: Any, positions: Ints) -> None:
        values = fetch(self.store, sources, chain, count=len(positions), expected=expected, threads=self.threads)
        if self.nbytes is None and not self.fast:
            for row, value in enumerate(values):
                if value is not None:
                    self.layout.decode_values(value, tuple(positions[row].tolist()))

    def _sized(self, sources: Sources, count: int) -> None:
        """Sizes that are known before anything is decoded."""
        if len(self.chain.codecs) or self.nbytes is None:
            return
        wanted = self.nbytes
        for row in range(count):
            if sources.blobs is not None:
                size: int | None = len(sources.blobs[row])
            elif sources.length is not None:
                size = int(sources.length[row])
            else:
                size = self.store.size(sources.keys[row])
            if size is not None and size != wanted:
                raise WrongSizeError("the chunk has the wrong size", expected=f"{wanted} bytes", found=size)

    def _tell(self, error: ZvcoreError, sources: Sources, row: int, position: Ints, key: str) -> Problem:
        if sources.offset is not None and sources.length is not None:
            error.offset, error.length = int(sources.offset[row]), int(sources.length[row])
        elif sources.blobs is None:
            # Offsets in decoded bytes would mislead.
            error.offset, error.length = 0, self.store.size(key)
        else:
            error.offset = error.length = None
        error.key = key
        error.chunk = tuple(position.tolist())
        problem = Problem.of(error, key)
        self.report.problems.append(problem)
        return problem


def _part(sources: Sources, rows: range) -> Sources:
    """Some rows of sources."""
    if sources.blobs is not None:
        blobs = list(sources.blobs[rows.start : rows.stop])
        return Sources(keys=sources.keys, blobs=blobs)
    if sources.offset is None or sources.length is None or sources.key is None:
        return Sources(keys=Keys.of([sources.keys[row] for row in rows]))
    part = slice(rows.start, rows.stop)
    return Sources(sources.keys, sources.key[part], sources.offset[part], sources.length[part], stamps=sources.stamps)
