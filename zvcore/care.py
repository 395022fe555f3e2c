"""Looking after data, whatever its format: is it sound, what can be saved, what is dead weight, what is there at all.

A format package offers `verify(store, only=, fast=, threads=)`, `repair(store, out, only=, threads=)`,
`compact(store, only=, threads=)` and `inspect(store, only=)`. The store is rooted at the dataset; `only` is the key of
an object in it, or of a folder, when the user's path leads into the dataset instead of to it.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from zvcore.errors import NotFoundError, UnsupportedError, ZvcoreError
from zvcore.opening import detect, package
from zvcore.report import Problem, Report
from zvcore.stores import Store, open_store

if TYPE_CHECKING:
    from zvcore.opening import Path

__all__ = ["compact", "find", "inspect", "repair", "verify"]

# How far above a file its dataset is looked for.
_DEPTH = 64


def verify(
    path: Path, fast: bool = False, threads: int | None = None, *, format: str | None = None, **options: Any
) -> Report:
    """Look at all of an array, a group, a volume, a Zarr Vectors store, or one file of these.

    fast      do not decode chunks: check structure, checksums, and the sizes that are known
    format    as in `zvcore.open`; found out when it is not given
    options   what only this format has, such as `spec=` for bare sharded stores of precomputed
    """
    try:
        store, format, only = find(path, "r", format)
    except UnsupportedError as error:
        # Data without the document that describes it.
        return Report([Problem.of(error)])
    if only is not None:
        options["only"] = only
    report: Report = package(format).verify(store, fast=fast, threads=threads, **options)
    return report


def repair(
    path: Path, out: Path | None = None, *, threads: int | None = None, format: str | None = None, **options: Any
) -> Report:
    """Leave out what `verify` finds to be broken, and tell each loss.

    With `out`, a sound copy of everything is made there and nothing is changed here. Without, what is replaced or taken
    out stays beside it, `.bak` behind its name. Nothing is guessed: what is not proved good is left out.
    """
    store, format, only = find(path, "r" if out is not None else "r+", format)
    if only is not None:
        if out is not None:
            raise UnsupportedError("a copy is made of whole datasets; give the path of the dataset", key=only)
        options["only"] = only
    target = None if out is None else open_store(out, "w")
    report: Report = package(format).repair(store, target, threads=threads, **options)
    return report


def compact(path: Path, *, threads: int | None = None, format: str | None = None) -> Report:
    """Write shards anew that hold bytes which belong to nothing; the report counts the bytes that this saved."""
    store, format, only = find(path, "r+", format)
    report: Report = package(format).compact(store, threads=threads, **({} if only is None else {"only": only}))
    return report


def inspect(path: Path, *, format: str | None = None) -> dict[str, Any]:
    """What lies at a path: format, kind, shape, chunks, codecs, sizes on disk; members; the map of a shard."""
    store, format, only = find(path, "r", format)
    found: dict[str, Any] = package(format).inspect(store, **({} if only is None else {"only": only}))
    return found


def find(path: Path, mode: str = "r", format: str | None = None) -> tuple[Store, str, str | None]:
    """(store, format, what within it): the dataset at a path, or the one around a path that leads into it."""
    if isinstance(path, Store):
        found = format or detect(path)
        if found is None:
            raise _unknown(path.root)
        return path, found, None
    text = os.fsdecode(path)
    store = _opened(text, mode)
    if store is not None and (format is not None or (found := detect(store)) is not None):
        return store, format or found, None  # type: ignore[return-value]
    here = text if "://" in text else os.path.abspath(text)
    parts = here.rstrip("/").split("/")
    for depth in range(1, min(_DEPTH, len(parts) - 1)):
        above, inside = "/".join(parts[:-depth]), "/".join(parts[-depth:])
        if above.endswith(":/") or not above:
            break
        around = _opened(above, mode)
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


def _opened(text: str, mode: str) -> Store | None:
    """The store there, None if it is none or has nothing."""
    if "://" not in text and not os.path.isdir(text):
        return None
    try:
        store = open_store(text, mode)
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
