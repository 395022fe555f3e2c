"""Documents of another format beside those that are there, for the same chunks: nothing else is touched."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from zvcore import opening
from zvcore.converting.convert import writable
from zvcore.converting.making import Made, make, path_in
from zvcore.converting.planning import Request, draft_conversion
from zvcore.converting.sources import collect
from zvcore.converting.verbatim import Verbatim, same_fill
from zvcore.documents import parse_any
from zvcore.errors import ConflictError, MetadataError, NotFoundError, UnsupportedError, ZvcoreError
from zvcore.exchange import Target
from zvcore.format import formats, get_format
from zvcore.report import Report
from zvcore.stores import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from zvcore.array import Array
    from zvcore.converting.drafts import Draft, DraftArray
    from zvcore.format import Format
    from zvcore.stores import Store

__all__ = ["migrate"]

# Room for the values of one unit of a conversion, of which none is run.
_MEMORY = 1 << 20


def migrate(
    path: opening.Path,
    *,
    format: str | None = None,
    undo: bool = False,
    storage_options: Mapping[str, Any] | None = None,
    fsync: bool | None = None,
) -> Report:
    """Add the documents of another format, so that its readers find the chunks where they lie.

    What cannot be said of these chunks in the other format is an error that names it, before anything is written. With
    `undo`, the documents that this would write are removed again, unless somebody has changed them since. The report
    tells how many documents were added or removed. Without `format`, it is the newest version of what is there. `fsync`
    is as in `zvcore.open`.
    """
    store = opening.store_at(path, "r+", storage_options).durable(fsync)
    target = _newest(store) if format is None else writable(format)
    source = _described(store, target).open(store, "r")
    draft = draft_conversion(collect(source), Request(Target(target, in_place=True)))
    consolidating = get_format(source.format).exchange().is_consolidated(source)
    documents = _documents(store, draft, consolidating and draft.format.exchange().consolidated_member is not None)
    report = Report()
    if undo:
        _remove(store, documents, report)
    else:
        # Documents that are there from an earlier time lie beside the arrays, too.
        report.losses.extend(loss for loss in draft.losses if loss.where not in documents)
        _add(store, documents, report)
    store.finish()
    return report


def _newest(store: Store) -> Format:
    """The newest version of the format of what is there."""
    there = [one for one in formats().values() if one.family is not None and one.detect(store)]
    if not there:
        raise _nothing_to_migrate(store, "no data of a format of several versions")
    return max((one for one in formats().values() if one.family == there[0].family), key=lambda one: one.version)


def _described(store: Store, target: Format) -> Format:
    """The format of the documents that are there already."""
    for one in formats().values():
        if one.name != target.name and one.detect(store):
            return one
    raise _nothing_to_migrate(store, f"no data of another format than {target.title}")


def _nothing_to_migrate(store: Store, what: str) -> ZvcoreError:
    if next(store.list(), None) is None:
        return NotFoundError("there is nothing here", key=store.root)
    # Without a key: there is something at this path.
    return NotFoundError(f"there is nothing to migrate: {what} lies in {store.root}")


def _documents(store: Store, draft: Draft, consolidating: bool) -> dict[str, bytes]:
    """What to write: made in memory first, and held against the chunks that are there."""
    memory = MemoryStore()
    made = Made(_MEMORY, False, rehearsing=True)
    writer = draft.format.exchange().writer(memory, False)
    make(draft, writer, made)
    if consolidating:
        writer.consolidate()
    wrong = [f"{draft.name or '.'}: {why}" for draft, array in made.arrays if (why := _unlike(store, draft, array))]
    if wrong:
        raise UnsupportedError(
            f"these chunks cannot be read as {draft.format.title} where they lie; zvcore convert makes a copy that can:"
            "\n  " + "\n  ".join(wrong),
            key=store.root,
        )
    return {key: bytes(memory.get(key) or b"") for key in memory.list()}


def _unlike(store: Store, draft: DraftArray, array: Array) -> str | None:
    """Why an array that was made does not describe the chunks of its source."""
    view = draft.view
    if view is None or path_in(store, view.array) != draft.path or view.axes != tuple(range(view.array.ndim)):
        return "it would not be the same array"
    ours, theirs = view.array.layout, array.layout
    as_they_are = ours.form.edge == theirs.form.edge and ours.framing is theirs.framing
    if not (as_they_are and Verbatim(view, array, None, False).applies):
        return "its chunks are stored in another way, or by codecs that have no name there"
    places = [(0,) * array.ndim, tuple(range(9, 9 + array.ndim))]
    if theirs.sharded or any(ours.chunk_name(place) != theirs.chunk_name(place) for place in places):
        return "its chunks have other names"
    return None if same_fill(ours, theirs) else "what is missing would read as another value"


def _add(store: Store, documents: Mapping[str, bytes], report: Report) -> None:
    there = _there(store, documents)
    for key, found in there.items():
        if not _same(key, found, documents[key]):
            raise ConflictError("another document is here already", key=f"{store.root}/{key}")
    # What lies outermost comes last: before, nobody sees anything.
    for level in reversed(_by_depth(documents.keys() - there.keys())):
        store.each(lambda key: store.put(key, documents[key]), level)
        report.count("documents added", len(level))


def _remove(store: Store, documents: Mapping[str, bytes], report: Report) -> None:
    there = _there(store, documents)
    for level in _by_depth(there):
        ours = [key for key in level if _same(key, there[key], documents[key])]
        store.delete_all(ours)
        report.count("documents removed", len(ours))
        for key in level:
            if key not in ours:
                report.add(key, "it says something else by now, and is left", fatal=True)


def _there(store: Store, documents: Iterable[str]) -> dict[str, bytes]:
    """Those of these documents that are there already."""
    keys = sorted(documents)
    found = zip(keys, store.each(store.get, keys), strict=True)
    return {key: bytes(data) for key, data in found if data is not None}


def _by_depth(keys: Iterable[str]) -> list[list[str]]:
    """Keys by how many folders they lie in, the outermost first."""

    def depth(key: str) -> int:
        return key.count("/")

    return [sorted(level) for _, level in itertools.groupby(sorted(keys, key=depth), depth)]


def _same(key: str, there: bytes, document: bytes) -> bool:
    try:
        return bool(parse_any(there, key) == parse_any(document, key))
    except MetadataError:
        return False
