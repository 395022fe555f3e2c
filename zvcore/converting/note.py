"""The note that a conversion keeps at the root of its destination until all is done: whether it is there, what it says.

What has such a note is not what it will be, whatever its format: chunks that are missing there are not fill values.
"""

from __future__ import annotations

import itertools
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from zvcore import documents
from zvcore.converting.part_notes import waiting_for
from zvcore.converting.spans import checked_spans, checked_units
from zvcore.errors import InvalidKeyError, MetadataError, ZvcoreError
from zvcore.stores import Store, open_store
from zvcore.stores.opening import above_in_chain, archive_in
from zvcore.stores.presence import is_there, real_path, surely_nothing_above

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

__all__ = [
    "FINISHED",
    "KEY",
    "VERSION",
    "UnfinishedConversion",
    "note_for_others",
    "places_above",
    "read_note",
    "unfinished_above",
    "unfinished_around",
    "unfinished_at",
    "unfinished_member",
]

KEY = ".zvcore-convert.json"
# What a finished conversion leaves in the folder of its first array.
FINISHED = ".zvcore-converted.json"
VERSION = 1
# Larger than the note of any conversion: one span takes some 20 bytes, and units come nearly in order.
_LARGEST = 256 << 20
# What is told to others of a note that cannot be understood: nothing that they could understand.
_UNREADABLE: dict[str, Any] = {"version": VERSION, "done": None}
# How far above a place the destination that it belongs to is looked for.
_DEPTH = 64


@dataclass(frozen=True)
class UnfinishedConversion:
    """A conversion that was interrupted, has failed, or still runs.

    place    the destination: its path or URL
    done     how many units of its work are done,
    units    of how many; None: that is not known (yet)
    failed   the error that ended it; None: none did
    missing  (units that are missing, of how many, the arrays that they write), of each step that is not complete
    damaged  the note itself cannot be understood
    parts    what there is to say of the parts that are missing, where several processes do it together
    """

    place: str
    done: int = 0
    units: int | None = None
    failed: str | None = None
    missing: tuple[tuple[int, int, tuple[str, ...]], ...] = ()
    damaged: bool = False
    parts: str | None = None

    @property
    def note(self) -> str:
        """Where the note lies."""
        return f"{self.place.rstrip('/')}/{KEY}"

    def to_json(self) -> dict[str, Any]:
        return {
            "what": str(self), "done": self.done, "units": self.units, "failed": self.failed,
            "parts": self.parts,
        }  # fmt: skip

    def __str__(self) -> str:
        if self.damaged:
            return "an unfinished conversion, whose note cannot be read"
        text = f"an unfinished conversion: {self.done} of {'?' if self.units is None else self.units} units"
        told = [f", failed: {self.failed}"] * (self.failed is not None) + [f"; {self.parts}"] * (self.parts is not None)
        return "".join([text, *told])


def read_note(store: Store) -> dict[str, Any] | None:
    """What the conversion into this store that has not ended has noted, or None."""
    document = documents.read(store, KEY)
    if document is not None and document.get("version") != VERSION:
        raise MetadataError("the journal of a conversion by another version", key=KEY, expected=VERSION)
    return document


def unfinished_at(store: Store) -> UnfinishedConversion | None:
    """The unfinished conversion into the root of this store, if there is one. One look, where there is none."""
    try:
        size = _size_of_note(store)
        if size is None:
            return None
        if size > _LARGEST:
            return UnfinishedConversion(store.root, damaged=True)
        document = read_note(store)
        return None if document is None else _understood(store.root, *waiting_for(store, document))
    except (ZvcoreError, OSError):
        return UnfinishedConversion(store.root, damaged=True)


def _size_of_note(store: Store) -> int | None:
    """How many bytes the note has; None if there is none. Where even the question is refused, none of ours is there;
    where a disk fails, nobody knows.
    """
    try:
        return store.size(KEY)
    except (ZvcoreError, PermissionError):
        return None


def note_for_others(store: Store) -> dict[str, Any] | None:
    """The note at the root of this store as people elsewhere may read it, or None if there is none.

    It says how much is done, and not from where, with which options, or why it failed.
    """
    try:
        size = _size_of_note(store)
        if size is None:
            return None
        document = read_note(store) if size <= _LARGEST else _UNREADABLE
        if document is None:
            return None
        whole, _ = waiting_for(store, document)
        units = None if whole.get("units") is None else checked_units(whole["units"], KEY)
        return {
            "version": VERSION,
            "units": None if units is None else {step: {"count": n, "arrays": all} for step, (n, all) in units.items()},
            "done": checked_spans(whole.get("done"), KEY),
        }
    except (ZvcoreError, OSError):
        return _UNREADABLE


def unfinished_member(store: Store, path: str) -> UnfinishedConversion | None:
    """The unfinished conversion into this member of a store, if there is one."""
    try:
        return unfinished_at(store.child(path))
    except InvalidKeyError:
        return None  # a document names a member that no object can have as its name


def unfinished_around(
    path: str | os.PathLike[str] | Store | Any, storage_options: Mapping[str, Any] | None = None
) -> UnfinishedConversion | None:
    """The unfinished conversion that a place is the destination of, or lies in the destination of."""
    if not isinstance(path, str | os.PathLike):
        path = open_store(path)
        if path.local_root is None:
            with path.looking_at((), around=(KEY,)):
                return unfinished_at(path) or unfinished_above(path)
        path = os.fsdecode(path.local_root)
    here = os.fsdecode(path)
    store = _far_away(here, storage_options)
    if store is not None:
        with store.looking_at((), around=(KEY,)):
            return unfinished_at(store) or unfinished_above(store)
    if "://" not in here:
        # What a link leads to belongs to the conversion that made it.
        here = real_path(here)
    return _first_unfinished(itertools.chain([here], (above for above, _ in places_above(here))), storage_options)


def _far_away(here: str, storage_options: Mapping[str, Any] | None) -> Store | None:
    """The store there, if it is one that is asked for several notes at once."""
    if "://" not in here or above_in_chain(here) is not None or archive_in(here) is not None:
        return None
    try:
        store = open_store(here, "r", storage_options)
    except (ZvcoreError, ValueError, OSError):
        return None
    return store if store.remote else None


def unfinished_above(store: Store) -> UnfinishedConversion | None:
    """The unfinished conversion whose destination a folder lies in."""
    if store.local_root is None:
        return next((found for found in map(unfinished_at, store.above()) if found is not None), None)
    here = real_path(os.fsdecode(store.local_root))
    if archive_in(here) is None and surely_nothing_above(here, KEY):
        return None
    return _first_unfinished((above for above, _ in places_above(here)), None)


def _first_unfinished(places: Iterable[str], storage_options: Mapping[str, Any] | None) -> UnfinishedConversion | None:
    for place in places:
        try:
            if _is_plain(place) and not is_there(os.path.join(place, KEY)):
                continue
        except PermissionError:
            continue
        except OSError:
            return UnfinishedConversion(place, damaged=True)
        try:
            found = unfinished_at(open_store(place, "r", storage_options))
        except (ZvcoreError, ValueError, OSError):
            continue  # a file, or nothing; or above it what no address can lead to
        if found is not None:
            return found
    return None


def _is_plain(place: str) -> bool:
    """Whether a place is in a folder of this machine, and not in an archive there."""
    return "://" not in place and archive_in(place) is None


def places_above(here: str) -> Iterator[tuple[str, str]]:
    """(a folder above an absolute path or URL, what the path is called in it), the nearest first."""
    if above_in_chain(here) is not None:
        yield from _places_above_in_chain(here)
        return
    parts = here.rstrip("/").split("/")
    for depth in range(1, min(_DEPTH, len(parts) - 1)):
        above = "/".join(parts[:-depth])
        if above.endswith((":/", "://")) or not above:
            return
        yield above, "/".join(parts[-depth:])


def _places_above_in_chain(here: str) -> Iterator[tuple[str, str]]:
    names: list[str] = []
    while len(names) < _DEPTH and (chained := above_in_chain(here)) is not None and chained[1]:
        here, name = chained
        names.insert(0, name)
        yield here, "/".join(names)


def _understood(place: str, document: Mapping[str, Any], parts: str | None) -> UnfinishedConversion:
    done = {
        step: sum(stop - first for first, stop in spans)
        for step, spans in checked_spans(document.get("done"), KEY).items()
    }
    failed = document.get("failed")
    said = failed if isinstance(failed, str) else None
    planned = document.get("units")
    if planned is None:
        return UnfinishedConversion(place, sum(done.values()), failed=said, parts=parts)
    units = 0
    missing = []
    for step, (count, arrays) in checked_units(planned, KEY).items():
        units += count
        left = count - min(done.get(step, 0), count)
        if left:
            missing.append((left, count, arrays))
    return UnfinishedConversion(
        place, units - sum(left for left, _, _ in missing), units, said, tuple(missing), parts=parts
    )
