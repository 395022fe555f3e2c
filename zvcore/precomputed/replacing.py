"""Replacing a set of meshes or skeletons: no file of the old set stays, however the old and the new are stored.

Nor is an object of the new set read as the old document says, which may give other coordinates: while files are
replaced, a document lies here that nobody takes for one of a set. It has those of the sets whose files there may be.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING

from zvcore.errors import ConflictError, UnsupportedError, ZvcoreError
from zvcore.precomputed.kinds import BEING_REPLACED, LEGACY_MESHES, MESHES, SKELETONS, kind_of
from zvcore.precomputed.legacy_meshes import MANIFEST_NAME
from zvcore.precomputed.metadata import INFO, info_bytes, read_info, write_info
from zvcore.precomputed.shard_reader import ShardReader
from zvcore.precomputed.sharding_spec import ShardingSpec
from zvcore.stores.indexes import index_cache

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from typing import Any

    from zvcore.stores import Store
    from zvcore.stores.base import Stamp

__all__ = [
    "Replacing",
    "left_over",
    "names_of_shards",
    "names_there",
    "put_own_info",
    "refuse_another_kind",
    "take_back",
]

# Names of the files of an object, and of the single fragment that zvcore gives a legacy mesh.
_OBJECT = re.compile(r"(0|[1-9][0-9]{0,19})(\.index)?(\.gz)?")
_FRAGMENT = re.compile(r"(0|[1-9][0-9]{0,19}):0:0(\.gz)?")


# What a writer that was killed leaves without the document that it writes last.
_REMAINS = (
    ("annotations", re.compile("by_id|spatial[0-9]+")),
    ("meshes, skeletons or values by id", re.compile(r"[0-9a-f]{1,16}\.shard")),
    ("legacy meshes", re.compile(r"(0|[1-9][0-9]{0,19}):0(\.gz)?")),
)


def left_over(names: Iterable[str]) -> str | None:
    """Of which set these may be the files, in words, and what can be done about it; None for others."""
    there = [*names]
    for what, name in _REMAINS:
        if any(map(name.fullmatch, there)):
            return f"these may be {what} of a writer that was killed: the same, with overwrite=True, makes all anew"
    return None


class Replacing:
    """The set that lies where another is to be written; ConflictError if there is one that may not be replaced.

    what   the new set is one of these
    files  the names of the files of the old one
    """

    def __init__(self, store: Store, what: str, overwrite: bool) -> None:
        self._store = store
        self._documents: list[dict[str, Any]] = []
        self._begun = False
        self.files: set[str] = set()
        self._stamp = store.stamp(INFO)
        if self._stamp is None:
            # Objects in files of their own would become objects of the new set.
            self.files = {name for name in store.list_dir()[1] if _is_of_object(name)}
            if self.files and not overwrite:
                told = f"files of {what} are here, and no info, as of a writer that was killed"
                raise ConflictError(f"{told}; overwrite=True replaces them", key=f"{store.root}/{min(self.files)}")
            return
        where = f"{store.root}/{INFO}"
        if not overwrite:
            raise ConflictError(f"there are {what} already; overwrite=True replaces them", key=where)
        try:
            info = read_info(store)
        except ZvcoreError:
            return  # a broken document does not tell what it described
        given = info.get("of") if info.get("@type") == BEING_REPLACED else [info]
        self._documents = [one for one in given if isinstance(one, dict)] if isinstance(given, list) else []
        names = set(store.list_dir()[1])
        for document in self._documents:
            refuse_another_kind(document, (MESHES, LEGACY_MESHES, SKELETONS), where)
            self.files |= _files_of(document, names, where)

    def begin(self, document: dict[str, Any], apart: bool = False) -> None:
        """Before the first file is replaced by one of the set that this document will describe.

        apart  an object has several files, which mean something only together
        """
        if self._begun or not self._documents or (self._documents == [document] and not apart):
            return
        self._begun = True
        others = [one for one in self._documents if one != document]
        self._put({"@type": BEING_REPLACED, "of": [*others, document]})

    def end(self, document: dict[str, Any], new: Collection[str]) -> None:
        """All files of the new set are there."""
        self.begin(document)
        # Before the document comes that would have them be of the new set.
        _remove_files(self._store, self.files.difference(new))
        self._put(document)

    def _put(self, document: dict[str, Any]) -> None:
        """Write the document, unless somebody else has done so meanwhile, whom no lock has kept from it."""
        put_own_info(self._store, document, self._stamp)
        if not self._store.can_lock:
            self._stamp = self._store.stamp(INFO)


def put_own_info(store: Store, document: dict[str, Any], stamp: Stamp | None) -> None:
    """Write the document of a set into the place of what was there when this set was begun."""
    if store.can_lock:
        write_info(store, document)
        return
    try:
        store.put_if_unchanged(INFO, info_bytes(document), stamp)
    except ConflictError as error:
        raise ConflictError(
            "somebody else has written a set here at the same time: its files and these are mixed; write the one that "
            "is wanted again, with overwrite=True",
            key=f"{store.root}/{INFO}",
        ) from error


def _is_of_object(name: str) -> bool:
    return any(pattern.fullmatch(name) for pattern in (_OBJECT, _FRAGMENT, MANIFEST_NAME))


def _files_of(info: dict[str, Any], names: set[str], where: str) -> set[str]:
    """Which ones of the files here are of the set that a document describes."""
    try:
        spec = None if info.get("sharding") is None else ShardingSpec.from_json(info["sharding"])
    except ZvcoreError:
        return set()
    if kind_of(info, where) not in (MESHES, SKELETONS):
        return {name for name in names if MANIFEST_NAME.fullmatch(name) or _FRAGMENT.fullmatch(name)}
    if spec is None:
        return {name for name in names if _OBJECT.fullmatch(name)}
    return {name for name in names if spec.shard_number(name) is not None}


def refuse_another_kind(info: dict[str, Any], kinds: Iterable[str], where: str) -> None:
    """ConflictError if the document is of something else, which `overwrite` is not meant to destroy."""
    if "@type" not in info and "scales" not in info:
        return  # no volume: folders of legacy meshes need not say what they are
    try:
        kind = kind_of(info, where)
    except UnsupportedError:
        kind = repr(info["@type"])
    if kind not in kinds:
        raise ConflictError(
            "what lies here is something else, and is not replaced", key=where, expected=" or ".join(kinds), found=kind
        )


def names_of_shards(store: Store, spec: ShardingSpec) -> set[str]:
    """The names of the shards of a new set that are there."""
    return {spec.shard_name(number) for number in ShardReader(store, spec).shards()}


def _remove_files(store: Store, names: Iterable[str]) -> None:
    """Remove files of a set that is no longer wanted."""
    wanted = sorted(names)
    store.each(store.delete, wanted)
    for name in wanted:
        index_cache().invalidate(store, name)


def names_there(store: Store) -> set[str]:
    """The names of all files here before anything is written, for `take_back`."""
    return set(store.list_dir()[1])


def take_back(store: Store, new: Iterable[str], there: Collection[str]) -> None:
    """After a failure: remove what was written, but for what took the place of something, under this name or packed.

    Without a document it would be found among the objects of the next call, whatever that writes.
    """
    # What failed is to be told, not that this does too.
    with suppress(ZvcoreError, OSError):
        _remove_files(store, {name for name in new if name not in there and f"{name}.gz" not in there})
