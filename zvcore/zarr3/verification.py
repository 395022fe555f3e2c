"""Whether Zarr v3 data is what it should be: documents, keys, shard indexes, checksums, and every chunk decoded."""

from __future__ import annotations

import math
import re
from copy import copy
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from zvcore.care.chunks import ChunkChecker, ObjectChecker
from zvcore.care.ome import check_ome
from zvcore.care.refusals import refusal
from zvcore.care.together import look_together
from zvcore.care.walking import NAMED, Grid, look_at_all, name_untold, stray_objects, tells_too_much
from zvcore.documents.inside import are_members, is_member
from zvcore.documents.members import is_member_name
from zvcore.engine import Keys
from zvcore.engine.steady import steadily
from zvcore.errors import ZvcoreError
from zvcore.layout import Sources
from zvcore.report import Problem, Report, What
from zvcore.stores.key_selection import within
from zvcore.zarr3.array import array_of
from zvcore.zarr3.consolidated import differences
from zvcore.zarr3.metadata import CONSOLIDATED, DOCUMENT, GroupMetadata, read_document, read_metadata
from zvcore.zarr3.pieces import pieces_of
from zvcore.zarr3.shard_check import ShardExamination, examine_shard
from zvcore.zarr3.sharding import ShardLayout
from zvcore.zarr3.whole_shards import stored_chunks

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from zvcore.stores import Store

__all__ = ["Checker", "check_documents", "grid_of", "verify"]

Ints = npt.NDArray[np.int64]

# What chunks that are looked at together may take once they are decoded.
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
    """Check an array, or a group with everything in it.

    With `fast`, chunks are not decoded: only shard indexes, checksums and the sizes that are known are checked. With
    `only`, only these objects (or what is in these folders) are checked; if it is empty, only the documents.
    `watch` is called with the number of further objects checked.
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
            layout = array_of(store, metadata, read_only=True).layout
            kind = Checker if metadata.edges is None else PieceChecker
            checker = kind(layout, report, fast, threads)
            if not documents:
                checker.all(only)
        except ZvcoreError as error:
            report.tell(Problem.of(error, DOCUMENT))
        return []

    look_at_all(store, report, None if documents else only, look)
    return report


def check_documents(store: Store) -> Report:
    """`verify` without a look at any chunk."""
    return verify(store, only=(), fast=True)


def _group(store: Store, metadata: GroupMetadata, report: Report, only: Sequence[str] | None) -> list[str]:
    """Check a group without its members, and return their names."""
    folders, names = store.list_dir()
    if only is None:
        stray_objects(names, _GUESTS, report)
    members = []
    meant = [name for name in folders if only is None or within(only, name)]
    for name, found in zip(meant, are_members(store, meant, DOCUMENT), strict=True):
        if found:
            members.append(name)
        else:
            _no_member(store, name, report)
    if only is None:
        _consolidated(store, metadata, set(folders), report)
        check_ome(metadata.attributes, store, _shape_at, report, document=DOCUMENT, marks=[DOCUMENT])
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
    elif is_member(store, name, *_OLD):
        report.add(name, "a member of Zarr v2 in a group of v3 is not looked at", fatal=False, kind=What.UNSUPPORTED)
    else:
        report.add(name, "the folder is no member of the group: it has no zarr.json", fatal=False, kind=What.STRAY)


_NO_MEMBER = "consolidated_metadata tells of {!r}, which can be the name of no member"


def _consolidated(store: Store, metadata: GroupMetadata, folders: Collection[str], report: Report) -> None:
    """Compare what the group says of its members with what they say themselves. `folders` are those in the group."""
    missing = 0
    groups = [""]
    if metadata.consolidated is None and CONSOLIDATED in metadata.document:
        tells_too_much(store, DOCUMENT, CONSOLIDATED, report)
    if metadata.consolidated is not None and "" in metadata.document[CONSOLIDATED]["metadata"]:
        report.add(DOCUMENT, _NO_MEMBER.format(""), kind=What.DOCUMENT)
    for name, told in (metadata.consolidated or {}).items():
        if not is_member_name(name):
            report.add(DOCUMENT, _NO_MEMBER.format(name), kind=What.DOCUMENT)
            continue
        where = f"consolidated_metadata of {name}"
        try:
            own = read_document(store, name) if name.partition("/")[0] in folders else None
        except ZvcoreError:
            continue  # reported with the member itself
        if own is None:
            missing += 1
            if missing <= NAMED:
                report.add(DOCUMENT, f"{where}: there is no such member", kind=What.MISSING)
            continue
        if own.get("node_type") == "group":
            groups.append(name)
        different = differences(own, told)
        vital = [key for key in different if key not in ("attributes", "dimension_names")]
        if vital:
            report.add(
                DOCUMENT, f"{where} is out of date: the member's own {', '.join(vital)} differ", kind=What.DOCUMENT
            )
        elif different:
            report.add(DOCUMENT, f"{where} is out of date: attributes differ", fatal=False, kind=What.DOCUMENT)
    if missing > NAMED:
        what = f"consolidated_metadata has {missing - NAMED} more members that are not there"
        report.add(DOCUMENT, what, kind=What.MISSING)
    if metadata.consolidated is not None:
        name_untold(_untold(store, metadata.consolidated, groups), DOCUMENT, CONSOLIDATED, report)


def _untold(store: Store, told: Collection[str], groups: Sequence[str]) -> Iterator[str]:
    """The members of these groups of which the outermost one does not tell."""
    for group in groups:
        for folder in (store.child(group) if group else store).list_dir()[0]:
            name = f"{group}/{folder}" if group else folder
            if name not in told and is_member(store, name, DOCUMENT):
                yield name


def _shape_at(store: Store, path: str) -> tuple[int, ...] | None:
    """The shape of an array, () of a group; None where nothing is."""
    if not is_member(store, path, DOCUMENT):
        return None
    metadata = read_metadata(store, path)
    return () if isinstance(metadata, GroupMetadata) else metadata.shape


def grid_of(layout: Any) -> Grid:
    """Which objects the array of a layout has."""
    edges = layout.metadata.edges
    extents = layout.metadata.grid if edges is None else [one.count for one in edges]
    return Grid(list(extents), layout.metadata.position, _GUESTS, "chunk" if layout.shard_shape is None else "shard")


class PieceChecker(ObjectChecker):
    """Checks the objects of an array whose chunks differ in size: those of each piece of it by themselves."""

    def __init__(self, layout: Any, report: Report, fast: bool = False, threads: int | None = None) -> None:
        super().__init__(layout.store, grid_of(layout), report)
        self.layout = layout
        self.fast = fast
        self.threads = threads
        _ = layout.chains  # a codec that is not installed is an error before any chunk is read

    def objects(self, batch: Sequence[tuple[str, tuple[int, ...]]]) -> None:
        for piece, part in pieces_of(self.layout, iter(batch)):
            with piece.reporting(self.report) as report:
                Checker(piece.layout, report, self.fast, self.threads).objects([*part])


class Checker(ChunkChecker):
    """Checks the objects of one array: chunks, or shards of them."""

    def __init__(self, layout: Any, report: Report, fast: bool = False, threads: int | None = None) -> None:
        self.metadata = layout.metadata
        self.sharded = isinstance(layout, ShardLayout)
        super().__init__(layout, grid_of(layout), report, fast, threads)

    def objects(self, batch: Sequence[tuple[str, tuple[int, ...]]]) -> None:
        if not self.sharded:
            super().objects(batch)
            return
        for part in look_together(self.store, batch, self._looked_at, self.object_nbytes()):
            self.report.extend(part)
            self.report.looked_at()

    def _looked_at(self, entry: tuple[str, tuple[int, ...]]) -> Report:
        """What is to be said of a shard, by itself: others are looked at meanwhile."""
        key, position = entry
        alone = self.alone()
        try:
            alone.shard(key, position)
        except OSError as error:
            alone.report.tell(Problem.of(refusal(error, self.store.root), key, position))
        return alone.report

    def alone(self) -> Checker:
        """The same with a report of its own."""
        alone = copy(self)
        alone.report = self.report.part()
        return alone

    def object_nbytes(self) -> int:
        """What the chunks of an object take once they are decoded: at most as much as is ever held, which is also what
        is said of those without a size.
        """
        inside = math.prod(math.prod(level.cells) for level in self.layout.levels) if self.sharded else 1
        return _BYTES if self.nbytes is None else min(_BYTES, inside * self.nbytes)

    # --- shards

    def shard(self, key: str, shard: tuple[int, ...]) -> npt.NDArray[np.bool_] | None:
        """Check a shard. Returns which of the chunks of its examination are sound; None if that is unknown."""
        if not self.layout.simple:
            self._nested(key, shard)
            return None
        mark = self.report.mark()

        def look() -> tuple[ShardExamination | None, npt.NDArray[np.bool_] | None]:
            # Where the shard was replaced in the meantime, what was found before no longer holds.
            self.report.back_to(mark)
            found = examine_shard(self.layout, key, shard)
            return found, None if found is None else self._examined(found)

        found, sound = steadily(look, key)
        if found is not None:
            self.report.count("chunks", len(found.slots))
            self.report.count("dead bytes", found.dead)
        return sound

    def _examined(self, found: ShardExamination) -> npt.NDArray[np.bool_]:
        self.report.extend(found.report)
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
            for row in self.decode(sources, found.positions[rows], lambda _: found.key):
                sound[first + row] = False
        return sound

    def _nested(self, key: str, shard: tuple[int, ...]) -> None:
        """Shards within shards, or behind codecs: the object is read as a whole."""
        found = self.store.snapshot(key)
        if found is None:
            return
        raw = memoryview(found.data)
        try:
            # All indexes first: if one cannot be read, that is the only problem reported.
            count = sum(len(chunks) for _, chunks in stored_chunks(self.layout, raw, shard, key))
        except ZvcoreError as error:
            self.report.tell(Problem.of(error, key, shard, What.INDEX))
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
                self.decode(Sources(Keys.of([key]), blobs=blobs), np.concatenate(places), lambda _: key)
                places, blobs = [], []
