"""What `RemoteStore` asks of a library that speaks to object stores."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, NamedTuple

from zvcore.errors import CorruptDataError, StoreError, ZvcoreError, without_credentials
from zvcore.stores.base import Facts
from zvcore.stores.writing import ANYTHING

if TYPE_CHECKING:
    import builtins
    from collections.abc import Iterable, Sequence

    from typing_extensions import Buffer

    from zvcore.stores.base import Span
    from zvcore.stores.writing import Anything

__all__ = [
    "Arrived",
    "ChangedError",
    "Client",
    "Found",
    "Version",
    "are_same",
    "check_length",
    "facts_of",
    "nameless",
    "within",
]


class Version(NamedTuple):
    """What tells versions of an object apart, as far as the server says it; and the size, which is then known too.

    e_tag     the entity tag as it stands in the header
    number    what stores that number their versions give
    modified  in seconds; where it says more than the others
    """

    e_tag: str | None
    number: str | None
    modified: float | None
    size: int

    @property
    def is_named(self) -> bool:
        """Whether it tells the version: a look at an object may have told no more than its size."""
        return self.number != _NAMELESS


_NAMELESS = "\0"


def nameless(size: int) -> Version:
    return Version(None, _NAMELESS, None, size)


class Found(NamedTuple):
    """Bytes and the version of the object that they belong to."""

    data: memoryview
    version: Version


class Arrived(NamedTuple):
    """What the server said of an object, as it said it; all of it or a part, or that there is none; its size."""

    head: Any
    data: memoryview | None
    size: int


class ChangedError(ZvcoreError):
    """The object is not of the version that a request was meant for."""


class Client(ABC):
    """Requests about objects by their full path. They may come from many threads at once.

    Failures raise StoreError, after a reasonable number of retries, and nothing else except as described below.
    """

    # Whether `put` with a condition is one step for the server, so that of two writers one learns of the other.
    atomic: bool = True

    # Whether no two versions of an object have the same tag: those of web servers may consist of a second and a size.
    unique_tags: bool = True
    # Whether it answers some questions by itself: how long answers take says nothing of the place then.
    answers_itself: bool = False

    # How many objects `delete` should be given at a time.
    deletes_at_once: int = 1000

    @abstractmethod
    def get(self, path: str, start: int, stop: int | None, version: Version | None) -> Found | None:
        """The bytes from `start` up to `stop` or the end; a negative `start` counts from the end and has no `stop`.

        Ranges may reach beyond the end. ChangedError if the object has another version; None if there is none.
        """

    async def aget(self, path: str, start: int, stop: int | None) -> bytes | memoryview | None:
        """`get` of whatever version, without a thread that waits, if the library can do that."""
        from asyncio import to_thread

        found = await to_thread(self.get, path, start, stop, None)
        return None if found is None else found.data

    async def aput(self, path: str, data: bytes) -> None:
        """`put` without a condition, in the same way."""
        from asyncio import to_thread

        await to_thread(self.put, path, [data], ANYTHING)

    def get_each(
        self, wanted: Sequence[tuple[str, int, int, Version]], at_once: int
    ) -> builtins.list[memoryview | None] | None:
        """`get` for each (path, start, stop, version), all ranges not empty and within the object, `at_once` of them at
        the same time. None for what did not come, for whatever reason: then `get` says why.

        None where the library has no such way.
        """
        return None

    def get_objects(
        self, paths: Sequence[str], at_once: int, spans: Sequence[Span] | None = None
    ) -> builtins.list[Arrived | None] | None:
        """All of each object, or this (start, length) of it, `at_once` of them at the same time. None for what did not
        come, for whatever reason: then `get` says why.

        None where the library has no such way.
        """
        return None

    def get_data(self, paths: Sequence[str], at_once: int) -> builtins.list[Arrived | None] | None:
        """`get_objects` of all of each, for those who do not ask `version_of` what came."""
        return self.get_objects(paths, at_once)

    def look_at(
        self, paths: Sequence[str], spans: Sequence[Span] | None = None
    ) -> builtins.list[Arrived | None] | None:
        """`get_objects` of a few, whose versions may be `nameless`: for those who want to know what there is."""
        return self.get_objects(paths, len(paths), spans)

    def gives_parts(self) -> bool:
        """Whether a part of an object costs no more requests than all of it."""
        return False

    def version_of(self, arrived: Arrived) -> Version:
        """The version of an object that `get_objects` gave."""
        raise NotImplementedError

    def get_together(
        self, path: str, ranges: Sequence[tuple[int, int]], version: Version
    ) -> builtins.list[memoryview] | None:
        """`get` for several (start, stop) of a version that is the object's if it was so before and is so afterwards.

        None where the library has nothing that is faster than one request after the other, or that did not work.
        """
        return None

    @abstractmethod
    def head(self, path: str) -> Version | None: ...

    def heads(self, paths: Sequence[str], at_once: int) -> dict[str, Version | None]:
        """What `head` gives of these objects, `at_once` of them asked for at the same time; without those of which
        nothing came, for whatever reason: then `head` says why.
        """
        return {}

    @abstractmethod
    def put(self, path: str, parts: Sequence[Buffer], condition: Version | Anything | None) -> None:
        """Store the parts one after the other. ChangedError if a condition is given and does not hold."""

    def put_each(
        self, wanted: Sequence[tuple[str, Sequence[Buffer], Version | Anything | None]], at_once: int
    ) -> builtins.list[Version | bool | None] | None:
        """`put` for each (path, parts, condition), `at_once` of them at the same time: whether it was stored, and as
        what version, if that is told. None where that is not known: `put_after_all` finds out, and does it where it was
        not.

        None where the library has no such way.
        """
        return None

    def put_after_all(self, path: str, parts: Sequence[Buffer], condition: Version | Anything | None) -> None:
        """`put` of what may have been stored by `put_each`."""
        self.put(path, parts, condition)

    @abstractmethod
    def delete(self, paths: Iterable[str]) -> None:
        """Remove objects, whether they are there or not."""

    @abstractmethod
    def list(self, folder: str) -> builtins.list[str]:
        """The paths of all objects below a folder ("" or ending with a slash)."""

    def listed(self, folder: str) -> dict[str, Version | None]:
        """The same, with the version of each as far as lists tell it."""
        return dict.fromkeys(self.list(folder))

    @abstractmethod
    def list_dir(self, folder: str) -> tuple[builtins.list[str], builtins.list[str]]:
        """(paths of folders, paths of objects) directly below a folder."""

    def is_empty(self, folder: str) -> bool:
        """Whether no object lies below a folder."""
        return not any(self.list_dir(folder))

    def some(self, folder: str, most: int) -> builtins.list[str]:
        """The paths of some of the objects directly below a folder, found among about `most`; of all, where the library
        has no way to stop.
        """
        return self.list_dir(folder)[1][:most]

    def listed_after(self, path: str, folder: str, last: str, most: int) -> dict[str, Version] | None:
        """What a list tells of objects below a folder whose paths come behind this one, in order, up to `last` or to
        about so many; None where the service cannot begin to list in the middle.
        """
        return None

    @abstractmethod
    def __reduce__(self) -> tuple[Any, ...]: ...


def failure(error: Exception, key: str) -> StoreError:
    """What a library raised. Each has errors of its own, which need not be of any kind that Python has."""
    return StoreError(f"{type(error).__name__}: {first_line(error)}", key=key)


def first_line(error: BaseException) -> str:
    """What a library says went wrong, without what only its authors can read, and passwords in its addresses."""
    text = without_credentials(str(error)).strip().partition("\n")[0].strip()
    return text or type(error).__name__


def are_same(one: Any, other: Any) -> bool:
    """Whether two versions are one, where no two have the same tag: an answer to a write does not tell its time."""
    versions = isinstance(one, Version) and isinstance(other, Version)
    return versions and one.e_tag is not None and (one.e_tag, one.size) == (other.e_tag, other.size)


def facts_of(version: Version | None) -> Facts | None:
    """What a version tells of an object: a tag that looks like an MD5 passes for one."""
    if version is None:
        return None
    tag = "" if version.e_tag is None else version.e_tag.strip('"').lower()
    return Facts(version.size, tag if len(tag) == 32 and not tag.strip("0123456789abcdef") else None)


def within(size: int, start: int, stop: int | None) -> tuple[int, int]:
    """Where a part of an object of this size begins and ends, asked for as `Client.get` has it."""
    first = max(0, size + start) if start < 0 else min(start, size)
    return first, size if stop is None else max(first, min(stop, size))


def check_length(data: memoryview, key: str, offset: int, expected: int) -> None:
    if len(data) != expected:
        raise CorruptDataError(
            "the server gave another number of bytes than it was asked for", key=key, offset=offset,
            expected=expected, found=len(data),
        )  # fmt: skip
