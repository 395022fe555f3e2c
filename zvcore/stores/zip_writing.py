"""What is written to a zip archive, until the archive is finished.

New objects go to a temporary file beside the archive. Finishing adds what stays of the old archive, the documents and
the directory, and gives that file the archive's name: until then others see the old archive, and nothing else ever.
"""

from __future__ import annotations

import contextlib
import json
import os
import warnings
import zlib
from typing import TYPE_CHECKING

from zvcore.errors import ConflictError, CorruptDataError, UnsupportedError
from zvcore.kernels.crc32 import crc32
from zvcore.stores.durability import single_object_code
from zvcore.stores.file_writes import finish
from zvcore.stores.folders import sync
from zvcore.stores.plain_files import lacking
from zvcore.stores.zip_directory import (
    DEFLATED,
    STORED,
    Entry,
    data_offset,
    directory_bytes,
    local_header,
    size_of_header,
)
from zvcore.stores.zip_leftovers import temporary_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from typing_extensions import Buffer

    from zvcore.stores.base import Stamp, Store

__all__ = ["Writing", "bytes_of", "check", "is_document", "unpacked"]

# So much is left free for the first document, which shall stand in front and is known last.
_FRONT = 8 << 10
_PIECE = 4 << 20
_LARGEST_DOCUMENT = 16 << 20
_ROOT = "zarr.json"


class Writing:
    """What is written and not yet in the archive. Entries say where their bytes begin, not their headers.

    Documents are kept in memory: they change often, and the archive begins with them.
    """

    def __init__(self, folder: Store, name: str, stamp: Stamp | None, old: Mapping[str, Entry]) -> None:
        self.root = f"{folder.root.rstrip('/')}/{name}"
        if folder.local_root is None:
            raise UnsupportedError("archives are written on disks of this machine only", key=self.root)
        self.folder = folder
        self.name = name
        self.stamp = stamp
        self.old = old
        self.entries: dict[str, Entry] = {}
        self.documents: dict[str, bytes] = {}
        self.gone: set[str] = set()
        self.headers: dict[str, int] = {}
        self.process = os.getpid()
        self.place = os.fsdecode(folder.local_root)
        # As folders and other files are made, with those above them.
        self.made = lacking(os.fsencode(self.place))
        os.makedirs(self.place, exist_ok=True)
        self.path, self.file = temporary_file(self.place, name)
        self.at = _FRONT

    def put(self, key: str, parts: Sequence[Buffer]) -> None:
        self.forget(key)
        views = [memoryview(part).cast("B") for part in parts]
        size = sum(len(view) for view in views)
        if is_document(key) and size <= _LARGEST_DOCUMENT:
            self.documents[key] = b"".join(views)
        else:
            self._append(key, _stored(views), views)

    def forget(self, key: str) -> None:
        self.entries.pop(key, None)
        self.documents.pop(key, None)
        self.gone.add(key)  # of the old archive

    def _append(self, key: str, entry: Entry, pieces: Iterable[Buffer]) -> None:
        header = local_header(key, entry)
        self.headers[key] = self.at
        self.file.seek(self.at)
        self._write(header)
        for piece in pieces:
            self._write(piece)
        begin, self.at = self.at + len(header), self.file.tell()
        self.entries[key] = entry._replace(at=begin, limit=self.at)

    def _write(self, data: Buffer) -> None:
        view = memoryview(data).cast("B")
        try:
            while len(view):
                view = view[self.file.write(view) :]
        except OSError as error:
            error.filename = self.root
            raise

    def bytes_at(self, at: int, length: int) -> memoryview:
        """What was written here, of which one call to the system may give only a part."""
        data = memoryview(bytearray(length))
        done = 0
        while done < length:
            got = os.preadv(self.file.fileno(), [data[done:]], at + done)
            if not got:
                raise CorruptDataError("the archive that is being written was cut", key=self.path, offset=at + done)
            done += got
        return data.toreadonly()

    # --- the end

    def finish(self) -> None:
        if os.getpid() != self.process:
            return  # a copy that came into being by forking
        # What was written into an archive that was not there, and removed again, makes none.
        wanted = self.stamp is not None or bool(self.documents or self.entries)
        try:
            if wanted:
                self._complete()
                self._rename()
        except BaseException:
            wanted = False
            raise
        finally:
            if not wanted:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(self.path)
            self.file.close()

    def finish_unasked(self) -> None:
        """At the end of the process, or when nobody can reach the archive: all that reaches anybody is a warning."""
        try:
            self.finish()
        except Exception as error:
            warnings.warn(f"what was written to {self.root} is lost: {error}", RuntimeWarning, stacklevel=2)

    def _complete(self) -> None:
        for name in self.old:
            if name not in self.gone:
                self._take_over(name, self.old[name])
        comment = _comment(self.documents.get(_ROOT))
        documents = sorted(self.documents, key=_place_of_document)
        self._fill_front(documents)
        for name in documents:
            if name not in self.entries:
                data = self.documents[name]
                self._append(name, _stored([data]), [data])
        others = [name for name in self.entries if name not in self.documents]
        entries = ((name, self.entries[name]._replace(at=self.headers[name])) for name in [*documents, *others])
        self.file.seek(self.at)
        self._write(directory_bytes(entries, self.at, comment))
        self.file.truncate()

    def _take_over(self, name: str, entry: Entry) -> None:
        """An object of the old archive, as it is stored there."""
        begin = data_offset(bytes(self._old_bytes(entry.at, size_of_header(name, entry))), name, entry, self.root)
        if is_document(name) and max(entry.size, entry.stored) <= _LARGEST_DOCUMENT:
            packed = bytes(self._old_bytes(begin, entry.stored))
            self.documents[name] = packed if entry.method == STORED else unpacked(packed, entry, f"{self.root}/{name}")
            return
        stop = begin + entry.stored
        pieces = (self._old_bytes(at, min(_PIECE, stop - at)) for at in range(begin, stop, _PIECE))
        self._append(name, entry, pieces)

    def _old_bytes(self, at: int, length: int) -> Buffer:
        return bytes_of(self.folder, self.name, at, length, self.stamp)

    def _fill_front(self, documents: Sequence[str]) -> None:
        """Write the first document that fits into the place that was left free; without one, there is no such place."""
        for name in documents:
            data = self.documents[name]
            entry = _stored([data])
            fill = _FRONT - len(local_header(name, entry)) - len(data)
            if fill == 0 or fill >= 4:
                header = local_header(name, entry, fill)
                self.file.seek(0)
                self._write(header + data)
                self.headers[name] = 0
                self.entries[name] = entry._replace(at=len(header))
                return
        for at in range(_FRONT, self.at, _PIECE):
            moved = os.pread(self.file.fileno(), min(_PIECE, self.at - at), at)
            self.file.seek(at - _FRONT)
            self._write(moved)
        self.at -= _FRONT
        self.headers = {name: at - _FRONT for name, at in self.headers.items()}

    def _rename(self) -> None:
        with self.folder.lock(self.name):
            if self.folder.stamp(self.name) != self.stamp:
                raise ConflictError("another writer has changed the archive in the meantime", key=self.root)
            place = os.fsencode(os.path.join(self.place, self.name))
            how = single_object_code(self.folder.durability)
            finish(os.dup(self.file.fileno()), os.fsencode(self.path), place, how)
            if self.folder.durability == "fsync":
                for new in self.made:
                    sync(os.path.dirname(new))


def is_document(key: str) -> bool:
    """Whether this describes other objects, by its name."""
    name = key.rpartition("/")[2]
    return name.startswith(".") or name.endswith(".json")


def _place_of_document(key: str) -> tuple[bool, int, str]:
    """RFC-9 of OME-Zarr: zarr.json of the root, then of what lies in it, level by level."""
    return key.rpartition("/")[2] != _ROOT, key.count("/"), key


def _stored(parts: Sequence[Buffer]) -> Entry:
    crc = size = 0
    for part in parts:
        crc = crc32(part, crc)
        size += memoryview(part).nbytes
    return Entry(0, size, size, crc, STORED)


def _comment(root: bytes | None) -> bytes:
    """What RFC-9 wants an archive of OME-Zarr to say of itself.

    Stores know no documents; this one alone is looked into, and what cannot be read says nothing.
    """
    try:
        version = json.loads(root or b"{}")["attributes"]["ome"]["version"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return b""
    said = {"ome": {"version": version, "zipFile": {"centralDirectory": {"jsonFirst": True}}}}
    return json.dumps(said).encode() if isinstance(version, str) and len(version) < 100 else b""


def bytes_of(folder: Store, name: str, at: int, length: int, stamp: Stamp | None) -> Buffer:
    """Bytes of an archive that is still the one of this stamp."""
    if length == 0:
        return b""
    found = folder.get_ranges(name, [(at, length)], stamp=stamp)
    if found is None:
        raise ConflictError("the archive is gone", key=name)
    return found[0]


def unpacked(packed: Buffer, entry: Entry, where: str) -> bytes:
    """What a compressed entry stands for, which is no more than its directory says."""
    if entry.method != DEFLATED:
        raise UnsupportedError(f"an entry that was compressed by method {entry.method} of zip", key=where)
    unpacker = zlib.decompressobj(-15)
    try:
        data = unpacker.decompress(packed, entry.size + 1)
    except zlib.error as error:
        raise CorruptDataError(f"an entry of the archive is damaged ({error})", key=where) from None
    if len(data) != entry.size or not unpacker.eof:
        raise CorruptDataError(
            "an entry of the archive has another size than its directory says", key=where, expected=entry.size,
            found=len(data) if unpacker.eof else f"at least {len(data)}, and no end",
        )  # fmt: skip
    return data


def check(parts: Iterable[Buffer], entry: Entry, where: str) -> None:
    """The checksum of an entry, all of which the parts are together."""
    found = 0
    for part in parts:
        found = crc32(part, found)
    if found != entry.crc:
        raise CorruptDataError(
            "an entry of the archive has another checksum than its directory says", key=where, codec="crc32",
            expected=f"{entry.crc:08x}", found=f"{found:08x}",
        )  # fmt: skip
