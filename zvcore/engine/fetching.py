"""Batches of byte strings: read and decoded, or encoded, for whatever is not an array."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from zvcore import codecs
from zvcore.codecs.chain import CodecChain
from zvcore.engine.buffers import Keys
from zvcore.engine.chunks import Chunks, StaleSourcesError
from zvcore.engine.narrowing import parts_at_hand
from zvcore.engine.prepared import Prepared
from zvcore.engine.read import fetch_chunks
from zvcore.engine.sources import ABSENT, Sources
from zvcore.engine.work import Work
from zvcore.engine.write import encode_many as _encode_many
from zvcore.errors import ConflictError
from zvcore.stores.indexes import index_cache
from zvcore.system.threads import thread_count

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zvcore.engine.buffers import Buffers
    from zvcore.errors import ZvcoreError
    from zvcore.stores import Store

__all__ = ["StaleSourcesError", "at_hand", "ceiling", "encode_many", "fetch", "fetch_sound", "in_file", "reachable"]

# The engine believes stored bytes that are several times as many, and counts these in 64 bits.
_LARGEST = 1 << 60


def ceiling(max_size: int | None, expected: npt.NDArray[np.uint64] | None = None) -> int:
    """The most that the engine may make of a row; by it, it judges how many stored bytes are too many to be read."""
    most = min(codecs.max_decoded_size if max_size is None else max_size, _LARGEST)
    return most if expected is None or not len(expected) else min(most, int(expected.max()))


def fetch(
    store: Store,
    sources: Sources,
    chains: Sequence[CodecChain] | CodecChain = (),
    *,
    count: int | None = None,
    expected: npt.NDArray[np.uint64] | None = None,
    max_size: int | None = None,
    threads: int | None = None,
    progress: Callable[[int, int], Any] | None = None,
) -> Buffers:
    """The decoded bytes behind each row of `sources`, absent for what is not stored.

    Ranges of one object that lie close together are read at once; reading and decoding run on all threads. `expected`
    gives the decoded sizes where they are known; no row may decode to more than `max_size` (unless given,
    `zvcore.codecs.max_decoded_size`). StaleSourcesError if an object is no longer the one that `sources.stamps`
    refers to.
    """
    chunks = _chunks(store, sources, chains, count)
    return fetch_chunks(chunks, Work(thread_count(threads), progress), expected, ceiling(max_size, expected))


def fetch_sound(
    store: Store,
    sources: Sources,
    chains: Sequence[CodecChain] | CodecChain = (),
    *,
    count: int | None = None,
    expected: npt.NDArray[np.uint64] | None = None,
    threads: int | None = None,
) -> tuple[Buffers, list[tuple[int, ZvcoreError]]]:
    """What `fetch` gives, and (row, error) of each row whose bytes are wrong, which is absent.

    What is wrong with other than the bytes of a row, such as an object that is replaced meanwhile, is raised.
    """
    faults: list[tuple[int, ZvcoreError]] = []
    chunks = _chunks(store, sources, chains, count)
    return fetch_chunks(chunks, Work(thread_count(threads)), expected, ceiling(None, expected), faults), faults


def _chunks(store: Store, sources: Sources, chains: Sequence[CodecChain] | CodecChain, count: int | None) -> Chunks:
    """These rows as the engine takes them."""
    if isinstance(chains, CodecChain):
        chains = (chains,)
    rows = sources.count if count is None else count
    root = store.local_root
    # Who names no versions expects no StaleSourcesError: the store itself asks once more then.
    within = in_file(store, sources, rows) if root is None and sources.stamps is not None else None
    if within is not None:
        root, sources = within
    else:
        sources = reachable(store, sources, rows)
    return Chunks(Prepared(None, chains or (CodecChain(),), root), None, sources)


def encode_many(items: Sequence[Any], chain: CodecChain, *, threads: int | None = None) -> Buffers:
    """The encoded form of each of these byte strings."""
    return _encode_many(items, chain, Work(thread_count(threads)))


def reachable(store: Store, sources: Sources, count: int) -> Sources:
    """The sources as the engine's threads can read them: as they are if they are files, else `at_hand`."""
    return sources if store.local_root is not None else at_hand(store, sources, count)


def in_file(store: Store, sources: Sources, count: int) -> tuple[bytes, Sources] | None:
    """(a folder of this machine, the same rows as ranges of a file in it) where all objects lie in such a file; else
    None, also where something is wrong, for others to say what.
    """
    if sources.blobs is not None:
        return None
    within = store.in_file(list(sources.keys), sources.stamps)
    if within is None:
        return None
    # Of each object; what is not there has no length.
    begin, size, crc32 = np.array([one or (0, ABSENT, ABSENT) for one in within.objects], np.uint64).reshape(-1, 3).T
    if sources.key is not None:
        # Of indexes of another type numpy would make them, without the GIL.
        which = sources.key.astype(np.intp)
        begin, size, crc32 = begin[which], size[which], crc32[which]
    checksums: npt.NDArray[np.uint64] | None = crc32
    if sources.offset is not None and sources.length is not None:
        length, checksums = sources.length, None
        room = np.where(size == ABSENT, np.uint64(0), size)
        stored = length != ABSENT
        if np.any(stored & ((length > room) | (sources.offset > room - np.minimum(length, room)))):
            return None
        begin, size = begin + sources.offset, length
    return within.folder, Sources(
        keys=Keys.of([within.file]), key=np.zeros(count, np.int32), offset=begin, length=size, chain=sources.chain,
        crc32=checksums, stamps=[within.stamp], origin=sources,
    )  # fmt: skip


def at_hand(store: Store, sources: Sources, count: int) -> Sources:
    """The same sources with the bytes fetched through the store, for stores whose objects are not local files."""
    if sources.blobs is not None:
        return sources
    if count == 1 and sources.offset is not None and sources.length is not None and sources.length[0] != ABSENT:
        return _one_at_hand(store, sources)
    key = np.arange(count, dtype=np.int32) if sources.key is None else sources.key
    blobs: list[Any] = [None] * count
    parts = sources.parts
    if parts is not None and sources.offset is None:
        blobs, parts = parts_at_hand(store, [sources.keys[which] for which in key.tolist()], parts)
    elif sources.offset is None or sources.length is None:
        whole = list(store.get_many(list(sources.keys)))
        for row in range(count):
            blobs[row] = whole[key[row]]
    else:
        which, offset, length = key.tolist(), sources.offset.tolist(), sources.length.tolist()
        groups: dict[int, list[int]] = {}
        for row in range(count):
            if length[row] != ABSENT:
                groups.setdefault(which[row], []).append(row)
        requests = [
            (
                sources.keys[number],
                [(offset[row], length[row]) for row in groups[number]],
                None if sources.stamps is None else sources.stamps[number],
            )
            for number in sorted(groups)
        ]
        for number, found in zip(sorted(groups), _ranges(store, requests), strict=True):
            for row, data in zip(groups[number], found, strict=True):
                blobs[row] = data
        if store.remote and sources.stamps is not None and any(one == ABSENT for one in length):
            _check_absent(store, sources, key, np.flatnonzero(sources.length != ABSENT))
    return Sources(
        keys=sources.keys, blobs=blobs, parts=parts, chain=sources.chain, stamps=sources.stamps, origin=sources
    )


def _one_at_hand(store: Store, sources: Sources) -> Sources:
    """`at_hand` for a single range, of which there may be many one after the other."""
    assert sources.offset is not None and sources.length is not None
    which = 0 if sources.key is None else sources.key.item(0)
    name = sources.keys[which]
    stamp = None if sources.stamps is None else sources.stamps[which]
    try:
        parts = store.get_ranges(name, [(sources.offset.item(0), sources.length.item(0))], stamp=stamp)
    except ConflictError as error:
        index_cache().invalidate(store, name)
        raise StaleSourcesError from error
    if parts is None:
        index_cache().invalidate(store, name)
        raise StaleSourcesError
    return Sources(
        keys=sources.keys, blobs=parts, parts=sources.parts, chain=sources.chain, stamps=sources.stamps, origin=sources
    )


def _ranges(store: Store, requests: list[tuple[str, list[tuple[int, int]], Any]]) -> list[list[memoryview]]:
    try:
        found = store.get_ranges_many(requests)
    except ConflictError as error:
        for key, _, _ in requests:
            if error.key in (None, key):
                index_cache().invalidate(store, key)
        raise StaleSourcesError from error
    results = []
    for (key, _, _), parts in zip(requests, found, strict=True):
        if parts is None:
            index_cache().invalidate(store, key)
            raise StaleSourcesError
        results.append(parts)
    return results


def _check_absent(store: Store, sources: Sources, key: npt.NDArray[np.int32], present: npt.NDArray[np.intp]) -> None:
    """Indexes of remote stores come from the cache unchecked. What was read has shown that they hold; where an index
    says that nothing wanted is there, nothing was read.
    """
    assert sources.stamps is not None
    stamps = sources.stamps
    shown = set(key[present].tolist())
    doubtful = [which for which in np.unique(key).tolist() if which not in shown and stamps[which] is not None]
    for which, stamp in zip(
        doubtful, store.each(lambda which: store.stamp(sources.keys[which]), doubtful), strict=True
    ):
        if stamp != stamps[which]:
            index_cache().invalidate(store, sources.keys[which])
            raise StaleSourcesError
