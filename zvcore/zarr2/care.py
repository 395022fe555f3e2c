"""Looking after Zarr v2 data: documents, the names of chunks, and every chunk decoded."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING, Any

from zvcore.boxes import box_of
from zvcore.care.chunks import ChunkChecker
from zvcore.care.describing import Inspector, stored_size
from zvcore.care.dropping import drop_damaged, nothing_to_compact
from zvcore.care.ome import check_ome
from zvcore.care.walking import NAMED, Grid, look_at_all, name_untold, stray_objects, tells_too_much
from zvcore.documents.inside import are_members, is_member, members_in
from zvcore.errors import NotFoundError, ZvcoreError
from zvcore.report import Problem, Report, What
from zvcore.zarr2.array import Zarr2Array, misplaced
from zvcore.zarr2.attributes import Attributes, AttributesFile
from zvcore.zarr2.consolidated import Told, read_consolidated
from zvcore.zarr2.metadata import (
    ATTRIBUTES,
    CONSOLIDATED,
    DOCUMENT,
    DOCUMENTS,
    GROUP,
    ArrayMetadata,
    document_key,
    parse_array,
    read_metadata,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from zvcore.stores import Store

__all__ = ["compact", "inspect", "repair", "verify"]

# What else may lie in an array's folder: the document of a newer version for the same chunks.
_GUESTS = {*DOCUMENTS, "zarr.json"}


def verify(
    store: Store,
    *,
    only: Sequence[str] | None = None,
    fast: bool = False,
    threads: int | None = None,
    watch: Callable[[int], Any] | None = None,
) -> Report:
    """Look at an array, or a group with all that is in it.

    With `fast`, chunks are not decoded: their sizes are checked where nothing compresses them. With `only`, nothing but
    these objects (or what lies in these folders) is looked at; without any, the documents. `watch` is told how many
    more objects have been looked at.
    """
    report = Report(watch=watch)
    documents = only is not None and not only

    def look(store: Store, report: Report, only: Sequence[str] | None) -> list[str]:
        try:
            metadata = read_metadata(store)
            attributes = _attributes(store, report)
            if isinstance(metadata, ArrayMetadata):
                report.count("arrays")
                _fill_of_texts(metadata, report)
                checker = _checker(store, metadata, report, fast, threads)
                if not documents:
                    checker.all(only)
                return []
            report.count("groups")
            if only is None:
                check_ome(attributes, store, _shape_at, report, document=ATTRIBUTES, marks=[DOCUMENT, GROUP])
            return _group(store, report, only)
        except ZvcoreError as error:
            report.tell(Problem.of(error, DOCUMENT))
        return []

    look_at_all(store, report, None if documents else only, look)
    return report


def _fill_of_texts(metadata: ArrayMetadata, report: Report) -> None:
    """zarr-python 2 wrote 0 where no text was said."""
    if metadata.data_type.kind == "text" and isinstance(metadata.document["fill_value"], int):
        what = "the fill value of texts is 0: what is not stored reads as '' here, and as '0' in zarr-python 3"
        report.add(DOCUMENT, what, fatal=False, kind=What.DOCUMENT)


def _attributes(store: Store, report: Report) -> Mapping[str, Any]:
    """The attributes of a node; none where they cannot be read."""
    try:
        return dict(Attributes(AttributesFile(store, read_only=True)))
    except ZvcoreError as error:
        report.tell(Problem.of(error, ATTRIBUTES))
        return {}


def _shape_at(store: Store, path: str) -> tuple[int, ...] | None:
    """The shape of an array, () of a group; None where nothing is."""
    if not is_member(store, path, DOCUMENT, GROUP):
        return None
    metadata = read_metadata(store, path)
    return metadata.shape if isinstance(metadata, ArrayMetadata) else ()


def _group(store: Store, report: Report, only: Sequence[str] | None) -> list[str]:
    """Look at a group without its members, whose names it gives."""
    # Damage to it is told where nothing can be listed, too.
    told = _told(store, report) if only is None else None
    folders, names = store.list_dir()
    if only is None:
        stray_objects(names, _GUESTS, report)
    if told is not None:
        _consolidated(store, told, set(folders), report)
    members = []
    for name, found in zip(folders, are_members(store, folders, DOCUMENT, GROUP), strict=True):
        if found:
            members.append(name)
        elif only is None and not name.startswith("."):
            what = f"the folder is no member of the group: it has neither {DOCUMENT} nor {GROUP}"
            report.add(name, what, fatal=False, kind=What.STRAY)
    return members


def _told(store: Store, report: Report) -> Told | None:
    """What the group says of its members; None where it says nothing, or that cannot be read."""
    try:
        told = read_consolidated(store)
        if told is None:
            tells_too_much(store, CONSOLIDATED, CONSOLIDATED, report)
    except ZvcoreError as error:
        report.tell(Problem.of(error, CONSOLIDATED))
        return None
    return told


def _consolidated(store: Store, told: Told, folders: Collection[str], report: Report) -> None:
    """What the group says of its members against what they say themselves. `folders` are those in the group."""
    missing = 0
    groups = [""]
    for key, document in told.items():
        path, _, name = key.rpartition("/")
        if name not in (DOCUMENT, GROUP, ATTRIBUTES):
            continue
        try:
            own = _own_document(store, path, name, not path or path.partition("/")[0] in folders)
        except ZvcoreError:
            continue  # told with the member itself
        if path and name == GROUP and own is not None:
            groups.append(path)
        if own is None:
            missing += 1
            if missing <= NAMED:
                report.add(CONSOLIDATED, f"it tells of {key}, which is not there", kind=What.MISSING)
        elif not _alike(name, own, document):
            what = f"it is out of date: {key} says something else, and readers that use {CONSOLIDATED} do not know it"
            report.add(CONSOLIDATED, what, fatal=name == DOCUMENT, kind=What.DOCUMENT)
    if missing > NAMED:
        what = f"it tells of {missing - NAMED} more documents that are not there"
        report.add(CONSOLIDATED, what, kind=What.MISSING)
    name_untold(_untold(store, told, groups), CONSOLIDATED, "it", report)


def _untold(store: Store, told: Told, groups: Sequence[str]) -> Iterator[str]:
    """The members of these groups of which the outermost one does not tell."""
    for group in groups:
        for folder in store.list_dir(group)[0]:
            name = f"{group}/{folder}" if group else folder
            marks = (DOCUMENT, GROUP)
            if all(document_key(mark, name) not in told for mark in marks) and is_member(store, name, *marks):
                yield name


def _own_document(store: Store, path: str, name: str, there: bool) -> dict[str, Any] | None:
    from zvcore import documents

    found = documents.read(store, document_key(name, path)) if there else None
    return {} if found is None and name == ATTRIBUTES else found


def _alike(name: str, own: dict[str, Any], told: dict[str, Any]) -> bool:
    """Whether two documents mean the same, however they are spelled."""
    if own == told or name == GROUP:
        return True
    if name != DOCUMENT:
        # NaN equals no other NaN, but is written as it.
        return repr(sorted(own.items())) == repr(sorted(told.items()))
    try:
        mine, theirs = parse_array(own, DOCUMENT), parse_array(told, CONSOLIDATED)
    except ZvcoreError:
        return False
    return _meaning(mine) == _meaning(theirs)


def _meaning(metadata: ArrayMetadata) -> tuple[Any, ...]:
    written = metadata.data_type.write_fill(metadata.fill_value)
    return (
        metadata.shape, metadata.chunks, metadata.data_type.stored, metadata.codecs, metadata.order, metadata.separator,
        metadata.undefined, repr(written),
    )  # fmt: skip


def _checker(
    store: Store, metadata: ArrayMetadata, report: Report, fast: bool = False, threads: int | None = None
) -> ChunkChecker:
    """What looks at the chunks of an array. Chunks where no reader looks for them are told of once, not one by one."""
    array = Zarr2Array(store, metadata, read_only=True)
    other = metadata.other_keys
    lost = False

    def position(key: str) -> tuple[int, ...] | None:
        nonlocal lost
        found = metadata.keys.position(key)
        if found is None and not lost and other is not None and other.position(key) is not None:
            lost = True
            what = misplaced(store, metadata) or (
                f"chunks are stored with {other.separator!r} between their numbers, where readers look for "
                f"{metadata.separator!r}, as the dimension_separator says"
            )
            report.add(key, what, kind=What.DOCUMENT)
        return found

    guests = _Guests(metadata)
    return ChunkChecker(array.layout, Grid(metadata.grid, position, guests), report, fast, threads)


class _Guests:
    """What else may lie in the folder of an array: chunks with the other separator are told of all at once."""

    def __init__(self, metadata: ArrayMetadata) -> None:
        self.other = metadata.other_keys

    def __contains__(self, key: object) -> bool:
        if key in _GUESTS:
            return True
        return isinstance(key, str) and self.other is not None and self.other.position(key) is not None


def repair(
    store: Store, out: Store | None = None, *, only: Sequence[str] | None = None, threads: int | None = None
) -> Report:
    """Remove chunks that cannot be decoded; they read as the fill value afterwards.

    With `out`, that is done in a copy of everything; without it, each such chunk is kept beside its place with `.bak`
    behind its name. Documents are never changed.
    """
    return drop_damaged(verify, store, out, only=only, threads=threads, chunk="chunk", fill="the fill value")


def compact(store: Store, *, only: Sequence[str] | None = None, threads: int | None = None) -> Report:
    """Nothing to do: each chunk is an object of its own, replaced as a whole."""
    return nothing_to_compact()


def inspect(store: Store, *, only: str | None = None, threads: int | None = None) -> dict[str, Any]:
    """Describe what is at the root of a store, or one chunk."""
    return Zarr2Inspector(threads).inspect(store, only)


class Zarr2Inspector(Inspector[Zarr2Array]):
    format = "zarr2"

    def array(self, store: Store) -> Zarr2Array | dict[str, Any]:
        metadata = read_metadata(store)
        if isinstance(metadata, ArrayMetadata):
            return Zarr2Array(store, metadata, read_only=True)
        return {"attributes": dict(Attributes(AttributesFile(store, read_only=True)))}

    def members(self, store: Store) -> Iterable[str]:
        return members_in(store, DOCUMENT, GROUP)

    def copied(self, store: Store) -> Iterable[str]:
        documents = (posixpath.split(key) for key in read_consolidated(store) or ())
        return (folder for folder, name in documents if folder and name in (DOCUMENT, GROUP))

    def about(self, array: Zarr2Array, member: bool) -> dict[str, Any]:
        metadata = array.metadata
        return {
            "format": "zarr2",
            "kind": "array",
            "shape": array.shape,
            "dtype": str(array.dtype),
            "chunks": array.chunks,
            "shards": None,
            "order": metadata.order,
            "codecs": [
                {"name": one["id"], **{key: n for key, n in one.items() if key != "id"}} for one in metadata.codecs
            ],
            "fill_value": metadata.document["fill_value"],
            "dimension_names": array.dimension_names,
            "dimension_separator": metadata.separator,
            "attributes": dict(array.attrs),
            **stored_size(array, array.store, (key for key, _ in metadata.keys.stored(array.store)), self.threads),
        }

    def within(self, array: Zarr2Array, key: str) -> dict[str, Any]:
        position = array.metadata.keys.position(key)
        size = array.store.size(key)
        if position is None or size is None:
            raise NotFoundError("this is no chunk of the array", key=key)
        return {
            "format": "zarr2",
            "kind": "chunk",
            "key": key,
            "position": list(position),
            "region": [list(span) for span in box_of(position, array.chunks, array.shape)],
            "shape": array.chunks,
            "dtype": str(array.dtype),
            "size": size,
        }
