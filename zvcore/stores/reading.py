"""What stores of files share: ranges of an open file, and the keys below a folder in order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from zvcore.errors import CorruptDataError
from zvcore.stores.again import changed
from zvcore.stores.base import Stamp, outside
from zvcore.stores.ranges import coalesce

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from zvcore.stores.base import Refused
    from zvcore.stores.files import OpenFile

__all__ = ["OpenFolder", "keys_below", "read_ranges"]

# Copying this many bytes that nobody wants costs about as much as another request.
_GAP = 32 * 1024
_LARGEST_SPAN = 16 * 1024 * 1024

_NOTHING = memoryview(b"")


class OpenFolder(Protocol):
    """A folder that is open to be read once."""

    @property
    def identity(self) -> tuple[int, int]:
        """What tells folders apart."""

    def keys(self, head: str) -> tuple[list[str], list[str]]:
        """(folders, objects): names after `head`, and folders with a slash at the end."""


def read_ranges(file: OpenFile, key: str, ranges: Sequence[tuple[int, int]], stamp: Stamp | None) -> list[memoryview]:
    """The bytes of each (offset, length) of an object. ConflictError if it is not the one that the stamp is of."""
    try:
        return _read_within(file, key, ranges, stamp)
    except CorruptDataError:
        # Ranges of another version of the object need not lie within this one.
        if stamp is not None and file.stamp() != stamp:
            raise changed(key, stamp) from None
        raise


def _read_within(file: OpenFile, key: str, ranges: Sequence[tuple[int, int]], stamp: Stamp | None) -> list[memoryview]:
    result = [_NOTHING] * len(ranges)
    size = file.size()
    for start, stop, members in coalesce(key, ranges, size, _GAP, _LARGEST_SPAN):
        data = memoryview(file.read(start, stop - start, size))
        if len(data) != stop - start:  # cut off meanwhile
            raise outside(key, start, stop - start, start + len(data))
        if len(members) == 1:
            result[members[0]] = data
            continue
        for index in members:
            offset, length = ranges[index]
            result[index] = data[offset - start : offset - start + length]
    if stamp is not None and file.stamp() != stamp:
        raise changed(key, stamp)
    return result


# By its number on Linux where Python was built without: who does not know it refuses it.


def keys_below(prefix: str, enter: Callable[[str], OpenFolder | None], refused: Refused | None = None) -> Iterator[str]:
    """The keys of all objects below a folder, in order.

    `enter` opens a folder by its key with a slash after it, or ""; None where there is none. `refused` is told of
    folders that cannot be read, which are passed over then; without it, the first such one is an error.
    """
    # A stack of (what is left of a folder, the folder's identity): links may lead in circles.
    stack: list[tuple[Iterator[str], tuple[int, int]]] = []
    above: set[tuple[int, int]] = set()
    entering = prefix + "/" if prefix else ""
    while True:
        folder = None
        folders: list[str] = []
        objects: list[str] = []
        try:
            folder = enter(entering)
            if folder is not None and folder.identity not in above:
                folders, objects = folder.keys(entering)
        except OSError as error:
            if refused is None:
                raise
            refused(entering.rstrip("/"), error)
        # A folder's keys begin with its name and a slash: sorted so, all keys come in order.
        objects.sort()
        if folder is not None and folders:
            stack.append((iter(sorted([*objects, *folders])), folder.identity))
            above.add(folder.identity)
        else:
            yield from objects
        # Closed before the next is opened.
        del folder
        while True:
            if not stack:
                return
            key = next(stack[-1][0], None)
            if key is None:
                above.discard(stack.pop()[1])
            elif key.endswith("/"):
                entering = key
                break
            else:
                yield key
