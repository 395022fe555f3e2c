"""Describing what is at a place: an array, one of its objects, or a group with all its members."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from zvcore.care.refusals import refusal
from zvcore.care.walking import DEEPEST_GROUP
from zvcore.errors import MetadataError, NotFoundError, UnsupportedError, ZvcoreError
from zvcore.format import get_format
from zvcore.report import Problem
from zvcore.stores.base import UnlistedError
from zvcore.stores.request_threads import side_by_side

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from zvcore.array import Array
    from zvcore.stores import Store

__all__ = ["Inspector", "sizes_of", "stored_size", "totals", "unread"]

# How many keys are held at once.
_AT_ONCE = 4096

AnyArray = TypeVar("AnyArray", bound="Array")


class Inspector(Generic[AnyArray]):
    """How a format describes what it has.

    array    the array at the root of a store, or what is said of the group there
    members  the members of a group that are arrays or groups
    copied   what a group has copies of the documents of, and
    levels   what its attributes name as levels of an image, for stores that do not list
    about    what is said of an array
    within   what is said of one of its objects
    threads  how many objects are asked about at once; None: as suits the store
    """

    format: str

    def __init__(self, threads: int | None = None) -> None:
        self.threads = threads

    def array(self, store: Store) -> AnyArray | dict[str, Any]:
        raise NotImplementedError

    def members(self, store: Store) -> Iterable[str]:
        raise NotImplementedError

    def copied(self, store: Store) -> Iterable[str]:
        """The paths of arrays and groups below a group of which it has copies of the documents."""
        return ()

    def levels(self, store: Store, group: Mapping[str, Any]) -> Iterable[str]:
        """The paths of the levels of which the attributes of a group tell; `group` is what was found of it."""
        try:
            return [path for path, _ in get_format(self.format).described_levels(group.get("attributes", {}))]
        except (MetadataError, AttributeError, TypeError, ValueError):
            return ()  # `zvcore verify` says what is wrong with it

    def about(self, array: AnyArray, member: bool) -> dict[str, Any]:
        raise NotImplementedError

    def within(self, array: AnyArray, key: str) -> dict[str, Any]:
        raise NotImplementedError

    def inspect(
        self, store: Store, only: str | None = None, depth: int = 0, told: Collection[str] = ()
    ) -> dict[str, Any]:
        """Describe what is at the root of a store, or the object `only` of an array there or below.

        Of a group in a store that does not list, the members are those of which its documents, or `told` those of a
        group above, tell; and it is said that there may be more, and where the copies are broken, that.
        """
        found = self.array(store)
        if not isinstance(found, dict):
            return self.about(found, depth > 0) if only is None else self.within(found, only)
        if only is not None:
            name, _, rest = only.partition("/")
            if not rest:
                raise NotFoundError("no array has this object", key=only)
            return self.inspect(store.child(name), rest, depth)
        if depth == DEEPEST_GROUP:
            raise UnsupportedError("groups in groups as deep as this are not described", expected=f"at most {depth}")
        answer: dict[str, Any] = {"format": self.format, "kind": "group", **found, "members": {}}
        try:
            members = {name: set[str]() for name in self.members(store)}
        except UnlistedError:
            answer["unlisted"] = True
            copied: Iterable[str] = ()
            try:
                copied = self.copied(store)
            except MetadataError as error:
                answer["error"] = str(error)
            members = _by_member(itertools.chain(told, copied, self.levels(store, found)))

        def described(name: str) -> dict[str, Any]:
            try:
                return self.inspect(store.child(name), None, depth + 1, members[name])
            except (ZvcoreError, OSError) as error:
                return unread(self.format, refusal(error))

        answer["members"].update(zip(members, store.each(described, [*members]), strict=True))
        return answer


def unread(format: str, error: ZvcoreError) -> dict[str, Any]:
    """What is told of something that this error keeps from being described."""
    kind = "broken" if Problem.of(error).status == "damaged" else "unsupported"
    return {"format": format, "kind": kind, "error": str(error)}


def _by_member(paths: Iterable[str]) -> dict[str, set[str]]:
    """Name -> what is told of below it, for each member of which these paths tell."""
    members: dict[str, set[str]] = {}
    for path in paths:
        name, _, rest = path.partition("/")
        if name:
            members.setdefault(name, set())
        if name and rest:
            members[name].add(rest)
    return dict(sorted(members.items()))


def totals(store: Store, keys: Iterable[str], threads: int | None = None) -> tuple[int, int]:
    """(how many objects these are, how many bytes they take)."""
    count = size = 0
    keys = iter(keys)
    while batch := list(itertools.islice(keys, _AT_ONCE)):
        sizes = store.sizes(batch) if threads is None else side_by_side(store.size, batch, threads)
        count += len(batch)
        size += sum(one or 0 for one in sizes)
    return count, size


def stored_size(array: Array, store: Store, keys: Iterable[str], threads: int | None = None) -> dict[str, Any]:
    """How many objects an array has, and how many bytes they take."""
    return sizes_of(array.nbytes, store, keys, threads)


def sizes_of(nbytes: int, store: Store, keys: Iterable[str], threads: int | None = None) -> dict[str, Any]:
    """Of so many bytes of values: in how many objects they lie, which take how many bytes.

    A web server that lists nothing does not tell that: then it is not said.
    """
    try:
        count, size = totals(store, keys, threads)
    except UnlistedError:
        return {"nbytes": nbytes}
    return {"nbytes": nbytes, "objects": count, "stored_bytes": size, "ratio": nbytes / size if size else None}
