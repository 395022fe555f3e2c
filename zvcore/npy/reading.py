"""Arrays as numpy stores them: a header, then the values as they are."""

from __future__ import annotations

import io
import re
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from zvcore.borrowed.array import BorrowedArray, BorrowedGroup
from zvcore.borrowed.flat import FlatLayout, Values
from zvcore.errors import CorruptDataError, MetadataError, NotFoundError, UnsupportedError
from zvcore.stores.single_file import SingleFileStore
from zvcore.stores.zip_store import ZipStore

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from zvcore.stores import Store

__all__ = ["read"]

_FORMAT = "npy"
_ENDING = ".npy"
# As large as numpy itself takes headers of strangers, and what stands before them.
LARGEST_HEADER = 10_000
_HEAD = LARGEST_HEADER + 12
_MAGIC = b"\x93NUMPY"
# What numpy itself writes of an array of numbers, which is shorter than what is read at first.
_FIRST = 256
_USUAL = re.compile(
    rb"\x93NUMPY\x01\x00..\{'descr': '([<>|][biufc][0-9]{1,2})', 'fortran_order': (True|False), "
    rb"'shape': \(((?:(?:0|[1-9][0-9]{0,18})(?:, (?:0|[1-9][0-9]{0,18}))*,?)?)\), \} *\n",
    re.DOTALL,
)


def read(store: Store) -> Any:
    """The array of a file, or the arrays of an archive by their names; of a store that says which, that one."""
    assert isinstance(store, SingleFileStore)
    head = bytes(store.get(store.file, 0, _FIRST) or b"")
    if head.startswith(_MAGIC):
        if store.inside:
            raise NotFoundError("a .npy file is one array, in which nothing lies", key=store.root)
        return _array(store, store.file, store, head)
    archive = ZipStore(store.folder, store.file)
    names = [key.removesuffix(_ENDING) for key in archive.list() if key.endswith(_ENDING)]
    if store.inside in names:
        return _member(archive, store)
    below = f"{store.inside}/" if store.inside else ""
    here = [name for name in names if name.startswith(below)]
    if store.inside and not here:
        raise NotFoundError("the archive has no such array", key=store.root)
    return _group(archive, store, {name.removeprefix(below): name for name in here})


def _group(archive: ZipStore, place: SingleFileStore, names: Mapping[str, str]) -> BorrowedGroup:
    """Arrays by their names here: {name: the whole name}; those with a slash lie in groups."""
    members: dict[str, Callable[[], Any]] = {}
    deeper: dict[str, dict[str, str]] = {}
    for name, whole in names.items():
        first, slash, rest = name.partition("/")
        if slash:
            deeper.setdefault(first, {})[rest] = whole
        else:
            members[name] = partial(_member, archive, place.within(whole))
    for name, inner in deeper.items():
        if name in members:
            raise UnsupportedError("an array and others in a group of the same name", key=place.root, found=name)
        path = next(iter(inner.values())).removesuffix(next(iter(inner)))
        members[name] = partial(_group, archive, place.within(path), inner)
    return BorrowedGroup(_FORMAT, place, members)


def _member(archive: ZipStore, place: SingleFileStore) -> BorrowedArray:
    return _array(archive, place.inside + _ENDING, place)


def _array(store: Store, key: str, place: Store, head: bytes = b"") -> BorrowedArray:
    """The array whose header and values are an object of a store, which begins with `head`, as far as it was read."""
    values = _usual_values(head)
    if values is None:
        values = _values(bytes(store.get(key, 0, _HEAD) or b""), key)
    whole = isinstance(store, ZipStore) and store.is_packed(key)
    # Axes are in the order of their indices, however memory lies.
    return BorrowedArray(FlatLayout(store, key, values, whole=whole), format=_FORMAT, store=place, order="C")


def _usual_values(head: bytes) -> Values | None:
    """What a header says that has the words and spaces which numpy writes, for which Python's own parser takes longer
    than all else; None for others.
    """
    found = _USUAL.match(head)
    if found is None or found.end() != _begin(head, (1, 0)):
        return None
    kind, fortran, shape = (one.decode("ascii") for one in found.groups())
    lengths = tuple(map(int, shape.replace(",", " ").split()))
    # Without a comma, a number in brackets is a number.
    if max(lengths, default=0) >= 1 << 62 or (len(lengths) == 1 and "," not in shape):
        return None
    try:
        return Values(found.end(), lengths, np.dtype(kind), "F" if fortran == "True" else "C")
    except TypeError:  # there are no such numbers
        return None


def _values(head: bytes, key: str) -> Values:
    """What a header says, which is anybody's."""
    file = io.BytesIO(head)
    try:
        version = np.lib.format.read_magic(file)
        if version not in ((1, 0), (2, 0), (3, 0)):
            raise UnsupportedError("the header is of another version", key=key, expected="1.0 to 3.0", found=version)
        length = _begin(head, version)
        if length > LARGEST_HEADER:
            told = f"at most {LARGEST_HEADER} bytes"
            raise UnsupportedError("a header of this size", key=key, expected=told, found=length)
        parse = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, fortran, dtype = parse(_escaped(head) if version == (3, 0) else file, max_header_size=LARGEST_HEADER)
    except UnsupportedError:
        raise
    except Exception as error:  # whatever Python's own parser makes of a header, which is an expression
        raise MetadataError(f"the header is no header of numpy: {error}", key=key, offset=0) from error
    if not all(type(n) is int and 0 <= n < 1 << 62 for n in shape):
        raise MetadataError("the header has no shape", key=key, found=shape)
    if dtype.hasobject:
        raise UnsupportedError("items are pickled Python objects, which are not read", key=key, found=str(dtype))
    if dtype.subdtype is not None or not dtype.itemsize:
        raise CorruptDataError("items of no size", key=key, found=str(dtype))
    return Values(_begin(head, version), tuple(shape), dtype, "F" if fortran else "C")


def _begin(head: bytes, version: tuple[int, int]) -> int:
    """Where the values begin."""
    size = 2 if version == (1, 0) else 4
    return 8 + size + int.from_bytes(head[8 : 8 + size], "little")


def _escaped(head: bytes) -> io.BytesIO:
    """What follows the version 3.0, as version 2.0 has it: in letters that both have, since headers are expressions."""
    text = head[12 : _begin(head, (3, 0))].decode("utf-8").encode("ascii", "backslashreplace")
    return io.BytesIO(len(text).to_bytes(4, "little") + text)
