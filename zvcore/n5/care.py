"""Looking after N5 data: documents, the names and headers of blocks, and every block decoded."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from zvcore.care.describing import Inspector, stored_size
from zvcore.care.dropping import drop_damaged, nothing_to_compact
from zvcore.care.refusals import passing_over
from zvcore.care.walking import look_at_all, stray_objects
from zvcore.errors import MetadataError, NotFoundError, ZvcoreError
from zvcore.n5._framing import parse_header
from zvcore.n5.array import N5Array
from zvcore.n5.documents import ATTRIBUTES, read_document
from zvcore.n5.group import N5Group
from zvcore.n5.metadata import is_dataset
from zvcore.n5.multiscale import MissingLevelError
from zvcore.n5.verification import GUESTS, LONGEST_HEADER, Checker, grid_of
from zvcore.report import Problem, Report, What
from zvcore.stores.local import LocalStore
from zvcore.stores.others import Other

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from zvcore.stores import Store

__all__ = ["compact", "inspect", "repair", "verify"]

_SCALES = {"multiscales", "multiScale", "downsamplingFactors", "scales", "painteraData"}


def verify(
    store: Store,
    *,
    only: Sequence[str] | None = None,
    fast: bool = False,
    threads: int | None = None,
    watch: Callable[[int], Any] | None = None,
) -> Report:
    """Check a dataset, or a group with everything in it.

    With `fast`, blocks are not decoded: only their headers are read, and their sizes checked where nothing compresses
    them. With `only`, only these objects (or what is in these folders) are checked; if it is empty, only the
    documents. `watch` is called with the number of further objects checked.
    """
    report = Report(watch=watch)
    documents = only is not None and not only

    def look(store: Store, report: Report, only: Sequence[str] | None) -> list[str]:
        try:
            return _node(store, report, only, None if documents else Checks(fast, threads))
        except ZvcoreError as error:
            report.tell(Problem.of(error, ATTRIBUTES))
            return []

    look_at_all(store, report, None if documents else only, look)
    return report


class Checks(NamedTuple):
    """How blocks are checked."""

    fast: bool
    threads: int | None


def _node(store: Store, report: Report, only: Sequence[str] | None, checks: Checks | None) -> list[str]:
    """Check a dataset, or a group without its members, and return their names. Without `checks`, blocks are skipped."""
    document = read_document(store)
    if is_dataset(document):
        assert document is not None
        report.count("datasets")
        array = N5Array(store, document, read_only=True)
        checker = Checker(array, report, *(checks or ()))
        if checks is not None:
            checker.all(only)
        return []
    group = N5Group(store, document, read_only=True)
    report.count("groups")
    folders, names = store.list_dir()
    if only is None:
        _strangers(document, names, report)
        if document is not None and document.keys() & _SCALES:
            _scales(group, report)
    return folders


def _strangers(document: dict[str, Any] | None, names: list[str], report: Report) -> None:
    """Report files that do not belong in a group. Blocks among them belong to a dataset that lost its attributes."""
    blocks = [name for name in names if name.isdecimal()]
    if blocks:
        missing = "no attributes.json" if document is None else "attributes.json that describe no dataset"
        what = f"the folder holds blocks ({', '.join(blocks[:3])}) but {missing}, so no reader finds them"
        report.add("", what, kind=What.DOCUMENT)
    stray_objects((name for name in names if not name.isdecimal()), GUESTS, report)


def _scales(group: N5Group, report: Report) -> None:
    """Check that the levels a pyramid names are there."""
    try:
        group.multiscale()
    except MissingLevelError as error:
        report.tell(Problem.of(error, ATTRIBUTES))
    except MetadataError as error:
        problem = Problem.of(error, ATTRIBUTES)
        report.add(problem.where, problem.what, fatal=False, kind=What.DOCUMENT)
    except ZvcoreError:
        pass  # a convention of which zvcore reads only a part


def repair(
    store: Store, out: Store | None = None, *, only: Sequence[str] | None = None, threads: int | None = None
) -> Report:
    """Remove blocks that cannot be decoded; they read as zeros afterwards.

    With `out`, that is done in a copy of everything; without it, each such block is kept beside its place with `.bak`
    behind its name. Documents are never changed.
    """
    report = drop_damaged(verify, store, out, only=only, threads=threads, chunk="block", fill="zeros")
    if out is not None:
        _keep_bare_groups(store, out, report)
    return report


def _keep_bare_groups(store: Store, out: Store, report: Report) -> None:
    """Groups without attributes and members are folders without objects, which a copy of all objects has not."""
    for key, other in store.others("", passing_over):
        if other is not Other.FOLDER or next(store.list_readable(passing_over, key), None) is not None:
            continue
        if any(_is_dataset_at(store, above) for above in _around(key)):
            continue
        if isinstance(out, LocalStore):
            out.make_folder(key)
        else:
            report.lose(key, "a group without attributes and members, which the copy cannot have")


def _around(key: str) -> list[str]:
    parts = key.split("/")
    return ["/".join(parts[:count]) for count in range(len(parts))]


def _is_dataset_at(store: Store, prefix: str) -> bool:
    try:
        document = read_document(store, prefix)
    except ZvcoreError:
        return False
    return document is not None and is_dataset(document)


def compact(store: Store, *, only: Sequence[str] | None = None, threads: int | None = None) -> Report:
    """Nothing to do: each block is a file of its own, replaced as a whole."""
    return nothing_to_compact()


def inspect(store: Store, *, only: str | None = None, threads: int | None = None) -> dict[str, Any]:
    """Describe what is at the root of a store, or one block."""
    return N5Inspector(threads).inspect(store, only)


def _blocks(array: N5Array, store: Store) -> Iterator[str]:
    """The keys of the blocks that are stored."""
    grid = grid_of(array)
    for key in store.list():
        if grid.position(key) is not None:
            yield key


class N5Inspector(Inspector[N5Array]):
    format = "n5"

    def array(self, store: Store) -> N5Array | dict[str, Any]:
        document = read_document(store)
        if document is not None and is_dataset(document):
            return N5Array(store, document, read_only=True)
        answer: dict[str, Any] = {"attributes": document or {}}
        try:
            scales = None
            if document is not None and document.keys() & _SCALES:
                scales = N5Group(store, document, read_only=True).multiscale()
        except ZvcoreError:
            pass
        if scales is not None:
            answer["multiscale"] = {
                "convention": scales.convention,
                "axes": scales.axes,
                "levels": [
                    {"path": one.path, "resolution": one.resolution, "offset": one.offset, "units": one.units}
                    for one in scales.levels
                ],
            }
        return answer

    def members(self, store: Store) -> Iterable[str]:
        return N5Group(store, read_document(store), read_only=True)

    def levels(self, store: Store, group: Mapping[str, Any]) -> Iterable[str]:
        return [level["path"] for level in group.get("multiscale", {}).get("levels", ())]

    def about(self, array: N5Array, member: bool) -> dict[str, Any]:
        store = array.layout.store
        return {
            "format": "n5",
            "kind": "array",
            "shape": array.shape,
            "dtype": array.data_type,
            "chunks": array.chunks,
            "shards": None,
            "codecs": [array.metadata.compression],
            "fill_value": 0,
            "attributes": dict(array.attrs),
            **stored_size(array, store, _blocks(array, store), self.threads),
        }

    def within(self, array: N5Array, key: str) -> dict[str, Any]:
        store = array.layout.store
        position = grid_of(array).position(key)
        size = store.size(key)
        head = store.get(key, 0, LONGEST_HEADER)
        if position is None or size is None or head is None:
            raise NotFoundError("this is no block of the dataset", key=key)
        mode, shape, count, at = parse_header(head, array.ndim)
        return {
            "format": "n5",
            "kind": "chunk",
            "key": key,
            "position": list(position),
            "mode": ("default", "varlength", "object")[mode],
            "shape": shape,
            "elements": math.prod(shape) if count is None else count,
            "dtype": array.data_type,
            "header": at,
            "size": size,
        }
