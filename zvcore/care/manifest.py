"""Manifests: a checksum of every object of a dataset, kept with it, so that any copy of it can be checked anywhere.

A manifest is JSON, one value per line, in the order of the keys:

    {"zvcore_manifest": 1, "algorithm": "sha256"}
    {"key": "c/0/0", "size": 1234, "sha256": "9f86d0..."}
    ...
    {"objects": 1, "bytes": 1234}

It is written and read line by line: the memory that this takes does not grow with the number of objects.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from zvcore.care.refusals import refusal
from zvcore.care.unfinished import refuse_unfinished
from zvcore.converting.note import places_above
from zvcore.engine import default_thread_count, thread_count
from zvcore.errors import MetadataError, NotFoundError, StoreError, UnsupportedError, ZvcoreError
from zvcore.opening import store_at
from zvcore.progress import shown
from zvcore.report import What
from zvcore.stores import Store, open_store
from zvcore.stores.others import unreadable_objects
from zvcore.stores.presence import is_there
from zvcore.stores.single_file import SingleFileStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from zvcore.report import Report

__all__ = ["MANIFEST", "Entry", "check_manifest", "make_manifest", "manifest_around", "write_manifest"]

MANIFEST = ".zvcore-manifest.jsonl"
VERSION = 1
# What zvcore notes beside the data is no part of it.
_OWN = ".zvcore-"
# How many bytes of an object, or of the manifest, are held at once.
_PIECE = 8 << 20
_LONGEST_LINE = 1 << 20
# How many objects are under way for each thread, and how many requests to a store over a network.
_AHEAD = 4
_REQUESTS = 16
# How many objects that cannot be read are named.
_NAMED = 1000


@dataclass(frozen=True)
class Entry:
    """One object of a manifest."""

    key: str
    size: int
    digest: str

    def to_json(self) -> dict[str, Any]:
        return {"key": self.key, "size": self.size, "sha256": self.digest}


def make_manifest(
    path: str | os.PathLike[str] | Store,
    *,
    threads: int | None = None,
    progress: bool | Callable[[int, int], Any] = False,
    storage_options: Mapping[str, Any] | None = None,
    fsync: bool | None = None,
) -> tuple[int, int]:
    """Write the manifest of what lies at a path or URL, in place of one that is there: (how many objects, bytes).

    `verify` finds it there, and in every copy. An unfinished conversion gets none, and neither does what has objects
    that cannot be read, such as links that lead to nothing: what they lack would never be missed.
    `fsync` is as in `zvcore.open`.
    """
    threads = thread_count(threads)
    store = store_at(path, "r+", storage_options).durable(fsync)
    refuse_unfinished(path, store, None, storage_options, "certified")
    _refuse_unreadable(store)
    with shown(progress, _objects(store), "checksums", "object") as watch:
        return write_manifest(store, threads, watch)


def _refuse_unreadable(store: Store) -> None:
    """Notes of the error name each object that cannot be read, as far as there is room."""
    found = unreadable_objects(store)
    first = next(found, None)
    if first is not None:
        raise _none_without(first, found)


def _none_without(first: ZvcoreError, others: Iterator[ZvcoreError]) -> StoreError:
    error = StoreError(f"{first.message}; there is no manifest without it", key=first.key)
    for other in itertools.islice(others, _NAMED):
        error.add_note(str(other))
    if next(others, None) is not None:
        error.add_note("and more")
    return error


def write_manifest(
    store: Store, threads: int | None = None, watch: Callable[[int], Any] | None = None
) -> tuple[int, int]:
    """`make_manifest` at the root of a store."""
    objects = size = offset = 0
    unreadable: list[ZvcoreError] = []

    def look(store: Store, key: str) -> Entry | None:
        """The checksum of an object; once one cannot be read, only whether the others can be."""
        try:
            if not unreadable:
                return _digest(store, key)
            store.get(key, 0, 1)
        except StoreError:
            raise  # the store is out of reach
        except OSError as error:
            unreadable.append(refusal(error, store.root))
        return None

    with store.writer(MANIFEST) as writer:
        lines: list[bytes] = [_line({"zvcore_manifest": VERSION, "algorithm": "sha256"})]
        for entry in _looked_at(store, _objects(store), threads, look):
            objects, size = objects + 1, size + entry.size
            lines.append(_line(entry.to_json()))
            if watch is not None:
                watch(1)
            if len(lines) >= 4096:
                offset = _append(writer, offset, lines)
        if unreadable:
            first, *others = sorted(unreadable, key=lambda error: str(error.key))
            raise _none_without(first, iter(others))
        if not objects and store.remote:
            # What is no folder there is only a name, most likely a wrong one.
            raise NotFoundError("there is nothing here", key=store.root)
        lines.append(_line({"objects": objects, "bytes": size}))
        _append(writer, offset, lines)
    return objects, size


def _line(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value).encode() + b"\n"


def _append(writer: Any, offset: int, lines: list[bytes]) -> int:
    data = b"".join(lines)
    lines.clear()
    writer.write_at(offset, data)
    return offset + len(data)


def _objects(store: Store, prefix: str = "") -> Iterator[str]:
    """The keys of all data, in order."""
    last = ""
    for key in store.list(prefix):
        if key < last:
            raise UnsupportedError("this store does not list its objects in order", key=key)
        last = key
        if not key.rpartition("/")[2].startswith(_OWN):
            yield key


def _looked_at(
    store: Store, keys: Iterable[str], threads: int | None, look: Callable[[Store, str], Entry | None]
) -> Iterator[Entry]:
    """What `look` gives for each object, in the order of the keys, without None."""
    count = _REQUESTS if store.remote else threads or default_thread_count()
    waiting: deque[Future[Entry | None]] = deque()
    with ThreadPoolExecutor(count, "zvcore-manifest") as pool:
        for key in keys:
            waiting.append(pool.submit(look, store, key))
            if len(waiting) > count * _AHEAD:
                found = waiting.popleft().result()
                if found is not None:
                    yield found
        for one in waiting:
            found = one.result()
            if found is not None:
                yield found


def _digest(store: Store, key: str) -> Entry | None:
    digest, size = hashlib.sha256(), 0
    while True:
        data = store.get(key, size, _PIECE)
        if data is None:
            return None
        digest.update(data)
        size += len(data)
        if len(data) < _PIECE:
            return Entry(key, size, digest.hexdigest())


def _digest_if_readable(store: Store, key: str) -> Entry | None:
    """For a check: that one object cannot be read is told by others, and no reason not to look at the next."""
    try:
        return _digest(store, key)
    except OSError:
        return Entry(key, store.size(key) or 0, "")


# --- checking


def manifest_around(store: Store) -> tuple[Store, str] | None:
    """(the store with the manifest that tells of what lies here, where in it this is); None: there is none.

    Above a place it is looked for where that costs no requests. Where the question is refused, none of ours is there;
    where it fails, it is an error: what the manifest tells of would go unchecked.
    """
    try:
        if store.exists(MANIFEST):
            return store, ""
    except (ZvcoreError, PermissionError):
        return None
    if isinstance(store, SingleFileStore):
        around = manifest_around(store.folder)
        return None if around is None else (around[0], "/".join(filter(None, (around[1], store.file))))
    if store.local_root is not None:
        for above, inside in places_above(os.path.realpath(os.fsdecode(store.local_root))):
            try:
                found = is_there(os.path.join(above, MANIFEST))
            except PermissionError:
                continue
            if found:
                return open_store(above, "r"), inside
    return None


def check_manifest(
    store: Store,
    report: Report,
    only: str = "",
    *,
    fast: bool = False,
    threads: int | None = None,
    keep: Callable[[str], bool] | None = None,
) -> None:
    """Compare what lies in a store, or in a folder or object of it, with the store's manifest.

    Objects that are gone, changed or extra are problems. `fast`: sizes are compared, not checksums.
    With `keep`, only the objects that it is true of are looked at.
    """
    try:
        told = (entry for entry in _entries(store) if not only or entry.key == only or entry.key.startswith(f"{only}/"))
        if only and store.exists(only):
            there: Iterator[str] = iter([only])
        else:
            there = _objects(store, only)
        if keep is not None:
            told = (entry for entry in told if keep(entry.key))
            there = filter(keep, there)
        for entry, found in _compared(store, told, there, fast, threads):
            _tell(report, entry, found)
    except MetadataError as error:
        report.add(MANIFEST, error.told, kind=What.DOCUMENT, offset=error.offset)


def _tell(report: Report, entry: Entry | None, found: Entry | None) -> None:
    if entry is None:
        assert found is not None
        report.add(found.key, "the manifest does not name this object", kind=What.EXTRA)
        return
    report.count("objects of the manifest")
    if found is None:
        report.add(entry.key, "the manifest names this object, and it is gone", kind=What.GONE, expected=entry.size)
    elif found.size != entry.size:
        what = f"the object has another size than the manifest says: {found.size} bytes, not {entry.size}"
        report.add(entry.key, what, kind=What.CHANGED, expected=entry.size, found=found.size)
    elif found.digest and found.digest != entry.digest:
        what = "the object has other bytes than the manifest says: their checksums differ"
        report.add(entry.key, what, kind=What.CHANGED, expected=entry.digest, found=found.digest)


def _compared(
    store: Store, told: Iterator[Entry], there: Iterator[str], fast: bool, threads: int | None
) -> Iterator[tuple[Entry | None, Entry | None]]:
    """(what the manifest says, what is there) of each object, both in the order of keys."""
    looked = _sizes(store, there) if fast else _looked_at(store, there, threads, _digest_if_readable)
    entry, found = next(told, None), next(looked, None)
    while entry is not None or found is not None:
        if found is None or (entry is not None and entry.key < found.key):
            yield entry, None
            entry = next(told, None)
        elif entry is None or found.key < entry.key:
            yield None, found
            found = next(looked, None)
        else:
            yield entry, found
            entry, found = next(told, None), next(looked, None)


def _sizes(store: Store, keys: Iterator[str]) -> Iterator[Entry]:
    while batch := list(itertools.islice(keys, 1024)):
        for key, size in zip(batch, store.sizes(batch), strict=True):
            if size is not None:
                yield Entry(key, size, "")


def _entries(store: Store) -> Iterator[Entry]:
    """What a manifest says; MetadataError where it is none, or not whole."""
    lines = _lines(store)
    offset, head = next(lines, (0, None))
    if not isinstance(head, dict) or head.get("zvcore_manifest") != VERSION or head.get("algorithm") != "sha256":
        raise MetadataError("no manifest that is understood", key=MANIFEST, expected=f"version {VERSION}, sha256")
    objects, last = 0, ""
    for offset, value in lines:
        match value:
            case {"objects": int(count), "bytes": int()}:
                if count != objects or next(lines, None) is not None:
                    raise MetadataError(
                        "the manifest is not whole", key=MANIFEST, offset=offset, expected=count, found=objects
                    )
                return
            case {"key": str(key), "size": int(size), "sha256": str(digest)} if key > last and digest:
                objects, last = objects + 1, key
                yield Entry(key, size, digest)
            case _:
                raise MetadataError(
                    "a line of the manifest is not understood, or out of order", key=MANIFEST, offset=offset,
                    found=repr(value)[:80],
                )  # fmt: skip
    raise MetadataError("the manifest is not whole: its last line is missing", key=MANIFEST, offset=offset)


def _lines(store: Store) -> Iterator[tuple[int, Any]]:
    """(offset, value) of each line."""
    read = begin = 0
    rest = b""
    while True:
        data = bytes(store.get(MANIFEST, read, _PIECE) or b"")
        read += len(data)
        *whole, rest = (rest + data).split(b"\n")
        for line in whole:
            try:
                yield begin, json.loads(line)
            except (ValueError, RecursionError) as error:
                raise MetadataError(f"not JSON: {error}", key=MANIFEST, offset=begin) from None
            begin += len(line) + 1
        if len(data) < _PIECE or len(rest) > _LONGEST_LINE:
            break
    if rest:
        raise MetadataError("the manifest is not whole: its last line is cut", key=MANIFEST, offset=begin)
