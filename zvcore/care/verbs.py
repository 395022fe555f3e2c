"""The questions to ask of stored data, whatever its format: verify, repair, compact, inspect.

What answers is the format's own `care()`, see `zvcore.format.Care`.
"""

from __future__ import annotations

import itertools
import os
import pickle
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from zvcore.care.manifest import MANIFEST, check_manifest, manifest_around
from zvcore.care.refusals import passing_over, refusal, tell_strange_names
from zvcore.care.several import SeveralDatasetsError, datasets_in, refused, root_of, verify_several, verify_unmarked
from zvcore.care.unfinished import place_of, refuse_unfinished, unfinished_within
from zvcore.converting.note import (
    FINISHED,
    UnfinishedConversion,
    places_above,
    unfinished_around,
    unfinished_at,
    unfinished_member,
)
from zvcore.converting.note import KEY as NOTE
from zvcore.converting.part_notes import FOLDER as PARTS
from zvcore.converting.share import Share
from zvcore.engine import thread_count
from zvcore.errors import CorruptDataError, MetadataError, NotFoundError, StoreError, UnsupportedError, ZvcoreError
from zvcore.format import Format, get_format
from zvcore.logs import Log
from zvcore.opening import detect, nothing_known, store_at, unknown_file, unreadable
from zvcore.progress import shown
from zvcore.report import MOST_KEPT, Problem, Report, What, keeping
from zvcore.stores.absolute import absolute
from zvcore.stores.base import UnlistedError
from zvcore.stores.key_selection import keys_of
from zvcore.stores.opening import open_store, shared_options
from zvcore.stores.others import unreadable_objects

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from distributed import Client

    from zvcore.opening import Path
    from zvcore.stores import Store

__all__ = ["compact", "find", "find_one", "inspect", "repair", "verify"]

_log = Log("care")

# Objects of zvcore's own, which belong to no format.
_NOTES = (NOTE, FINISHED, MANIFEST)
# How many arrays of an unfinished conversion are named.
_NAMED = 100
# How many objects one task on a cluster looks at.
_OBJECTS_PER_TASK = 16
# And how many a process that does its part of them looks at together.
_OBJECTS_AT_ONCE = 1024
_COUNTED_ONCE = ("arrays", "groups", "datasets", "scales", "segments")


def verify(
    path: Path,
    fast: bool = False,
    threads: int | None = None,
    client: Client | None = None,
    *,
    format: str | None = None,
    progress: bool | Callable[[int, int], Any] = False,
    part: tuple[int, int] | str | None = None,
    storage_options: Mapping[str, Any] | None = None,
    max_problems: int | None = MOST_KEPT,
    **options: Any,
) -> Report:
    """Check all of an array, a group, a volume, a Zarr Vectors store, or one file of these.

    Where there is a manifest (see `make_manifest`), what lies here is compared with it, too. Of a folder of several
    datasets, which is none itself, each is checked.

    fast             do not decode chunks: check structure, checksums, and the sizes that are known
    client           a dask.distributed `Client`: its workers look, each at some objects, with one thread unless
                     `threads` says more
    format           as in `zvcore.open`; found out when it is not given
    progress         True for a bar (in a log: lines), or a function, called with (objects looked at, of how many)
    part             (3, 64), or "3/64": look only at this part of the objects, counted from 1, while other processes
                     look at the others; what is not an object by itself, such as documents, is of the first part
    storage_options  for object stores, as in `zvcore.open`
    max_problems     how many problems of each kind are told one by one; the others are counted. None: all
    options          what only this format has, such as `spec=` for bare sharded stores of precomputed
    """
    if max_problems is not None and max_problems < 0:
        raise ValueError(f"max_problems is a count, or None, not {max_problems}")

    def one(place: str, format: str | None = None) -> Report:
        return verify(
            place, fast, threads, client, format=format, progress=progress, part=part,
            storage_options=storage_options, max_problems=max_problems, **options,
        )  # fmt: skip

    share, threads = Share.of(part), thread_count(threads)
    with keeping(max_problems):
        try:
            store, found, only = find(path, "r", format, storage_options)
        except (MetadataError, UnsupportedError) as error:
            return _verify_without_document(path, error, storage_options, one)
        except (CorruptDataError, OSError) as error:
            if isinstance(error, StoreError) and not _is_link(path):
                raise  # the store itself is out of reach, and nothing was looked at
            return refused(error, path)
        meant = None if only is None else [only]
        try:
            with shown(progress, keys_of(store, meant, passing_over), "verifying", "object") as watch:
                if client is not None or share is not None:
                    tasks = _tasks(store, only, share, _OBJECTS_PER_TASK if client is not None else _OBJECTS_AT_ONCE)
                    report = _verify_on(client, tasks, store, found.name, fast, threads, watch, options)
                else:
                    if meant is not None:
                        options["only"] = meant
                    report = found.care().verify(store, fast=fast, threads=threads, watch=watch, **options)
        except UnlistedError as error:
            return _verify_without_document(path, error, storage_options, one)
        except StoreError:
            raise
        except (CorruptDataError, OSError) as error:
            report = refused(error, path)
        report.watch = None
        _tell_what_the_store_tells(report, store, only, fast, share)
        _check_manifest(report, store, only, fast, threads, share)
    # Last: a conversion that wrote during the check may have ended by now.
    _tell_unfinished(
        report,
        store.root,
        [unfinished_around(place_of(path, store), storage_options), *_unfinished_below(report, store, only)],
    )
    return report


def _unfinished_below(report: Report, store: Store, only: str | None) -> Iterator[UnfinishedConversion]:
    """The unfinished conversions within. A folder that may not be looked into is a problem, and not the end of all."""
    try:
        yield from unfinished_within(store, only, tell_strange_names(report))
    except PermissionError as error:
        problem = Problem.of(refusal(error, store.root))
        if all(one.where != problem.where for one in report.problems):
            report.tell(problem)


def _tell_what_the_store_tells(report: Report, store: Store, only: str | None, fast: bool, share: Share | None) -> None:
    """Report what has the name of an object and cannot be read: it is not listed, and so seen by no other check. And
    what a power cut has left.
    """
    damaged = () if fast else store.damaged()
    try:
        for error in unreadable_objects(store, only or ""):
            if share is None or share.has(str(error.key)):
                report.tell(Problem.of(error))
        told = (Problem.of(error) for error in damaged)
        report.tell(*(replace(one, where=one.where.removeprefix(f"{store.root}/")) for one in told))
    except OSError as error:
        report.tell(Problem.of(refusal(error, store.root)))


def _is_link(path: Path) -> bool:
    return isinstance(path, str | os.PathLike) and os.path.islink(path)


def _is_file(path: Path) -> bool:
    # Where a slash stands behind its name, the system knows no such file.
    return isinstance(path, str | os.PathLike) and os.path.isfile(absolute(path))


def _can_be_opened(path: Path, storage_options: Mapping[str, Any] | None) -> bool:
    """Whether there is a place at all, whatever lies in it."""
    try:
        open_store(path, "r", storage_options)
    except UnsupportedError:
        return False
    except (ZvcoreError, ValueError, OSError):
        pass  # nothing to do with what can be read at all
    return True


def _verify_without_document(
    path: Path,
    error: MetadataError | UnsupportedError,
    storage_options: Mapping[str, Any] | None,
    verify: Callable[..., Report],
) -> Report:
    """There is data, but the document that describes it is missing, or cannot be read, or nobody says what there is."""
    unfinished = unfinished_around(path, storage_options)
    report = Report()
    if isinstance(error, UnlistedError):
        report.tell(Problem.of(error))
    # A conversion that has not ended may not have come to writing one.
    elif unfinished is None or isinstance(error, MetadataError):
        problem = Problem.of(error)
        # A file of no known format may be sound all the same, and so may what nothing that is installed opens; where a
        # folder's document should be, there is none.
        untold = _is_file(path) or not _can_be_opened(path, storage_options)
        if not (isinstance(error, UnsupportedError) and untold):
            problem = replace(problem, status="damaged", kind=What.DOCUMENT)
        report.tell(replace(problem, where=problem.where.removeprefix(f"{root_of(path)}/")))
        if isinstance(path, str | os.PathLike):
            several = datasets_in(os.fsdecode(path), storage_options)
            if isinstance(error, UnsupportedError) and several.separate:
                return verify_several(several, verify)
            if isinstance(error, UnsupportedError) and several.unmarked is not None:
                return verify_unmarked(several, verify)
            report.tell(*several.hint())
    _tell_unfinished(report, str(path), [unfinished])
    return report


def _check_manifest(
    report: Report, store: Store, only: str | None, fast: bool, threads: int | None, share: Share | None
) -> None:
    """Compare what lies here with the manifest that there is of it, if there is one."""
    around = manifest_around(store)
    if around is None:
        return
    root, inside = around
    against = Report()
    keep = None if share is None else share.has
    check_manifest(root, against, "/".join(filter(None, (inside, only))), fast=fast, threads=threads, keep=keep)
    folder = inside if store.file is None else inside.rpartition("/")[0]
    below = f"{folder}/" if folder else ""
    against.problems = [replace(one, where=one.where.removeprefix(below)) for one in against.problems]
    report.extend(against)


def _tell_unfinished(report: Report, root: str, found: Iterable[UnfinishedConversion | None]) -> None:
    """Report unfinished conversions: their missing chunks are not fill values. Their notes are not odd files."""
    report.only(lambda problem: problem.fatal or not _is_note(problem.where))
    here = f"{root.rstrip('/')}/"
    for one in {one.place: one for one in found if one is not None}.values():
        what = f"{one}; the same conversion, run again, resumes it"
        report.add(one.note.removeprefix(here), what, status="unfinished", kind=What.UNFINISHED)
        named = 0
        for left, units, arrays in one.missing:
            places = [f"{one.place.rstrip('/')}/{array}".rstrip("/") for array in arrays]
            # Of a conversion into a folder above, only what concerns this place is reported.
            near = [place for place in places if f"{place}/".startswith(here) or here.startswith(f"{place}/")]
            if near and (named := named + 1) <= _NAMED:
                where = ", ".join(f"{place}/".removeprefix(here).rstrip("/") for place in near)
                report.add(
                    where, f"{left} of {units} units are missing, and read as the fill value", status="unfinished"
                )
        if named > _NAMED:
            report.add(
                "", f"units are missing in {named - _NAMED} more arrays", status="unfinished", kind=What.UNFINISHED
            )


def _is_note(where: str) -> bool:
    folder, _, name = where.rpartition("/")
    return name in _NOTES or PARTS in (name, folder.rpartition("/")[2])


def _tasks(store: Store, only: str | None, share: Share | None, size: int) -> Iterator[list[str]]:
    """The keys of some objects each; of documents alone, none."""
    keys = keys_of(store, None if only is None else [only], passing_over)
    if share is not None:
        keys = filter(share.has, keys)
    if only is None and (share is None or share.number == 1):
        yield []
    while batch := list(itertools.islice(keys, size)):
        yield batch


def _verify_on(
    client: Any,
    tasks: Iterable[list[str]],
    store: Store,
    format: str,
    fast: bool,
    threads: int | None,
    watch: Callable[[int], None],
    options: dict[str, Any],
) -> Report:
    """The tasks one after the other, or on a cluster."""
    from zvcore.distributed import run_tasks

    report = Report()
    done: Iterable[tuple[list[str], Report]]
    if client is None:
        done = ((batch, _verify_some(batch, store, format, fast, threads, options)) for batch in tasks)
    else:
        rest = (format, fast, threads or 1, options, report.most)
        done = run_tasks(client, _verify_part, tasks, pickle.dumps(store), *rest)
    for batch, part in done:
        watch(len(batch))
        if batch:
            # Each task opens what its objects belong to, and counts that.
            for what in _COUNTED_ONCE:
                part.counts.pop(what, None)
        report.extend(part)
    report.problems.sort(key=lambda problem: (problem.where, problem.offset or 0))
    return report


def _verify_part(
    only: list[str], store: bytes, format: str, fast: bool, threads: int, options: dict[str, Any], most: int | None
) -> Report:
    with keeping(most):
        return _verify_some(only, pickle.loads(store), format, fast, threads, options)


def _verify_some(
    only: list[str], store: Store, format: str, fast: bool, threads: int | None, options: dict[str, Any]
) -> Report:
    report: Report = get_format(format).care().verify(store, only=only, fast=fast, threads=threads, **options)
    return report


def repair(
    path: Path,
    out: Path | None = None,
    *,
    threads: int | None = None,
    format: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
    fsync: bool | None = None,
    **options: Any,
) -> Report:
    """Leave out what `verify` finds broken, and report each loss.

    With `out`, a sound copy of everything is made there, and nothing is changed here. Without it, whatever is replaced
    or removed is kept beside its place with `.bak` behind its name. What cannot be proved good is left out.
    What a power cut has cut short first gets its version before back, if it was written with `durability="late"`, the
    default.
    `fsync` is as in `zvcore.open`.
    """
    threads = thread_count(threads)
    here, there = shared_options(storage_options, path, path if out is None else out)
    store, found, only = find_one(path, "r" if out is not None else "r+", format, here)
    store = store.durable(fsync)
    refuse_unfinished(path, store, only, here, "repaired")
    if only is not None:
        if out is not None:
            raise UnsupportedError("a copy is made of whole datasets; give the path of the dataset", key=only)
        options["only"] = [only]
    target = None if out is None else store_at(out, "w", there, found.name).durable(fsync)
    # Before anything is given up: it may be there still.
    returned = [] if out is not None else store.put_back()
    report: Report = found.care().repair(store, target, threads=threads, **options)
    report.only(lambda problem: problem.fatal or not _is_note(problem.where))
    if returned:
        report.count("old versions put back", len(returned))
    if _log.tells:
        for loss in report.losses:
            _log.info("repaired %s: %s", store.root, loss)
        _log.info("repaired %s: %s", store.root, ", ".join(f"{n} {what}" for what, n in report.counts.items()))
    return report


def compact(
    path: Path,
    *,
    threads: int | None = None,
    format: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
    fsync: bool | None = None,
) -> Report:
    """Rewrite shards that hold dead bytes; the report counts the bytes that this saved.

    `fsync` is as in `zvcore.open`.
    """
    threads = thread_count(threads)
    store, found, only = find_one(path, "r+", format, storage_options)
    store = store.durable(fsync)
    report: Report = found.care().compact(store, threads=threads, only=None if only is None else [only])
    _log.info("compacted %s: %d bytes saved", store.root, report.counts.get("bytes saved", 0))
    return report


def inspect(
    path: Path,
    *,
    threads: int | None = None,
    format: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """What lies at a path: format, kind, shape, chunks, codecs, sizes on disk; members; the map of a shard.

    `threads` is how many objects are asked about at once; None: as suits the store.
    """
    threads = thread_count(threads)
    store, format_found, only = find(path, "r", format, storage_options)
    found = format_found.care().inspect(store, only=only, threads=threads)
    unfinished = unfinished_around(place_of(path, store), storage_options)
    if unfinished is not None:
        found["unfinished"] = unfinished.to_json()
    _mark_members(store, found)
    return found


def _mark_members(store: Store, found: dict[str, Any]) -> None:
    """Mark the members, too, that are the destination of an unfinished conversion."""
    below = [*_below("", found)]
    for (_, one), unfinished in zip(
        below, store.each(lambda item: unfinished_member(store, item[0]), below), strict=True
    ):
        if unfinished is not None:
            one["unfinished"] = unfinished.to_json()


def _below(place: str, found: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, one in found.get("members", {}).items():
        path = f"{place}{name}"
        yield path, one
        yield from _below(f"{path}/", one)


def find(
    path: Path, mode: str = "r", format: str | None = None, storage_options: Mapping[str, Any] | None = None
) -> tuple[Store, Format, str | None]:
    """(store, format, what within it): the dataset at a path, or the one around a path that leads into it."""
    given = None if format is None else get_format(format)
    if not isinstance(path, str | os.PathLike):
        opened = store_at(path, mode, storage_options)
        found = given or detect(opened)
        if found is None:
            raise nothing_known(opened)
        return opened, found, None
    text = os.fsdecode(path)
    store = _opened(text, mode, storage_options, format)
    if store is not None:
        found = given or detect(store)
        if found is not None:
            return store, found, None
        broken = unreadable(store)
        if broken is not None:
            raise broken
    broken = None
    here = text if "://" in text else absolute(text)
    for above, inside in places_above(here):
        around = _opened(above, mode, storage_options)
        if around is None:
            continue
        found = detect(around)
        broken = broken or (unreadable(around) if found is None else None)
        if found is not None:
            if not around.exists(inside) and not _has_objects(around, inside):
                break
            return around, found, inside
    unfinished = None if store is None else unfinished_at(store)
    if unfinished is not None:
        raise UnsupportedError(f"{unfinished}: nothing of it can be read yet", key=text)
    if store is None and "://" not in text and os.path.islink(text) and not os.path.exists(text):
        raise StoreError("this is a link that leads to nothing", key=text)
    if store is None and not ("://" not in text and os.path.exists(text)):
        raise NotFoundError("there is nothing here", key=text)
    if broken is not None:
        raise broken
    if store is None and os.path.isfile(text):
        raise unknown_file(text)
    raise _nothing_known(store or store_at(text, mode, storage_options))


def find_one(
    path: Path, mode: str = "r", format: str | None = None, storage_options: Mapping[str, Any] | None = None
) -> tuple[Store, Format, str | None]:
    """`find`, for what is done to one dataset at a time: of a folder of several, the error names each."""
    try:
        return find(path, mode, format, storage_options)
    except UnsupportedError as error:
        if not isinstance(path, str | os.PathLike) or isinstance(error, UnlistedError) or _is_file(path):
            raise
        several = datasets_in(os.fsdecode(path), storage_options)
        if not several.separate:
            raise
        names = [*several.names, *(one.path for one in several.nested)]
        named = ", ".join(names[:_NAMED]) + (", ..." if len(names) > _NAMED else "")
        text = f"this is a folder of several datasets, each of which is looked after by itself: {named}"
        told = SeveralDatasetsError(text, key=str(path))
        below = ((one.path.removeprefix(several.path.rstrip("/") + "/"), one) for one in several.nested)
        told.names = [*several.names, *(f"{folder}/{name}" for folder, one in below for name in one.names)]
        raise told from None


def _nothing_known(store: Store) -> ZvcoreError:
    """The error for a place where no document is found. What does not tell what it has may have data without one."""
    try:
        names = itertools.chain(*store.list_dir())
    except UnlistedError:
        error = nothing_known(store)
        told = isinstance(error, UnsupportedError)
        return UnlistedError(error.message, key=error.key, found=error.found) if told else error
    return nothing_known(store, [*names])


def _has_objects(store: Store, folder: str) -> bool:
    try:
        return next(store.list(folder), None) is not None
    except UnlistedError:
        return False


def _opened(text: str, mode: str, storage_options: Mapping[str, Any] | None, format: str | None = None) -> Store | None:
    """The store there; None if there is none, or if it is empty."""
    try:
        store = store_at(text, mode, storage_options, format)
    except NotFoundError:
        return None
    except UnsupportedError:
        if "://" in text or not os.path.exists(text):
            raise
        return None  # a file within a dataset
    try:
        folders, objects = store.list_dir()
    except UnlistedError:
        return store  # what can be read there says whether there is something
    return store if folders or objects else None
