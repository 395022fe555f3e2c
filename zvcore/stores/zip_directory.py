"""What a zip archive says of its entries: the directory at its end, read with distrust, and written.

Sizes, offsets and counts are held against the archive's size before anything is made of them, so that reading takes
memory in proportion to bytes that are there.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from zvcore.errors import CorruptDataError, InvalidKeyError, UnsupportedError
from zvcore.stores.files import encode_key
from zvcore.stores.zip_entries import UsualEntries

__all__ = [
    "DEFLATED",
    "LONGEST_END",
    "STORED",
    "Entry",
    "data_offset",
    "directory_bytes",
    "least_offset",
    "local_header",
    "read_directory",
    "size_of_header",
]

STORED, DEFLATED = 0, 8
# Nothing else shrinks by more than this with deflate.
_MOST_SHRUNK = 1032
_LOCAL = struct.Struct("<IHHHHHIIIHH")
_CENTRAL = struct.Struct("<IHHHHHHIIIHHHHHII")
_END = struct.Struct("<IHHHHIIH")
_LOCATOR = struct.Struct("<IIQI")
_END64 = struct.Struct("<IQHHIIQQQQ")
_LOCAL_MARK, _CENTRAL_MARK, _END_MARK = 0x04034B50, 0x02014B50, 0x06054B50
_LOCATOR_MARK, _END64_MARK = 0x07064B50, 0x06064B50
_WIDE, _SHORT = 0xFFFFFFFF, 0xFFFF
# The most bytes in which the end of an archive is found, which says where its directory lies.
LONGEST_END = _END.size + _SHORT + _LOCATOR.size
_ENCRYPTED, _UTF8 = 1, 1 << 11
# 1980-01-01, the first day that zip knows: the same data make the same archive.
_DAY = 1 << 5 | 1
_LARGEST = 1 << 30

Read = Callable[[int, int], bytes]


class Entry(NamedTuple):
    """An object of an archive.

    at      where its own header begins; its bytes lie behind that
    stored  how many bytes those are, `size` how many they stand for
    limit   where the next entry or the directory begins: nothing of this one can lie behind it
    """

    at: int
    stored: int
    size: int
    crc: int
    method: int
    limit: int = 0


class _Usual(UsualEntries, Mapping[str, Entry]):
    """Entries that are made when they are asked for: most readers want few of them."""

    __slots__ = ()


def read_directory(read: Read, size: int, where: str) -> tuple[Mapping[str, Entry], bytes]:
    """The entries of an archive of `size` bytes by their names, and its comment. `read(offset, length)` gives bytes.

    Of entries of one name the last holds, as all readers have it.
    """
    tail_at = max(0, size - LONGEST_END)
    tail = read(tail_at, size - tail_at)
    end = _find_end(tail, where)
    _, disk, first, _, count, length, offset, _ = _END.unpack_from(tail, end)
    comment = tail[end + _END.size :]
    above = tail_at + end
    if _SHORT in (disk, first, count) or _WIDE in (length, offset):
        found = _wide_end(read, tail, tail_at, end, where)
        if found is not None:
            count, length, offset, above = found
    elif disk or first:
        raise UnsupportedError("an archive in several files", key=where)
    if offset + length > above:
        raise CorruptDataError(
            "the directory of the archive does not lie within it", key=where, offset=offset, length=length,
            expected=f"at most {above} bytes", found=offset + length,
        )  # fmt: skip
    if count * _CENTRAL.size > length or length > _LARGEST:
        expected = f"at most {min(length, _LARGEST) // _CENTRAL.size} entries"
        raise CorruptDataError(
            "the directory of the archive is no directory", key=where, expected=expected, found=count
        )
    # Archives may stand behind other data, whose offsets then count from their own beginning.
    shift = above - length - offset
    raw = read(above - length, length)
    usual = _Usual()
    if usual.read(raw, count, shift, above - length, Entry):
        return usual, comment
    return _bounded(_entries(raw, count, shift, where), above - length, where), comment


def _find_end(tail: bytes, where: str) -> int:
    mark = _END_MARK.to_bytes(4, "little")
    at = tail.rfind(mark)
    while at >= 0:
        if at + _END.size <= len(tail) and at + _END.size + _END.unpack_from(tail, at)[7] == len(tail):
            return at
        at = tail.rfind(mark, 0, at)
    raise CorruptDataError(
        "this is no zip archive, or its end is missing", key=where, expected="a directory at its end"
    )


def _wide_end(read: Read, tail: bytes, tail_at: int, end: int, where: str) -> tuple[int, int, int, int] | None:
    """(count, length, offset) of the directory, and where it ends, of an archive that says them in 64 bits."""
    at = end - _LOCATOR.size
    if at < 0 or int.from_bytes(tail[at : at + 4], "little") != _LOCATOR_MARK:
        return None
    _, _, offset, disks = _LOCATOR.unpack_from(tail, at)
    # Where it says, or right before the locator in an archive that stands behind other data.
    for place in (offset, tail_at + at - _END64.size):
        if not 0 <= place <= tail_at + at - _END64.size:
            continue
        raw = read(place, _END64.size)
        mark, _, _, _, disk, first, _, count, length, begin = _END64.unpack(raw)
        if mark == _END64_MARK:
            if disk or first or disks > 1:
                raise UnsupportedError("an archive in several files", key=where)
            return count, length, begin, place
    raise CorruptDataError("the 64-bit end of the archive is missing", key=where, offset=offset)


def _entries(raw: bytes, count: int, shift: int, where: str) -> dict[str, Entry]:
    found: dict[str, Entry] = {}
    at = 0
    for number in range(count):
        if at + _CENTRAL.size > len(raw):
            raise CorruptDataError("the directory of the archive is cut", key=where, expected=count, found=number)
        (mark, _, _, flags, method, _, _, crc, stored, size, name_size, extra_size, comment_size, _, _, _,
         offset) = _CENTRAL.unpack_from(raw, at)  # fmt: skip
        behind = at + _CENTRAL.size + name_size
        if mark != _CENTRAL_MARK or behind + extra_size + comment_size > len(raw):
            raise CorruptDataError("the directory of the archive is damaged", key=where, offset=at, found=f"{mark:#x}")
        name = raw[at + _CENTRAL.size : behind].decode("utf-8" if flags & _UTF8 else "cp437", "replace")
        if _WIDE in (stored, size, offset):
            size, stored, offset = _widened(raw[behind : behind + extra_size], size, stored, offset, where, name)
        at = behind + extra_size + comment_size
        if name.endswith("/") and size == 0:
            continue  # a folder
        if flags & _ENCRYPTED:
            raise UnsupportedError("an encrypted entry of an archive", key=f"{where}/{_shown(name)}")
        _check_entry(name, method, stored, size, where)
        found[name] = Entry(offset + shift, stored, size, crc, method)
    return found


def _check_entry(name: str, method: int, stored: int, size: int, where: str) -> None:
    try:
        encode_key(name)
    except InvalidKeyError as error:
        raise CorruptDataError(
            f"an entry of the archive has a name that no object can have ({error})", key=where, found=_shown(name)
        ) from None
    key = f"{where}/{_shown(name)}"
    if method == STORED and stored != size:
        raise CorruptDataError("a stored entry has two sizes", key=key, expected=size, found=stored)
    if method == DEFLATED and size > stored * _MOST_SHRUNK:
        expected = f"at most {stored * _MOST_SHRUNK} bytes"
        raise CorruptDataError("an entry claims more than its bytes can hold", key=key, expected=expected, found=size)


def _shown(name: str) -> str:
    return name if len(name) < 80 else name[:77] + "..."


def _widened(extra: bytes, size: int, stored: int, offset: int, where: str, name: str) -> tuple[int, int, int]:
    """Those of three numbers that do not fit into 32 bits, from the field that is there for them."""
    at = 0
    while at + 4 <= len(extra):
        identifier, length = struct.unpack_from("<HH", extra, at)
        at += 4
        if identifier == 1:
            if at + length > len(extra):
                what, key = "the field of an entry's 64-bit sizes is cut", f"{where}/{_shown(name)}"
                raise CorruptDataError(what, key=key, expected=length, found=len(extra) - at)
            values = [value for (value,) in struct.iter_unpack("<Q", extra[at : at + length // 8 * 8])]
            wanted = [number == _WIDE for number in (size, stored, offset)]
            if len(values) >= sum(wanted):
                given = iter(values)
                size, stored, offset = (
                    next(given) if wide else number for wide, number in zip(wanted, (size, stored, offset), strict=True)
                )
                return size, stored, offset
        at += length
    if size == stored == _WIDE:
        raise CorruptDataError("an entry lacks its 64-bit sizes", key=f"{where}/{_shown(name)}")
    return size, stored, offset


def _bounded(entries: dict[str, Entry], end: int, where: str) -> dict[str, Entry]:
    """The entries with their limits: none may reach into the next one or into the directory."""
    order = sorted(entries.items(), key=lambda item: item[1].at)
    following = itertools.chain((entry.at for _, entry in order[1:]), (end,))
    # An archive may hold nothing, or folders alone.
    for (name, entry), limit in zip(order, following, strict=bool(order)):
        least = entry.at + _LOCAL.size + entry.stored
        if entry.at < 0 or least > limit:
            raise CorruptDataError(
                "an entry of the archive reaches into the next one, or out of the archive", offset=max(0, entry.at),
                key=f"{where}/{_shown(name)}", length=entry.stored, expected=f"an end before {limit}", found=least,
            )  # fmt: skip
        entries[name] = entry._replace(limit=limit)
    return entries


# --- the header in front of an entry's bytes


def size_of_header(name: str, entry: Entry) -> int:
    """How many bytes `data_offset` needs to see of the header of an entry, or more."""
    return min(least_offset(name, entry), entry.limit) - entry.at


def least_offset(name: str, entry: Entry) -> int:
    """Where an entry's bytes begin if its header says no more than it must."""
    return entry.at + _LOCAL.size + len(name.encode())


def data_offset(header: bytes, name: str, entry: Entry, where: str) -> int:
    """Where an entry's bytes begin, from the header in front of them."""
    key = f"{where}/{_shown(name)}"
    if len(header) < _LOCAL.size or int.from_bytes(header[:4], "little") != _LOCAL_MARK:
        raise CorruptDataError("there is no entry where the archive's directory says", key=key, offset=entry.at)
    fields = _LOCAL.unpack_from(header)
    name_size, extra_size = int(fields[9]), int(fields[10])
    own = header[_LOCAL.size : _LOCAL.size + name_size].decode("utf-8" if fields[2] & _UTF8 else "cp437", "replace")
    if own != name:
        raise CorruptDataError(
            "an entry has another name than the archive's directory says", key=key, offset=entry.at, expected=name,
            found=_shown(own),
        )  # fmt: skip
    begin = entry.at + _LOCAL.size + name_size + extra_size
    if begin + entry.stored > entry.limit:
        raise CorruptDataError(
            "an entry of the archive reaches into the next one, or out of the archive", key=key, offset=begin,
            length=entry.stored, expected=f"an end before {entry.limit}", found=begin + entry.stored,
        )  # fmt: skip
    return begin


def local_header(name: str, entry: Entry, fill: int = 0) -> bytes:
    """The header of an entry; with `fill`, made that many bytes longer (none, or at least 4) by a field of zeros."""
    encoded = name.encode()
    wide = entry.stored >= _WIDE or entry.size >= _WIDE
    extra = struct.pack("<HHQQ", 1, 16, entry.size, entry.stored) if wide else b""
    if fill:
        extra += struct.pack("<HH", 0xFFFF, fill - 4) + bytes(fill - 4)
    sizes = (_WIDE, _WIDE) if wide else (entry.stored, entry.size)
    return _LOCAL.pack(
        _LOCAL_MARK, 45 if wide else 20, _UTF8, entry.method, 0, _DAY, entry.crc, *sizes, len(encoded), len(extra)
    ) + encoded + extra  # fmt: skip


def directory_bytes(entries: Iterable[tuple[str, Entry]], at: int, comment: bytes = b"") -> bytes:
    """The directory that stands at an offset, behind all entries, in this order."""
    parts = []
    count = 0
    for name, entry in entries:
        count += 1
        encoded = name.encode()
        wide = [number for number in (entry.size, entry.stored, entry.at) if number >= _WIDE]
        extra = struct.pack(f"<HH{len(wide)}Q", 1, 8 * len(wide), *wide) if wide else b""
        version = 45 if wide else 20
        parts.append(_CENTRAL.pack(
            _CENTRAL_MARK, 3 << 8 | version, version, _UTF8, entry.method, 0, _DAY, entry.crc, min(entry.stored, _WIDE),
            min(entry.size, _WIDE), len(encoded), len(extra), 0, 0, 0, 0o644 << 16, min(entry.at, _WIDE),
        ) + encoded + extra)  # fmt: skip
    directory = b"".join(parts)
    length = len(directory)
    if count >= _SHORT or length >= _WIDE or at >= _WIDE:
        directory += _END64.pack(_END64_MARK, _END64.size - 12, 45, 45, 0, 0, count, count, length, at)
        directory += _LOCATOR.pack(_LOCATOR_MARK, 0, at + length, 1)
    return directory + _END.pack(
        _END_MARK, 0, 0, min(count, _SHORT), min(count, _SHORT), min(length, _WIDE), min(at, _WIDE), len(comment)
    ) + comment  # fmt: skip
