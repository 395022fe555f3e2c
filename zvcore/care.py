"""Looking after data, whatever its format: is it sound, what can be saved, what is dead weight, what is there at all.

A format package offers `verify(store, only=, fast=, threads=, watch=)`, `repair(store, out, only=, threads=)`,
`compact(store, only=, threads=)` and `inspect(store, only=)`. The store is rooted at the dataset; `only` has the keys
of objects in it, or of folders, when not the whole is meant (for `inspect`, one key); an empty one: the documents.
"""

from __future__ import annotations

import itertools
import os
import pickle
from typing import TYPE_CHECKING, Any

from zvcore.errors import NotFoundError, UnsupportedError, ZvcoreError
from zvcore.opening import detect, package
from zvcore.progress import shown
from zvcore.report import Problem, Report
from zvcore.stores import Store, open_store
from zvcore.stores.choosing import keys_of
from zvcore.stores.opening import shared_options

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from zvcore.opening import Path

__all__ = ["compact", "find", "inspect", "repair", "verify"]

# How far above a file its dataset is looked for.
_DEPTH = 64
# How many objects one task on a cluster looks at.
_OBJECTS_PER_TASK = 16
_COUNTED_ONCE = ("arrays", "groups", "datasets", "scales")


def verify(
    path: Path,
    fast: bool = False,
    threads: int | None = None,
    client: Any = None,
    *,
    format: str | None = None,
    progress: bool | Callable[[int, int], Any] = False,
    storage_options: Mapping[str, Any] | None = None,
    **options: Any,
) -> Report:
    """Look at all of an array, a group, a volume, a Zarr Vectors store, or one file of these.

    fast             do not decode chunks: check structure, checksums, and the sizes that are known
    client           a dask.distributed `Client`: its workers look, each at some objects, with one thread unless
                     `threads` says more
    format           as in `zvcore.open`; found out when it is not given
    progress         True for a bar (on a terminal), or a function that is called with (objects looked at, of how many)
    storage_options  for object stores, as in `zvcore.open`
    options          what only this format has, such as `spec=` for bare sharded stores of precomputed
    """
    try:
        store, format, only = find(path, "r", format, storage_options)
    except UnsupportedError as error:
        # Data without the document that describes it.
        return Report([Problem.of(error)])
    meant = None if only is None else [only]
    with shown(progress, keys_of(store, meant), "verifying", "object") as watch:
        if client is not None:
            return _verify_on(client, store, format, only, fast, threads or 1, watch, options)
        if meant is not None:
            options["only"] = meant
        report: Report = package(format).verify(store, fast=fast, threads=threads, watch=watch, **options)
    report.watch = None
    return report


def _verify_on(
    client: Any,
    store: Store,
    format: str,
    only: str | None,
    fast: bool,
    threads: int,
    watch: Callable[[int], None],
    options: dict[str, Any],
) -> Report:
    """Documents are one task, and every few objects another."""
    from zvcore.distributed import run_tasks

    keys = keys_of(store, None if only is None else [only])
    batches = iter(lambda: list(itertools.islice(keys, _OBJECTS_PER_TASK)), [])
    tasks: Iterable[list[str]] = batches if only is not None else itertools.chain([[]], batches)
    report = Report()
    for batch, part in run_tasks(client, _verify_part, tasks, pickle.dumps(store), format, fast, threads, options):
        watch(len(batch))
        if batch:
            # Each task opens what its objects belong to, and counts that.
            for what in _COUNTED_ONCE:
                part.counts.pop(what, None)
        report.extend(part)
    report.problems.sort(key=lambda problem: (problem.where, problem.offset or 0))
    return report


def _verify_part(
    only: list[str], store: bytes, format: str, fast: bool, threads: int, options: dict[str, Any]
) -> Report:
    report: Report = package(format).verify(pickle.loads(store), only=only, fast=fast, threads=threads, **options)
    return report


def repair(
    path: Path,
    out: Path | None = None,
    *,
    threads: int | None = None,
    format: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
    **options: Any,
) -> Report:
    """Leave out what `verify` finds to be broken, and tell each loss.

    With `out`, a sound copy of everything is made there and nothing is changed here. Without, what is replaced or taken
    out stays beside it, `.bak` behind its name. Nothing is guessed: what is not proved good is left out.
    """
    here, there = shared_options(storage_options, path, path if out is None else out)
    store, format, only = find(path, "r" if out is not None else "r+", format, here)
    if only is not None:
        if out is not None:
            raise UnsupportedError("a copy is made of whole datasets; give the path of the dataset", key=only)
        options["only"] = [only]
    target = None if out is None else open_store(out, "w", there)
    report: Report = package(format).repair(store, target, threads=threads, **options)
    return report


def compact(
    path: Path,
    *,
    threads: int | None = None,
    format: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Report:
    """Write shards anew that hold bytes which belong to nothing; the report counts the bytes that this saved."""
    store, format, only = find(path, "r+", format, storage_options)
    report: Report = package(format).compact(store, threads=threads, only=None if only is None else [only])
    return report


def inspect(
    path: Path, *, format: str | None = None, storage_options: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """What lies at a path: format, kind, shape, chunks, codecs, sizes on disk; members; the map of a shard."""
    store, format, only = find(path, "r", format, storage_options)
    found: dict[str, Any] = package(format).inspect(store, **({} if only is None else {"only": only}))
    return found


def find(
    path: Path, mode: str = "r", format: str | None = None, storage_options: Mapping[str, Any] | None = None
) -> tuple[Store, str, str | None]:
    """(store, format, what within it): the dataset at a path, or the one around a path that leads into it."""
    if isinstance(path, Store):
        opened = open_store(path, mode, storage_options)
        found = format or detect(opened)
        if found is None:
            raise _unknown(opened.root)
        return opened, found, None
    text = os.fsdecode(path)
    store = _opened(text, mode, storage_options)
    if store is not None and (format is not None or (found := detect(store)) is not None):
        return store, format or found, None  # type: ignore[return-value]
    here = text if "://" in text else os.path.abspath(text)
    parts = here.rstrip("/").split("/")
    for depth in range(1, min(_DEPTH, len(parts) - 1)):
        above, inside = "/".join(parts[:-depth]), "/".join(parts[-depth:])
        if above.endswith(":/") or not above:
            break
        around = _opened(above, mode, storage_options)
        if around is None:
            continue
        found = detect(around)
        if found is not None:
            if not around.exists(inside) and next(around.list(inside), None) is None:
                break
            return around, found, inside
    if store is None and not ("://" not in text and os.path.exists(text)):
        raise NotFoundError("there is nothing here", key=text)
    raise _unknown(text)


def _opened(text: str, mode: str, storage_options: Mapping[str, Any] | None) -> Store | None:
    """The store there, None if it is none or has nothing."""
    if "://" not in text and not os.path.isdir(text):
        return None
    try:
        store = open_store(text, mode, storage_options)
    except NotFoundError:
        return None
    folders, objects = store.list_dir()
    return store if folders or objects else None


def _unknown(where: str) -> ZvcoreError:
    return UnsupportedError(
        "no format that zvcore knows lies here, and none around it (an N5 group without attributes can be given "
        "format='n5')",
        key=where,
    )
